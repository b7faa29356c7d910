//! The locks of one client: on one server, or on those of a quorum.

use alloc::boxed::Box;

use crate::client::Client;
use crate::event::{Input, LeaseInfo, Output, Reason};
use crate::ids::LeaseId;
#[cfg(feature = "quorum")]
use crate::quorum::Quorum;
use crate::session::Renewal;
use crate::time::{Duration, Instant};
use crate::wire::Command;

#[derive(Clone, Hash)]
pub(super) enum Locks {
    One(Box<Client>),
    #[cfg(feature = "quorum")]
    Quorum(Box<Quorum>),
}

impl Locks {
    pub(super) fn handle(&mut self, now: Instant, input: Input<'_>) {
        match self {
            Self::One(client) => client.handle(now, input),
            #[cfg(feature = "quorum")]
            Self::Quorum(quorum) => quorum.handle(now, input),
        }
    }

    pub(super) fn poll_output(&mut self) -> Option<Output> {
        match self {
            Self::One(client) => client.poll_output(),
            #[cfg(feature = "quorum")]
            Self::Quorum(quorum) => quorum.poll_output(),
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        match self {
            Self::One(client) => client.poll_timeout(),
            #[cfg(feature = "quorum")]
            Self::Quorum(quorum) => quorum.poll_timeout(),
        }
    }

    pub(super) fn valid_until(&self, lease: LeaseId) -> Option<Instant> {
        match self {
            Self::One(client) => client.valid_until(lease),
            #[cfg(feature = "quorum")]
            Self::Quorum(quorum) => quorum.valid_until(lease),
        }
    }

    /// The lock of a lease stays taken until then, even if it is given back. Not in a quorum.
    pub(super) fn stays(&mut self, lease: LeaseId, until: Instant) {
        match self {
            Self::One(client) => client.stays(lease, until),
            #[cfg(feature = "quorum")]
            Self::Quorum(_) => {}
        }
    }

    /// How many leases have no caller yet. Not in a quorum.
    pub(super) fn set_unconfirmed(&mut self, leases: usize) {
        match self {
            Self::One(client) => client.cx.unconfirmed = leases,
            #[cfg(feature = "quorum")]
            Self::Quorum(_) => {}
        }
    }

    pub(super) fn lease(&self, lease: LeaseId) -> Option<LeaseInfo> {
        match self {
            Self::One(client) => client.lease(lease),
            #[cfg(feature = "quorum")]
            Self::Quorum(quorum) => quorum.lease(lease),
        }
    }

    /// None once the lease was released or lost, and for a quorum, whose servers are not replicas of each other.
    pub(super) fn touch(&self, lease: LeaseId) -> Option<[Command; 2]> {
        match self {
            Self::One(client) => client.touch(lease),
            #[cfg(feature = "quorum")]
            Self::Quorum(_) => None,
        }
    }

    /// None for a quorum.
    pub(super) fn renewals(&self, lease: LeaseId, tell: &mut dyn FnMut(Renewal)) {
        match self {
            Self::One(client) => client.renewals(lease, tell),
            #[cfg(feature = "quorum")]
            Self::Quorum(_) => {}
        }
    }

    pub(super) fn renewed(&mut self, lease: LeaseId, token: u64, sent: Instant, left: Duration) {
        match self {
            Self::One(client) => client.renewed(lease, token, sent, left),
            #[cfg(feature = "quorum")]
            Self::Quorum(_) => {}
        }
    }
}
