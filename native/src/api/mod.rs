//! What users call: the manager, its locks and their leases.

pub(crate) mod builder;
pub(crate) mod lease;
pub(crate) mod lock;
pub(crate) mod manager;
pub(crate) mod multi;
pub(crate) mod owner;
