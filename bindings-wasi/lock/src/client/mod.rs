//! One client: an engine, the state around it, and the task that drives it.
//!
//! [`Client`] starts the task and runs operations. Every handle keeps its client alive.

mod driver;
mod handle;
mod operation;
mod shared;
mod state;

pub(crate) use handle::Client;
pub(crate) use shared::Shared;
