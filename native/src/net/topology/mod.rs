//! Where the servers are, how to connect to them, and whether they are usable.
//!
//! An [`Endpoint`] is one server, a primary behind Sentinel, or a cluster. The slots of a cluster leave this folder for
//! the links only.

mod checks;
mod cluster;
mod endpoint;
mod first_ok;
mod login;
mod sentinel;
mod server;
mod slots;

pub(in crate::net) use checks::Member;
pub(crate) use checks::{Demands, QUORUM_FIELD, check_server};
pub(in crate::net) use cluster::Cluster;
pub(crate) use endpoint::Endpoint;
pub(crate) use login::{Login, addresses, none_of};
pub(crate) use server::Server;
pub(in crate::net) use slots::{Address, Redirect, key_of, slot_of};
