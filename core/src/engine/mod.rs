//! The engine as drivers see it, for one server or for a quorum of servers.

mod locks;
mod replication;

use alloc::boxed::Box;
use alloc::vec::Vec;

use self::locks::Locks;
use self::replication::Replication;
use crate::client::Client;
use crate::error::Error;
use crate::event::{Input, LeaseInfo, Output, Reason};
use crate::ids::{ClientId, CommandId, LeaseId, NodeId};
use crate::options::{Config, Mode};
#[cfg(feature = "quorum")]
use crate::quorum::Quorum;
use crate::server::DeleteIfEqual;
use crate::session::{Renewal, late};
use crate::time::{Duration, Instant};
use crate::wire::Command;

/// The locks of one client. The crate's documentation shows the loop that drives it.
///
/// Only tests may clone it, with the feature `explore`: two clients with the same id would hold the same lease.
#[cfg_attr(feature = "explore", derive(Clone, Hash))]
pub struct Engine {
    locks: Locks,
    replication: Replication,
    /// The time of the last input.
    now: Instant,
    /// A driver that calls later than this was paused.
    late: Duration,
}

impl Engine {
    /// An engine for a client of one server, cluster or Sentinel.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names the option that is out of its bounds.
    pub fn new(client: ClientId, config: Config) -> Result<Self, Error> {
        let (replication, late) = (Replication::new(config.response_timeout), late(config.response_timeout.into()));
        let locks = Locks::One(Box::new(Client::new(client, config)?));
        Ok(Self { locks, replication, now: Instant::default(), late })
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
        let (replication, late) = (Replication::new(config.response_timeout), late(config.node_timeout.into()));
        let locks = Locks::Quorum(Box::new(Quorum::new(client, config, servers)?));
        Ok(Self { locks, replication, now: Instant::default(), late })
    }

    /// Tells the engine that `node` is a cluster: names can be on different servers of it. A silent server then delays
    /// only names whose slots are near its own. Call it before the first input. Without a quorum, the only node is 0.
    ///
    /// The same goes for one address that enforces slots: see [`check_probe`](crate::check_probe). If its answer comes only with those
    /// to the first commands, call this then, before the engine gets any of these. Commands that the server has refused with
    /// `CROSSSLOT` have failed as if the script were missing: give the engine a refusal that begins with `NOSCRIPT`. It would not believe
    /// that of an `EVAL`: that one was [unavailable](crate::Failure::Unavailable).
    #[cfg_attr(not(feature = "quorum"), allow(unused_variables))]
    pub fn set_cluster(&mut self, node: NodeId) {
        match &mut self.locks {
            Locks::One(client) => client.cx.set_cluster(),
            #[cfg(feature = "quorum")]
            Locks::Quorum(quorum) => quorum.set_cluster(node),
        }
    }

    /// Tells the engine that the server has this command, so that a release alone needs no script. If the server refuses it, the
    /// engine uses scripts from then on. A quorum and a cluster always use scripts, because their servers may have different versions.
    pub fn set_delete_if_equal(&mut self, how: Option<DeleteIfEqual>) {
        match &mut self.locks {
            Locks::One(client) => client.cx.set_delete_if_equal(how),
            #[cfg(feature = "quorum")]
            Locks::Quorum(_) => {}
        }
    }

