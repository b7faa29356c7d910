//! A host of the lock component: it provides `connection` with the `redis` crate, and calls `locks`.
//!
//! Everything runs inside the component's event loop: see [`with_provider`] and [`with_network`].

mod bindings;
mod endpoint;
mod instance;
mod locks;
mod provider;
mod redis_provider;

pub use bindings::exports::leasehold::lock::locks::{
    AcquireOptions, Error, ErrorKind, HoldEnd, Inspection, LossReason, ManagerOptions, Mode, Multi, OnceOptions, Part,
    Reentrant, ReleaseOutcome, Semaphore, Sentinel, StoredResult, Target, Topology, Vote, VoteAnswer,
};
pub use bindings::leasehold::lock::connection::{Failure, Reply, Servers, Value};
pub use instance::{engine, with_context, with_network, with_provider};
pub use locks::{Lease, Locks, Manager, Once};
pub use provider::{Answer, Connected, Endpoint, Future, Messages, Provider};
pub use redis_provider::RedisProvider;
