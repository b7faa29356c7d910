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
            Some(ends) if ends <= until => None,
            Some(ends) => Some(self.ttl.min(covering(ends.since(now)))),
            None => Some(self.ttl),
        }
    }
}

/// What the client's clock and the server's may differ by over a lease: 1 % and 2 ms.
pub(crate) fn drift(ttl: Duration) -> Duration {
    (ttl / 100).saturating_add(Duration::from_millis(2))
}

/// The TTL that is still valid after `left` once drift is taken off, in whole milliseconds.
pub(crate) fn covering(left: Duration) -> Duration {
    let exact = left.saturating_add(Duration::from_millis(2)).saturating_mul(100) / 99;
    Duration::from_millis(crate::time::millis(exact).saturating_add(1))
}
