//! One client: an engine, the state around it, and the task that drives it.
//!
//! [`Client`] starts the task and runs operations. [`unexpected_outcome`] is the error for an outcome of the wrong
//! kind. [`now`] is the engine's clock.

mod clock;
mod driver;
mod ending;
mod handle;
mod link_slot;
mod named;
mod observation;
mod operation;
mod shared;
mod state;

pub(crate) use clock::now;
pub(crate) use handle::{Client, Made, unexpected_outcome};
pub(crate) use named::{Called, Named};
pub(crate) use observation::Observation;
pub(crate) use operation::OperationFuture;
pub(crate) use state::{Elected, Listed};
