//! The engine that drivers see: one server's locks.

use crate::command::Command;
use crate::error::Error;
use crate::event::{Input, LeaseId, Output, Reason};
#[cfg(feature = "mutants")]
use crate::mutant::Mutant;
use crate::node::Node;
use crate::options::Config;
use crate::time::Instant;
use crate::token::ClientId;

/// One client's locks. See the crate's documentation for the loop that drives it.
pub struct Engine {
    node: Node,
}

impl Engine {
    /// An engine for one client of one server, cluster or Sentinel.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names the option that is out of its bounds.
    pub fn new(client: ClientId, config: Config) -> Result<Self, Error> {
        Ok(Self { node: Node::new(client, config)? })
    }

    /// Switches a deliberate fault on, for the tests of the tests.
    #[cfg(feature = "mutants")]
    pub fn set_mutant(&mut self, mutant: Mutant) {
        self.node.set_mutant(mutant);
    }

    /// Takes in what happened at `now`. A `now` before an earlier one counts as that one.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.node.handle(now, input);
    }

    /// The next thing to do, until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.node.poll_output()
    }

    /// When to call [`handle`](Self::handle) at the latest, and why.
    pub fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        self.node.poll_timeout()
    }

    /// When a lease ends by the driver's clock unless it is renewed. None once it was released or lost.
    pub fn valid_until(&self, lease: LeaseId) -> Option<Instant> {
        self.node.valid_until(lease)
    }

    /// A write to what the lease is on its server, by digest and with the source: it adds a millisecond there and changes nothing
    /// else. For a driver that has to know whether replicas have the lease: it sends this on a connection of its own, reads `renewed` (else
    /// the lease is gone), and asks there with `WAIT`. None once the lease was released or lost.
    pub fn touch(&self, lease: LeaseId) -> Option<[Command; 2]> {
        self.node.touch(lease)
    }

    /// Whether nothing is left of all that happened. For tests: what ended must leave nothing behind.
    #[doc(hidden)]
    pub fn is_idle(&self) -> bool {
        self.node.is_idle()
    }
}
