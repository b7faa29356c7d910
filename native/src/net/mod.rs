//! The network: which servers there are, and how commands and messages travel.

pub(crate) mod codec;
pub(crate) mod links;
pub(crate) mod pubsub;
pub(crate) mod topology;
