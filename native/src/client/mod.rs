//! One client: the engine with its state, and the task that drives it.

pub(crate) mod clock;
pub(crate) mod driver;
pub(crate) mod handle;
pub(crate) mod operation;
pub(crate) mod replicas;
pub(crate) mod shared;
pub(crate) mod state;
