//! The kinds of lock in a run, and how users acquire each.

use std::time::Duration;

use leasehold_core::{Kind, Owner};
use leasehold_harness::Rng;

use crate::mix::{Bounds, Mix};

/// The kind of lock that a name is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    /// A mutex or a read-write lock.
    Lock,
    /// A reentrant lock.
    Reentrant,
    /// A semaphore.
    Semaphore,
    /// A lock whose holder stores a result.
    Once,
}

/// How long results are kept.
pub(crate) const KEEP_MS: Bounds = (1_000, 4_000);

/// Settings for reentrant locks and semaphores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KindOptions {
    /// The limit of the run's semaphores.
    pub(crate) limit: u32,
    /// The chance that an acquire has a different limit.
    pub(crate) limit_changes: u32,
    /// How many permits an acquire wants.
    pub(crate) permits: Bounds,
    /// How many users of a client share an owner.
    pub(crate) sharing: usize,
    /// The chance that the holder of a reentrant lock takes it again.
    pub(crate) reenters: u32,
}

impl KindOptions {
    /// Draws the values from the seed.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let limit = *rng.pick(&[1, 2, 3, 3, 5, 8]);
        Self {
            limit,
            limit_changes: *rng.pick(&[0, 0, 20_000, 300_000]),
            permits: (1, if rng.chance(400_000) { 1 } else { rng.range((1, u64::from(limit))) }),
            sharing: *rng.pick(&[1, 1, 2, 3]),
            reenters: *rng.pick(&[100_000, 500_000]),
        }
    }
}

impl Mix {
    /// The kind that a user of a client asks for.
    pub(crate) fn kind(&self, rng: &mut Rng, name: usize, user: usize) -> Kind {
        let options = self.kind_options;
        match self.kinds[name] {
            LockKind::Lock => Kind::Lock,
            LockKind::Reentrant => Kind::Reentrant(Owner((user / options.sharing) as u64)),
            LockKind::Semaphore => {
                let changed = rng.chance(options.limit_changes);
                let limit = if changed { rng.range((1, u64::from(options.limit) + 2)) as u32 } else { options.limit };
                let permits = (rng.range(options.permits) as u32).min(limit);
                Kind::Semaphore { permits, limit }
            }
            LockKind::Once => Kind::Once { keep: Duration::from_millis(rng.range(KEEP_MS)) },
        }
    }
}

/// The permits of a holder. 0 for other kinds.
pub(crate) fn permits(kind: Kind) -> u64 {
    if let Kind::Semaphore { permits, .. } = kind { u64::from(permits) } else { 0 }
}
