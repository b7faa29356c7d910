//! What `wit-bindgen` generates from the world of this component.

#![allow(missing_docs, unreachable_pub, unsafe_code, reason = "generated")]

wit_bindgen::generate!({
    path: ["../../../wit"],
    inline: "
        package leasehold:caller;
        world caller {
            include leasehold:lock/application@0.2.0;
            import wasi:clocks/monotonic-clock@0.3.0;
            export cancel-acquire: async func(url: string, name: string) -> result<_, string>;
            export cancel-hold: async func(url: string, name: string) -> result<_, string>;
            export cancel-open: async func(url: string) -> result<_, string>;
        }
    ",
    world: "leasehold:caller/caller",
    generate_all,
});

export!(Component with_types_in self);

use crate::Component;
