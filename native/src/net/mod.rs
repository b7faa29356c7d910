//! The network: which servers there are, and how commands and messages travel.
//!
//! [`Endpoint`] connects to the servers. [`Link`] carries commands, [`pubsub`] carries messages, and [`ReplicatedWrite`]
//! asks how many replicas have a write. Nothing here knows the client that uses it.

mod codec;
mod connection;
mod links;
mod pubsub;
mod replication;
mod topology;

pub(crate) use connection::Connection;
pub(crate) use links::{Answer, Link, connect_quorum};
pub(crate) use pubsub::{Wish, run as run_subscriptions};
pub(crate) use replication::ReplicatedWrite;
pub(crate) use topology::{Demands, Endpoint, Login, QUORUM_FIELD, Server, addresses, check_server, none_of};
