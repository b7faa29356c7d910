//! A lease of a local holder.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::timers::Slot;
use crate::error::LossReason;
use crate::event::LeaseInfo;
use crate::ids::{Caller, LeaseId, LockId};
use crate::options::{AcquireOptions, Kind, Mode};
use crate::time::{Duration, Instant};
use crate::wire::Command;

#[derive(Clone, Hash)]
pub(crate) struct Lease {
    pub(crate) of: Leased,
    /// The call that acquired it. Its caller is notified of a loss.
    pub(super) caller: Caller,
    pub(crate) kind: Kind,
    pub(crate) mode: Mode,
    pub(crate) fence: u64,
    pub(crate) ttl: Duration,
    pub(crate) renew: bool,
    /// When the lease ends at the latest: the end of a fixed lease, or `max_hold`. It also ends with its hold.
    pub(crate) ends: Slot,
    /// The `max_hold` of a lease whose renewals were stopped. An extend moves `ends` up to it.
    pub(crate) most: Option<Instant>,
    /// The end that the holder learned when it got or extended the lease.
    pub(crate) known_end: Instant,
    pub(crate) holds: u32,
    /// How it was lost, if it was.
    pub(super) lost: Option<LossReason>,
    /// Unanswered that end when the lease does.
    pub(crate) pending: Vec<Caller>,
}

/// How to renew a lease of one name, or one part of a lease of several names.
pub struct Renewal {
    /// The lease, or the lease of the part.
    pub lease: LeaseId,
    /// The number of its token. A conversion changes it.
    pub token: u64,
    /// When the lease ends at the latest.
    pub ends: Option<Instant>,
    /// The renewal, as `EVALSHA`. Its last word is the TTL in milliseconds.
    pub command: Command,
}

/// What a lease is of.
#[derive(Clone, Hash)]
pub(crate) enum Leased {
    Lock(LockId),
    /// Several names, each with a lease of its own.
    Parts(Box<[LeaseId]>),
}

impl Leased {
    /// The lock, if it is only one.
    pub(crate) const fn lock(&self) -> Option<LockId> {
        if let Self::Lock(lock) = self { Some(*lock) } else { None }
    }
}

impl Lease {
    /// A lease whose holder knows that it lasts at least until `known_end`.
    pub(crate) fn new(of: Leased, caller: Caller, options: &AcquireOptions, fence: u64, known_end: Instant) -> Self {
        let AcquireOptions { kind, mode, ttl, renew, .. } = *options;
        Self {
            of,
            caller,
            kind,
            mode,
            fence,
            ttl: ttl.into(),
            renew,
            ends: None,
            most: None,
            known_end,
            holds: 1,
            lost: None,
            pending: Vec::new(),
        }
    }

    /// Makes a renewed lease a fixed one.
    pub(crate) fn stop_renewing(&mut self) {
        if self.renew {
            self.renew = false;
            self.most = self.ends.map(|ends| ends.at);
        }
    }

    /// This end, or `max_hold` if that is earlier.
    pub(crate) fn bounded(&self, end: Instant) -> Instant {
        self.most.map_or(end, |most| most.min(end))
    }

    /// When a lease ends that is detached now, after this time. Without one, after another TTL, or at a fixed lease's end.
    pub(crate) fn end_after(&self, now: Instant, time: Option<Duration>) -> Instant {
        let most = if self.renew { self.ends.map(|ends| ends.at) } else { self.most };
        let end = match time {
            None if !self.renew => self.known_end,
            time => now + time.unwrap_or(self.ttl),
        };
        most.map_or(end, |most| most.min(end))
    }

    /// The lock, if it is a lease of one.
    pub(crate) fn lock(&self) -> Option<LockId> {
        self.of.lock()
    }

    /// A call about the lease has ended, so it no longer ends with the lease.
    pub(crate) fn call_ended(&mut self, op: Caller) {
        self.pending.retain(|pending| *pending != op);
    }

    pub(super) const fn info(&self) -> LeaseInfo {
        LeaseInfo { mode: self.mode, fence: self.fence, holds: self.holds, lost: self.lost }
    }

    /// The TTL that a renewal at `now` must set for this lease, whose hold is valid until `until`. None if it needs
    /// no renewal. A fixed lease needs one only if its hold ends before the end that its holder knows.
    pub(crate) fn wants(&self, now: Instant, until: Instant) -> Option<Duration> {
        if !self.renew {
            return (until < self.known_end).then(|| covering(self.known_end.time_since(now)));
        }
        match self.ends {
            Some(ends) if ends.at <= until => None,
            Some(ends) => Some(self.ttl.min(covering(ends.at.time_since(now)))),
            None => Some(self.ttl),
        }
    }
}

/// The TTL to ask for: no longer than `max_hold` needs.
pub(crate) fn ttl_of(options: &AcquireOptions) -> Duration {
    let ttl = options.ttl.into();
    options.max_hold.map_or(ttl, |most| ttl.min(covering(most.into())))
}

/// How far the client's clock and the server's may drift apart during a lease: 1 % and 2 ms.
pub(crate) fn drift(ttl: Duration) -> Duration {
    (ttl / 100).saturating_add(Duration::from_millis(2))
}

/// How long before its end a lease counts as lost: 5 % of the TTL, at most 50 ms. So a timer that fires late still
/// reports the loss in time.
pub(crate) fn margin(ttl: Duration) -> Duration {
    (ttl / 20).min(MOST_MARGIN)
}

const MOST_MARGIN: Duration = Duration::from_millis(50);

/// The TTL that lasts for `left` after drift and margin are subtracted, in whole milliseconds.
pub(crate) fn covering(left: Duration) -> Duration {
    let with_drift = left.saturating_add(Duration::from_millis(2));
    let short = with_drift.saturating_mul(100) / 94;
    let long = with_drift.saturating_add(MOST_MARGIN).saturating_mul(100) / 99;
    Duration::from_millis(short.min(long).as_millis().saturating_add(1))
}
