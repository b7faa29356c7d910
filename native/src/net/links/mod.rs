//! How commands travel to the servers and their results come back.
//!
//! [`Link`] sends the engine's commands, and returns a [`Completion`] for each. [`connect_quorum`] makes the link to a
//! quorum.

mod cluster_link;
mod link;
mod quorum;
mod server_link;

pub(crate) use link::Link;
pub(crate) use quorum::connect_quorum;
pub(crate) use server_link::Completion;
