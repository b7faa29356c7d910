//! A lease of a local holder.

use alloc::vec::Vec;
use core::time::Duration;

use super::Context;
use super::timers::Slot;
use crate::error::LossReason;
use crate::event::{LeaseInfo, Outcome, ReleaseOutcome};
use crate::ids::{LeaseId, LockId, OpId};
use crate::options::{Kind, Mode};
use crate::time::Instant;

pub(crate) struct Lease {
    pub(crate) lock: LockId,
    pub(crate) kind: Kind,
    pub(crate) mode: Mode,
    pub(crate) fence: u64,
    pub(crate) ttl: Duration,
    pub(crate) renew: bool,
    /// When the lease ends at the latest: the end of a fixed lease, or `max_hold`. It also ends with its hold.
    pub(crate) ends: Slot,
    /// The end that the holder learned when it got or extended the lease.
    pub(crate) told: Instant,
    pub(crate) holds: u32,
    /// Calls that end when the lease does.
    pub(crate) pending: Vec<OpId>,
}

impl Lease {
    /// The TTL that a renewal at `now` must set for this lease, whose hold is valid until `until`. None if it needs
    /// no renewal. A fixed lease needs one only if its hold ends before the end that its holder knows.
    pub(crate) fn wants(&self, now: Instant, until: Instant) -> Option<Duration> {
        if !self.renew {
            return (until < self.told).then(|| covering(self.told.since(now)));
        }
        match self.ends {
            Some(ends) if ends.at <= until => None,
            Some(ends) => Some(self.ttl.min(covering(ends.at.since(now)))),
            None => Some(self.ttl),
        }
    }
}

impl Lease {
    pub(crate) const fn info(&self) -> LeaseInfo {
        LeaseInfo { mode: self.mode, fence: self.fence, holds: self.holds, lost: None }
    }
}

impl Context {
    /// Remembers how a lease was lost, until its last hold is released.
    pub(crate) fn remember_loss(&mut self, lease: LeaseId, reason: LossReason, info: LeaseInfo) {
        self.lost.insert(lease, LeaseInfo { lost: Some(reason), ..info });
    }

    /// Releases a hold on a lease that has ended.
    pub(crate) fn release_ended(&mut self, op: OpId, lease: LeaseId) {
        let outcome = match self.lost.get(&lease).and_then(|info| info.lost) {
            Some(LossReason::Taken) => ReleaseOutcome::NotOwner,
            _ => ReleaseOutcome::AlreadyExpired,
        };
        if let Some(info) = self.lost.get_mut(&lease) {
            info.holds = info.holds.saturating_sub(1);
            if info.holds == 0 {
                self.lost.remove(&lease);
            }
        }
        self.answer(op, Ok(Outcome::Released(outcome)));
    }
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
    Duration::from_millis(crate::time::millis(short.min(long)).saturating_add(1))
}
