//! Who owns a reentrant lock.

use std::sync::atomic::{AtomicU64, Ordering};

static LAST: AtomicU64 = AtomicU64::new(0);

/// Whoever shows the same owner again while it holds a reentrant lock has it once more, on the same manager or a clone of it; every other
/// owner waits, also in this process, and so does the same one on another manager. Make one for each piece of work that may take its own lock
/// again: a request, a job. A clone is the same owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner(u64);

impl Owner {
    /// An owner unlike all others of this process.
    pub fn new() -> Self {
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) const fn id(&self) -> leasehold_core::Owner {
        leasehold_core::Owner(self.0)
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}
