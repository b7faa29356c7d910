//! One client: an engine, the state around it, and the task that drives it.
//!
//! [`Client`] starts and ends a client and runs its [`Request`]s. [`Replicas`] waits for replicas.

mod clock;
mod driver;
mod handle;
mod operation;
mod replicas;
mod shared;
mod state;

pub(crate) use clock::now;
pub(crate) use handle::{Client, unexpected};
pub(crate) use operation::{Call, Request};
pub(crate) use replicas::Replicas;
pub(crate) use state::grant_of;
