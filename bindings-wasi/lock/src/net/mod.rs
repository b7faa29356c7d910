//! The network: which servers there are, and how commands and replies are written for an endpoint.
//!
//! - [`Server`] holds the endpoint of one server. [`connect`] and [`connect_quorum`] open and check the servers of a
//!   manager.
//! - `check` is the check of a server before its first lock, and `questions` is what is asked then.
//! - [`codec`] converts commands, replies and failures.
//!
//! Nothing in this folder knows the client that uses it.

mod check;
pub(crate) mod codec;
mod member;
mod questions;
mod quorum;
mod server;

pub(crate) use quorum::{connect_quorum, label};
pub(crate) use server::{Server, connect, no_slots};
