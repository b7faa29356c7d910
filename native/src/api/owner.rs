//! The owner of a reentrant lock.

use std::sync::atomic::{AtomicU64, Ordering};

static LAST: AtomicU64 = AtomicU64::new(0);

/// The owner of a reentrant lock.
///
/// An owner can take a lock again while it holds it, through the same manager or a clone of it. Every other owner
/// waits, even in the same process. The same owner on another manager counts as another owner.
///
/// Make one for each piece of work that may take its own lock again, such as a request or a job. A clone is the same owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner(u64);

impl Owner {
    /// An owner that differs from all others in this process.
    pub fn new() -> Self {
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) const fn id(&self) -> leasehold_core::Owner {
        leasehold_core::Owner(self.0)
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}
