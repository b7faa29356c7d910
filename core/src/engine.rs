//! The engine that drivers see: one server's locks, or those of a quorum of servers.

use alloc::boxed::Box;

use crate::command::Command;
use crate::error::Error;
use crate::event::{Input, LeaseId, Output, Reason};
#[cfg(feature = "mutants")]
use crate::mutant::Mutant;
use crate::node::Node;
use crate::options::Config;
#[cfg(feature = "quorum")]
use crate::quorum::Quorum;
use crate::time::Instant;
use crate::token::ClientId;

/// One client's locks. See the crate's documentation for the loop that drives it.
pub struct Engine {
    kind: Kind,
}

enum Kind {
    One(Box<Node>),
    #[cfg(feature = "quorum")]
    Quorum(Box<Quorum>),
}

impl Engine {
    /// An engine for one client of one server, cluster or Sentinel.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names the option that is out of its bounds.
    pub fn new(client: ClientId, config: Config) -> Result<Self, Error> {
        Ok(Self { kind: Kind::One(Box::new(Node::new(client, config)?)) })
    }

    /// An engine for one client of several independent servers: a lock is held while a majority of them says so. It has
    /// exclusive locks only; readers and conversions are [`Error::Unsupported`].
    ///
    /// Each of `servers` is named as errors are to tell it, e.g. by its address without credentials. [`NodeId`](crate::NodeId)s
    /// follow their order.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names the option that is out of its bounds: `servers` if there are fewer than three, their number is
    /// even, or one is named twice.
    #[cfg(feature = "quorum")]
    pub fn quorum(client: ClientId, config: Config, servers: &[&str]) -> Result<Self, Error> {
        Ok(Self { kind: Kind::Quorum(Box::new(Quorum::new(client, config, servers)?)) })
    }

    /// Switches a deliberate fault on, for the tests of the tests.
    #[cfg(feature = "mutants")]
    pub fn set_mutant(&mut self, mutant: Mutant) {
        match &mut self.kind {
            Kind::One(node) => node.set_mutant(mutant),
            #[cfg(feature = "quorum")]
            Kind::Quorum(quorum) => quorum.set_mutant(mutant),
        }
    }

    /// Tells that the names' slots are on different servers: one that is silent then holds up the names near its own, and no others.
    pub fn set_cluster(&mut self) {
        match &mut self.kind {
            Kind::One(node) => node.cx.flows.by_slot(),
            // Its servers are no clusters.
            #[cfg(feature = "quorum")]
            Kind::Quorum(_) => {}
        }
    }

    /// Takes in what happened at `now`. A `now` before an earlier one counts as that one.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        match &mut self.kind {
            Kind::One(node) => node.handle(now, input),
            #[cfg(feature = "quorum")]
            Kind::Quorum(quorum) => quorum.handle(now, input),
        }
    }

    /// The next thing to do, until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        match &mut self.kind {
            Kind::One(node) => node.poll_output(),
            #[cfg(feature = "quorum")]
            Kind::Quorum(quorum) => quorum.poll_output(),
        }
    }

    /// When to call [`handle`](Self::handle) at the latest, and why.
    pub fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        match &self.kind {
            Kind::One(node) => node.poll_timeout(),
            #[cfg(feature = "quorum")]
            Kind::Quorum(quorum) => quorum.poll_timeout(),
        }
    }

    /// When a lease ends by the driver's clock unless it is renewed. None once it was released or lost.
    pub fn valid_until(&self, lease: LeaseId) -> Option<Instant> {
        match &self.kind {
            Kind::One(node) => node.valid_until(lease),
            #[cfg(feature = "quorum")]
            Kind::Quorum(quorum) => quorum.valid_until(lease),
        }
    }

    /// A write to what the lease is on its server, by digest and with the source: it adds a millisecond there and changes nothing
    /// else. For a driver that has to know whether replicas have the lease: it sends this on a connection of its own, reads `renewed` (else
    /// the lease is gone), and asks there with `WAIT`. None once the lease was released or lost, and for a quorum.
    pub fn touch(&self, lease: LeaseId) -> Option<[Command; 2]> {
        match &self.kind {
            Kind::One(node) => node.touch(lease),
            // Its servers are no replicas of each other.
            #[cfg(feature = "quorum")]
            Kind::Quorum(_) => None,
        }
    }

    /// Whether nothing is left of all that happened. For tests: what ended must leave nothing behind.
    #[doc(hidden)]
    pub fn is_idle(&self) -> bool {
        match &self.kind {
            Kind::One(node) => node.is_idle(),
            #[cfg(feature = "quorum")]
            Kind::Quorum(quorum) => quorum.is_idle(),
        }
    }
}
