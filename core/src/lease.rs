//! One lease of one local holder.

use alloc::vec::Vec;
use core::time::Duration;

use crate::context::ResourceId;
use crate::event::OpId;
use crate::options::{Kind, Mode};
use crate::time::Instant;
use crate::timers::Slot;

pub(crate) struct Lease {
    pub(crate) resource: ResourceId,
    pub(crate) kind: Kind,
    pub(crate) mode: Mode,
    pub(crate) fence: u64,
    pub(crate) ttl: Duration,
    pub(crate) renew: bool,
    /// A fixed end, or `max_hold`'s; the tenure's end binds as well.
    pub(crate) ends: Slot,
    /// The end that the holder was told when it got or extended the lease.
    pub(crate) told: Instant,
    pub(crate) holds: u32,
    /// Calls to end when the lease does.
    pub(crate) pending: Vec<OpId>,
}

impl Lease {
    /// The TTL that a renewal at `now` has to set for this lease, whose tenure is valid until `until`; none if it needs no
    /// renewal. A fixed lease needs one only if its tenure ends before what its holder was told.
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

/// What the client's clock and the server's may differ by over a lease: 1 % and 2 ms.
pub(crate) fn drift(ttl: Duration) -> Duration {
    (ttl / 100).saturating_add(Duration::from_millis(2))
}

/// How long before its end a lease counts as lost, so that a timer that goes off late still tells it in time: 5 % of it, 50 ms at most.
pub(crate) fn margin(ttl: Duration) -> Duration {
    (ttl / 20).min(MOST_MARGIN)
}

const MOST_MARGIN: Duration = Duration::from_millis(50);

/// The TTL that is still valid after `left` once drift and margin are taken off, in whole milliseconds.
pub(crate) fn covering(left: Duration) -> Duration {
    let with_drift = left.saturating_add(Duration::from_millis(2));
    let short = with_drift.saturating_mul(100) / 94;
    let long = with_drift.saturating_add(MOST_MARGIN).saturating_mul(100) / 99;
    Duration::from_millis(crate::time::millis(short.min(long)).saturating_add(1))
}
