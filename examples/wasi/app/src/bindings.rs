//! What `wit-bindgen` generates from the contract in `wit/` and from the interfaces of WASI that the job uses.

#![allow(missing_docs, unreachable_pub, unsafe_code, reason = "generated")]

wit_bindgen::generate!({
    path: ["../../../wit", "wit"],
    world: "example:nightly-job/nightly-job",
    generate_all,
});

export!(Component with_types_in self);

use crate::Component;
