//! The bindings that `bindgen!` generates from the contract.

#![allow(missing_docs, unreachable_pub, reason = "generated")]

wasmtime::component::bindgen!({
    path: "../../../wit",
    world: "leasehold:lock/lock",
    imports: { default: trappable },
    exports: { default: async | store },
    with: {
        "wasi": wasmtime_wasi::p3::bindings,
        "leasehold:lock/connection.endpoint": crate::endpoint::Handle,
    },
    additional_derives: [PartialEq],
    require_store_data_send: true,
});
