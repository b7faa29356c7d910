//! The lock component: leasehold's engine behind the contract in `wit/`.
//!
//! It has the same parts as the native crate, and behaves the same, except for what `wit/` says about time: a lease is
//! renewed only while a call of `hold` runs.
//!
//! ```text
//! an acquire ...   a hold ...   a release ...        one task for each call of the host
//!       \              |            /
//!        `------------ Shared -----'                 the engine, the pending operations, the leases
//!                        |
//!                      Driver                        one task for each manager: commands, messages, time
//!                        |
//!                     Server(s)                      one imported endpoint each; a quorum has several servers
//! ```
//!
//! `api` is what the component exports. It starts operations in `client`, which sends commands through `net`.

#![cfg_attr(target_arch = "wasm32", no_std)]
// The contract's error type. On wasm32 it has half the size.
#![allow(clippy::result_large_err)]

extern crate alloc;

mod api;
mod bindings;
mod calls;
mod client;
mod error;
mod limits;
mod net;
#[cfg(target_arch = "wasm32")]
mod platform;
mod time;

/// Everything that the component exports.
struct Component;

impl bindings::exports::leasehold::lock::locks::Guest for Component {
    type LockManager = api::LockManager;
    type Lease = api::Lease;
}
