//! What the component exports: the manager and its leases.

mod convert;
mod lease;
mod manager;

pub(crate) use lease::Lease;
pub(crate) use manager::LockManager;
