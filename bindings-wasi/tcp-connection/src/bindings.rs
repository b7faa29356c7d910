//! What `wit-bindgen` generates from the contract and from WASI's interfaces.

#![allow(missing_docs, unreachable_pub, unsafe_code, reason = "generated")]

#[cfg(not(feature = "tls"))]
wit_bindgen::generate!({
    path: ["../../wit", "wit"],
    world: "leasehold:tcp-connection/tcp-connection",
    generate_all,
});

#[cfg(feature = "tls")]
wit_bindgen::generate!({
    path: ["../../wit", "wit"],
    world: "leasehold:tcp-connection/tcp-tls-connection",
    generate_all,
});

export!(Component with_types_in self);

use crate::Component;
