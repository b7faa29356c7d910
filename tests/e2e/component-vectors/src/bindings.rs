//! What `wit-bindgen` generates from the world of this component.

#![allow(missing_docs, unreachable_pub, unsafe_code, reason = "generated")]

wit_bindgen::generate!({
    inline: "
        package leasehold:vectors;
        world vectors {
            export replay: func(vector: string) -> list<string>;
        }
    ",
});

export!(Component with_types_in self);

use crate::Component;
