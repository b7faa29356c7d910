//! One client: an engine, the state around it, and the task that drives it.
//!
//! [`Client`] starts the task and runs [`Operation`]s. [`Replicas`] waits until replicas have a lease. [`grant_of`] and
//! [`unexpected_outcome`] read an operation's outcome. [`now`] is the engine's clock.

mod clock;
mod driver;
mod handle;
mod operation;
mod replicas;
mod shared;
mod state;

pub(crate) use clock::now;
pub(crate) use handle::{Client, unexpected_outcome};
pub(crate) use operation::{Operation, OperationFuture};
pub(crate) use replicas::Replicas;
pub(crate) use state::grant_of;
