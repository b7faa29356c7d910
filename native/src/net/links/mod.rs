//! How commands travel to the servers and their results come back.
//!
//! [`Link`] sends the engine's commands: over one [`ServerLink`](server_link::ServerLink), through a
//! [`Router`](cluster_link::Router), or to the servers of a quorum. [`connect_quorum`] makes the last kind.

mod cluster_link;
mod link;
mod quorum;
mod server_link;

pub(crate) use link::Link;
pub(crate) use quorum::connect_quorum;
pub(crate) use server_link::Answer;
