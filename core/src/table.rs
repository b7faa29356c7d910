//! Enums that all surfaces share: their codes and the English of their messages stand in one table.
//!
//! Nothing that the engine does reads the texts, so they are not in its WebAssembly.

/// Declares an enum as a table: each row has its doc, its variant, its stable code, and perhaps its message.
macro_rules! table {
    ($(#[$meta:meta])* $name:ident {
        $($(#[doc = $doc:literal])+ $variant:ident => $code:literal $(, $message:literal)?;)+
    }) => {
        $(#[$meta])*
        pub enum $name { $($(#[doc = $doc])+ $variant),+ }

        impl $name {
            /// All rows, in their order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The stable code. It is the same in every language binding.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$variant => $code),+ }
            }

            /// The message, with a `{field}` for everything that it says about this one case.
            #[doc(hidden)]
            pub const fn message(self) -> &'static str {
                match self { $(Self::$variant => concat!($($message)?)),+ }
            }

            /// What it means, for the types and the docs of a language binding.
            #[doc(hidden)]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+)),+ }
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.code())
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let row = |code: &str| Self::ALL.iter().copied().find(|row| row.code() == code);
                crate::serial::read_text(deserializer, "the code of one of leasehold's outcomes", row)
            }
        }
    };
}

/// Declares an enum whose variants carry something, and the table of its kinds.
macro_rules! table_of {
    ($(#[$meta:meta])* $name:ident, $(#[$kind_meta:meta])* $kind:ident {
        $($(#[doc = $doc:literal])+ $variant:ident $(($($tuple:tt)*))? $({$($fields:tt)*})? => $code:literal, $message:literal;)+
    }) => {
        $(#[$meta])*
        pub enum $name { $($(#[doc = $doc])+ $variant $(($($tuple)*))? $({$($fields)*})?),+ }

        table! { $(#[$kind_meta])* $kind { $($(#[doc = $doc])+ $variant => $code, $message;)+ } }

        impl $name {
            /// Its row in the table.
            pub const fn kind(&self) -> $kind {
                match self { $(Self::$variant { .. } => $kind::$variant),+ }
            }
        }
    };
}

/// Declares the kinds of locks. Each row has its doc, its variant with the names and types of what an acquire says about it, its code,
/// and the fifth of its keys: see `lua/README.md`. What reads an acquire reads these fields by name, so a row needs no reader.
macro_rules! kinds {
    (
        $(#[$meta:meta])* $name:ident,
        $(#[$family_meta:meta])* $family:ident,
        $(#[$fields_meta:meta])* $reader:ident {
            $(
                $(#[doc = $doc:literal])+
                $variant:ident $(($field:ident: $type:ty))? $({ $($(#[doc = $about:literal])+ $fields:ident: $types:ty,)+ })?
                => $code:literal, $members:literal;
            )+
        }
    ) => {
        $(#[$meta])*
        pub enum $name { $($(#[doc = $doc])+ $variant $(($type))? $({ $($(#[doc = $about])+ $fields: $types,)+ })?,)+ }

        table! { $(#[$family_meta])* $family { $($(#[doc = $doc])+ $variant => $code;)+ } }

        $(#[$fields_meta])*
        #[allow(missing_docs)] // The kinds document all of them.
        pub trait $reader {
            $($(fn $field(&self) -> Option<$type>;)? $($(fn $fields(&self) -> Option<$types>;)+)?)+
        }

        impl $name {
            /// Its row in the table.
            #[doc(hidden)]
            pub const fn family(self) -> $family {
                match self { $(Self::$variant { .. } => $family::$variant,)+ }
            }
        }

        impl $family {
            /// The names of what an acquire says about it.
            #[doc(hidden)]
            pub const fn fields(self) -> &'static [&'static str] {
                match self { $(Self::$variant => &[$(stringify!($field))? $($(stringify!($fields)),+)?],)+ }
            }

            /// Reads an acquire of this kind. None if a field can't be read.
            #[doc(hidden)]
            pub fn read(self, from: &impl $reader) -> Option<$name> {
                Some(match self { $(Self::$variant => $name::$variant $((from.$field()?))? $({ $($fields: from.$fields()?),+ })?,)+ })
            }

            /// The name of the side key with its members.
            pub(crate) const fn members(self) -> &'static str {
                match self { $(Self::$variant => $members,)+ }
            }
        }
    };
}

/// Declares the results of calls: each row has its doc, its variant with the names of its fields, and its stable code. Surfaces
/// that pass results on read their fields by name, so a new row needs no code of theirs.
macro_rules! outcomes {
    ($(#[$meta:meta])* $name:ident, $(#[$kind_meta:meta])* $kind:ident {
        $(
            $(#[doc = $doc:literal])+
            $variant:ident $(($field:ident: $type:ty))? $({ $($(#[doc = $about:literal])+ $fields:ident: $types:ty,)+ })? => $code:literal;
        )+
    }) => {
        table_of! {
            $(#[$meta])* $name, $(#[$kind_meta])* $kind {
                $($(#[doc = $doc])+ $variant $(($type))? $({ $($(#[doc = $about])+ $fields: $types,)+ })? => $code, "";)+
            }
        }

        impl $name {
            /// Gives each field and its name to `take`.
            #[doc(hidden)]
            pub fn fields(&self, mut take: impl FnMut(&'static str, Field<'_>)) {
                match self {
                    $(Self::$variant $(($field))? $({ $($fields),+ })? => {
                        $(take(stringify!($field), $field.field());)?
                        $($(take(stringify!($fields), $fields.field());)+)?
                    })+
                }
            }
        }

        impl $name {
            /// Gives each field to `take`, as `fields` does. A module that needs no names has none.
            #[doc(hidden)]
            pub fn values(&self, mut take: impl FnMut(Field<'_>)) {
                match self {
                    $(Self::$variant $(($field))? $({ $($fields),+ })? => {
                        $(take($field.field());)?
                        $($(take($fields.field());)+)?
                    })+
                }
            }
        }

        impl $kind {
            /// The name of each field, and its type: see [`Field`].
            #[doc(hidden)]
            pub const fn fields(self) -> &'static [(&'static str, &'static str)] {
                match self {
                    $(Self::$variant => &[
                        $((stringify!($field), <$type as IsField>::TYPE))?
                        $($((stringify!($fields), <$types as IsField>::TYPE)),+)?
                    ],)+
                }
            }
        }
    };
}

/// Declares the inputs of the engine. `acquires` and `calls` are calls of users, so each also has an `op`, and is an operation. Calls
/// have no options, and their fields are read by name (`CallFields`), so a new one needs no reader on the surfaces that pass calls on.
macro_rules! inputs {
    (
        $(#[$meta:meta])* $input:ident,
        $(#[$operation_meta:meta])* $operation:ident,
        $(#[$kind_meta:meta])* $kind:ident
        acquires<$a:lifetime> {
            $($(#[doc = $acquire_doc:literal])+ $acquire:ident {
                $($(#[doc = $option_doc:literal])+ $option:ident: $option_type:ty,)+
            },)+
        }
        calls {
            $($(#[doc = $doc:literal])+ $call:ident $({
                $($(#[doc = $about:literal])+ $field:ident: $type:ty,)+ $(; $extra:ident: $extra_type:ty)?
            })? => $code:literal;)+
        }
        events { $($(#[doc = $event_doc:literal])+ $event:ident $({ $($event_fields:tt)+ })?,)+ }
    ) => {
        $(#[$meta])*
        pub enum $input<$a> {
            $($(#[doc = $acquire_doc])+ $acquire {
                /// The call.
                op: OpId,
                $($(#[doc = $option_doc])+ $option: $option_type,)+
            },)+
            $($(#[doc = $doc])+ $call {
                /// The call.
                op: OpId,
                $($($(#[doc = $about])+ $field: $type,)+)?
            },)+
            $($(#[doc = $event_doc])+ $event $({ $($event_fields)+ })?,)+
        }

        impl $input<'_> {
            /// The names of all inputs.
            #[doc(hidden)]
            pub const NAMES: &'static [&'static str] =
                &[$(stringify!($acquire),)+ $(stringify!($call),)+ $(stringify!($event)),+];
        }

        $(#[$operation_meta])*
        #[allow(missing_docs)] // The inputs document all of them.
        pub enum $operation<$a> {
            $($acquire { $($option: $option_type,)+ },)+
            $($call $({ $($field: $type,)+ $($extra: $extra_type,)? })?,)+
        }

        impl $operation<'_> {
            pub(crate) fn input(&self, op: OpId) -> $input<'_> {
                match *self {
                    $(Self::$acquire { $($option),+ } => $input::$acquire { op, $($option),+ },)+
                    $(Self::$call { $($($field,)+)? .. } => $input::$call { op, $($($field),+)? },)+
                }
            }
        }

        table! { $(#[$kind_meta])* $kind { $($(#[doc = $doc])+ $call => $code;)+ } }

        impl $kind {
            /// The names of its fields. Each also has an `op`.
            #[doc(hidden)]
            pub const fn fields(self) -> &'static [&'static str] {
                match self { $(Self::$call => &[$($(stringify!($field)),+)?],)+ }
            }

            /// Reads the call. None if a field can't be read.
            #[doc(hidden)]
            pub fn read<$a>(self, from: &impl CallFields<$a>) -> Option<$input<$a>> {
                let op = from.op()?;
                Some(match self { $(Self::$call => $input::$call { op, $($($field: from.$field()?),+)? },)+ })
            }
        }
    };
}
