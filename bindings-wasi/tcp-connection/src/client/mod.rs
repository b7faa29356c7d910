//! What the component exports, and the tasks behind it.
//!
//! [`Endpoint`] passes commands to its `pipeline`, and opens a connection for each channel (`pubsub`).

mod endpoint;
mod pipeline;
mod pubsub;

pub(crate) use endpoint::Endpoint;
