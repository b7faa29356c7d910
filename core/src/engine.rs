//! The engine as drivers see it, for one server or for a quorum of servers.

use alloc::boxed::Box;

use crate::client::Client;
use crate::error::Error;
use crate::event::{Input, Output, Reason};
use crate::ids::{ClientId, LeaseId};
use crate::options::Config;
#[cfg(feature = "quorum")]
use crate::quorum::Quorum;
use crate::time::Instant;
use crate::wire::Command;

/// The locks of one client. The crate's documentation shows the loop that drives it.
pub struct Engine {
    kind: Kind,
}

enum Kind {
    One(Box<Client>),
    #[cfg(feature = "quorum")]
    Quorum(Box<Quorum>),
}

impl Engine {
    /// An engine for a client of one server, cluster or Sentinel.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names the option that is out of its bounds.
    pub fn new(client: ClientId, config: Config) -> Result<Self, Error> {
        Ok(Self { kind: Kind::One(Box::new(Client::new(client, config)?)) })
    }

    /// An engine for a client of several independent servers. A lock is held while a majority of them has it. Only
    /// exclusive locks are supported: readers and conversions fail with [`Error::Unsupported`].
    ///
    /// `servers` are the names that error messages use, such as addresses without credentials.
    /// [`NodeId`](crate::NodeId)s are their indexes.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names the option that is out of its bounds. It is `servers` if there are fewer than
    /// three, an even number, or a duplicate.
    #[cfg(feature = "quorum")]
    pub fn quorum(client: ClientId, config: Config, servers: &[&str]) -> Result<Self, Error> {
        Ok(Self { kind: Kind::Quorum(Box::new(Quorum::new(client, config, servers)?)) })
    }

    /// Tells the engine that names can be on different servers of a cluster. A silent server then delays only names
    /// whose slots are near its own.
    pub fn set_cluster(&mut self) {
        match &mut self.kind {
            Kind::One(client) => client.cx.flows.by_slot(),
            // A quorum's servers are not clusters.
            #[cfg(feature = "quorum")]
            Kind::Quorum(_) => {}
        }
    }

    /// Processes an event that happened at `now`. If `now` is earlier than in a previous call, that call's time is used instead.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        match &mut self.kind {
            Kind::One(client) => client.handle(now, input),
            #[cfg(feature = "quorum")]
            Kind::Quorum(quorum) => quorum.handle(now, input),
        }
    }

    /// The next action. Call it until it returns `None`.
    pub fn poll_output(&mut self) -> Option<Output> {
        match &mut self.kind {
            Kind::One(client) => client.poll_output(),
            #[cfg(feature = "quorum")]
            Kind::Quorum(quorum) => quorum.poll_output(),
        }
    }

    /// When to call [`handle`](Self::handle) at the latest, and why.
    pub fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        match &self.kind {
            Kind::One(client) => client.poll_timeout(),
            #[cfg(feature = "quorum")]
            Kind::Quorum(quorum) => quorum.poll_timeout(),
        }
    }

    /// When a lease expires by the driver's clock unless it is renewed. None once it was released or lost.
    pub fn valid_until(&self, lease: LeaseId) -> Option<Instant> {
        match &self.kind {
            Kind::One(client) => client.valid_until(lease),
            #[cfg(feature = "quorum")]
            Kind::Quorum(quorum) => quorum.valid_until(lease),
        }
    }

    /// A command that writes to the lease on its server, as `EVALSHA` and as `EVAL`. It adds a millisecond to the TTL
    /// and changes nothing else.
    ///
    /// A driver uses it to find out whether replicas have the lease. It sends the command on a connection of its own,
    /// expects `renewed` (any other answer means that the lease is gone), and then sends `WAIT` there. None once the
    /// lease was released or lost, and for a quorum.
    pub fn touch(&self, lease: LeaseId) -> Option<[Command; 2]> {
        match &self.kind {
            Kind::One(client) => client.touch(lease),
            // A quorum's servers are not replicas of each other.
            #[cfg(feature = "quorum")]
            Kind::Quorum(_) => None,
        }
    }

    /// Whether nothing is left over. For tests: an operation that has ended must leave no state behind.
    #[doc(hidden)]
    pub fn is_idle(&self) -> bool {
        match &self.kind {
            Kind::One(client) => client.is_idle(),
            #[cfg(feature = "quorum")]
            Kind::Quorum(quorum) => quorum.is_idle(),
        }
    }
}