    /// Processes an event that happened at `now`. If `now` is earlier than in a previous call, that call's time is used instead.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.now = self.now.max(now);
        if self.replication.takes(&input) {
            self.replication.handle(&mut self.locks, now, input);
        } else {
            self.locks.handle(now, input);
        }
    }

    /// Call it before [`handle`](Self::handle), if the application can block the driver. If the driver calls much later
    /// than [`poll_timeout`](Self::poll_timeout) asked for, it has not read the server's answers in that time. Then
    /// everything that the server has to answer gets its full time again. Leases still end by the clock.
    pub fn catch_up(&mut self, now: Instant) {
        // Most inputs follow each other at once.
        let is_late = |due: Instant| now > due + self.late;
        if !is_late(self.now) {
            return;
        }
        let is_late = self.poll_timeout().is_some_and(|(due, _)| is_late(due));
        // One pause counts once, even if no input follows.
        self.now = now;
        if !is_late {
            return;
        }
        self.replication.resume(now);
        match &mut self.locks {
            Locks::One(client) => client.cx.resume(now),
            #[cfg(feature = "quorum")]
            Locks::Quorum(quorum) => quorum.resume(now),
        }
    }

    /// Tells what another thread needs to renew this lease while this driver is blocked: one renewal for each name. None for a
    /// fixed lease, for one that has ended, and for a quorum. Ask again when the lease was converted.
    pub fn renewals(&self, lease: LeaseId, mut tell: impl FnMut(Renewal)) {
        self.locks.renewals(lease, &mut tell);
    }

    /// Another thread has renewed a lease with a command of [`renewals`](Self::renewals). It sent the command at `sent` or
    /// later, and the server answered that `left` remains. Call it before [`handle`](Self::handle), so that no timer
    /// counts before it. It only makes the lease longer. A renewal of an earlier token is ignored.
    pub fn renewed(&mut self, lease: LeaseId, token: u64, sent: Instant, left: crate::time::api::Duration) {
        self.locks.renewed(lease, token, sent, left.into());
    }

    /// The next action. Call it until it returns `None`.
    pub fn poll_output(&mut self) -> Option<Output> {
        if self.replication.is_idle() {
            return self.locks.poll_output();
        }
        self.replication.poll_output(&mut self.locks)
    }

    /// When to call [`handle`](Self::handle) at the latest, and why.
    pub fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        let locks = self.locks.poll_timeout();
        if self.replication.is_idle() {
            return locks;
        }
        [locks, self.replication.poll_timeout()].iter().flatten().min().copied()
    }

    /// When a lease expires by the driver's clock unless it is renewed. None once it was released or lost.
    pub fn valid_until(&self, lease: LeaseId) -> Option<Instant> {
        self.locks.valid_until(lease)
    }

    /// The state of a lease. None once its last hold was released.
    pub fn lease(&self, lease: LeaseId) -> Option<LeaseInfo> {
        self.locks.lease(lease)
    }

    /// How many leases the servers may still have, including those that linger and those whose release is not
    /// confirmed. For a driver that stops before a close has ended.
    pub fn unreleased(&self, now: Instant) -> u32 {
        match &self.locks {
            Locks::One(client) => client.unreleased(now),
            #[cfg(feature = "quorum")]
            Locks::Quorum(quorum) => quorum.unreleased(now),
        }
    }

    /// The names, without the prefix, and modes of the leases that linger: nobody holds them, and they are kept for the
    /// next caller of this client. See [`AcquireOptions::linger`](crate::AcquireOptions::linger).
    pub fn lingering(&self) -> Vec<(&str, Mode)> {
        match &self.locks {
            Locks::One(client) => client.lingering(),
            // Locks of a quorum don't linger.
            #[cfg(feature = "quorum")]
            Locks::Quorum(_) => Vec::new(),
        }
    }

    /// The name of the lock, without the prefix, that a command in flight wants to acquire. None for other commands and in a
    /// quorum.
    pub fn wanted_by(&self, id: CommandId) -> Option<&str> {
        match &self.locks {
            Locks::One(client) => client.wanted_by(id),
            #[cfg(feature = "quorum")]
            Locks::Quorum(_) => None,
        }
    }

    /// A command that writes to the lease on its server, as `EVALSHA` and as `EVAL`. It adds a millisecond to the TTL
    /// and changes nothing else. For tests: it contains the lease's token.
    #[doc(hidden)]
    pub fn touch(&self, lease: LeaseId) -> Option<[Command; 2]> {
        self.locks.touch(lease)
    }

    /// Whether nothing is left over. For tests: an operation that has ended must leave no state behind.
    #[doc(hidden)]
    pub fn is_idle(&self) -> bool {
        let locks = match &self.locks {
            Locks::One(client) => client.is_idle(),
            #[cfg(feature = "quorum")]
            Locks::Quorum(quorum) => quorum.is_idle(),
        };
        locks && self.replication.is_idle()
    }
}
