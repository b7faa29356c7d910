//! A host of the lock component: it provides `connection` from the `redis` crate, and calls `locks`.
//!
//! Everything happens inside one event loop of the component: see [`with_component`].

mod bindings;
mod component;
mod endpoint;
mod locks;
mod provider;
mod redis_provider;

pub use bindings::exports::leasehold::lock::locks::{
    AcquireOptions, Error, ErrorKind, HoldEnd, Inspection, LossReason, ManagerOptions, Mode, ReleaseOutcome, Target,
    Topology,
};
pub use bindings::leasehold::lock::connection::{Failure, Reply, Servers, Value};
pub use component::{component_beside_lock, engine, lock_component, with_component};
pub use locks::{Lease, Locks, Manager};
pub use provider::{Answer, Connected, Endpoint, Future, Messages, Provider};
pub use redis_provider::RedisProvider;
