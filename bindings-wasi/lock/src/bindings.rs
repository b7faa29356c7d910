//! What `wit-bindgen` generates from the contract.

#![allow(missing_docs, unreachable_pub, unsafe_code, reason = "generated")]

wit_bindgen::generate!({
    path: "../../wit",
    world: "leasehold:lock/lock",
    generate_all,
});

export!(Component with_types_in self);

use crate::Component;
