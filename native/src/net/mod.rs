//! The network: which servers there are, and how commands and messages travel.
//!
//! - [`Endpoint`] is where the servers are. [`Access`] and [`Login`] say how to connect to what the user gave.
//! - [`Link`] sends commands and returns a [`Completion`] for each.
//! - [`Origin`] is where messages come from. Its subscriber takes [`ChannelRequest`]s.
//! - [`DedicatedConnection`] carries the commands of one call only.
//!
//! Nothing in this folder knows the client that uses it.

mod codec;
mod connection;
mod dedicated;
mod links;
mod origin;
mod provided;
mod pubsub;
mod pushes;
#[cfg(feature = "testing")]
pub(crate) mod testing;
mod topology;
#[cfg(feature = "without-scripts")]
mod transactions;

pub(crate) use dedicated::DedicatedConnection;
pub(crate) use links::{Completion, Link, connect_quorum};
pub(crate) use origin::Origin;
pub(crate) use provided::Provided;
pub(crate) use pubsub::ChannelRequest;
#[cfg(feature = "tls-rustls")]
pub(crate) use topology::Certificates;
pub(crate) use topology::{
    Access, Endpoint, Location, Login, Member, Opened, Opening, QUORUM_FIELD, Requirements, Slots, Source, no_address,
};
