//! What `wit-bindgen` generates from the world of this component.

#![allow(missing_docs, unreachable_pub, unsafe_code, reason = "generated")]

wit_bindgen::generate!({
    path: ["../../../wit"],
    inline: "
        package leasehold:liar;
        world liar {
            include leasehold:lock/connection-provider@0.2.0;
            import wasi:clocks/monotonic-clock@0.3.0;
            import wasi:clocks/system-clock@0.3.0;
            import wasi:random/insecure@0.3.0;
        }
    ",
    world: "leasehold:liar/liar",
    generate_all,
    // Blocks this component, and can't be cancelled.
    async: ["-import:wasi:clocks/monotonic-clock@0.3.0#wait-until"],
});

export!(Component with_types_in self);

use crate::Component;
