//! What `wit-bindgen` generates from the contract and from WASI's interfaces.

#![allow(missing_docs, unreachable_pub, unsafe_code, reason = "generated")]

wit_bindgen::generate!({
    path: ["../../wit", "wit"],
    world: "leasehold:tcp-connection/tcp-connection",
    generate_all,
});

export!(Component with_types_in self);

use crate::Component;
