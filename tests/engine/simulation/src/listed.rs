//! Enums with the lists of their variants.

/// An enum whose variants are in lists. `ALL` has those of every list, in their order. So each variant stands once.
macro_rules! listed {
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$of:meta])* $list:ident { $($(#[$doc:meta])* $variant:ident,)+ })+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($($(#[$doc])* $variant,)+)+
        }

        impl $name {
            /// Every one, in the order of tables.
            pub const ALL: &'static [Self] = &[$($(Self::$variant,)+)+];
            $($(#[$of])* pub const $list: &'static [Self] = &[$(Self::$variant),+];)+
        }
    };
}
