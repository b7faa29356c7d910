//! The lock component: leasehold's engine behind the contract in `wit/`.
//!
//! It has the same parts as the native driver, and behaves the same, except for what `wit/` says about time: a lease is
//! renewed only while a call of `hold` runs.
//!
//! ```text
//! an acquire ...   a hold ...   a release ...        tasks of the host's calls
//!       \              |            /
//!        `------------ Shared -----'                 the engine, the waiting calls, the leases
//!                        |
//!                      Driver                        one task for each manager: commands, messages, time
//!                        |
//!                     Server(s)                      one endpoint each, imported; a quorum has several
//! ```

#![cfg_attr(target_arch = "wasm32", no_std)]
// The contract's error type. On wasm32 it has half the size.
#![allow(clippy::result_large_err)]

extern crate alloc;

mod bindings;

mod call;
mod client;
mod clock;
mod driver;
mod error;
mod hold;
mod inspection;
mod lease;
mod limits;
mod manager;
mod options;
#[cfg(target_arch = "wasm32")]
mod platform;
mod quorum;
mod server;
mod shared;
mod state;
mod subscription;
mod target;
mod timer;
mod version;
mod wire;

/// Everything that the component exports.
struct Component;

impl bindings::exports::leasehold::lock::locks::Guest for Component {
    type LockManager = manager::LockManager;
    type Lease = lease::Lease;
}
