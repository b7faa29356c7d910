//! The local callers of one name, first come, first served.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::ids::Caller;
use crate::options::{AcquireOptions, Wait};
use crate::session::OpenCalls;

/// Local callers in order. The first one is always open. Callers further back that have ended are removed later.
#[derive(Clone, Hash, Default)]
pub(crate) struct LocalQueue {
    entries: VecDeque<(Caller, AcquireOptions)>,
    live: usize,
    /// How many of the live callers don't wait. They end with the first answer.
    tries: usize,
    /// Whether a caller came that doesn't wait behind any number of others.
    pub(super) counts: bool,
    /// Whether such a caller may be there that was neither refused nor admitted yet.
    undecided: bool,
}

impl LocalQueue {
    pub(crate) fn push(&mut self, op: Caller, options: AcquireOptions) {
        // Most names have one caller, and room for more would be half of what a held lease takes.
        if self.entries.capacity() == 0 {
            self.entries.reserve_exact(1);
        }
        self.entries.push_back((op, options));
        self.live = self.live.saturating_add(1);
        self.tries = self.tries.saturating_add(usize::from(options.wait == Wait::No));
        self.undecided |= options.max_waiters.is_some();
        self.counts |= self.undecided;
    }

    /// Counts a caller out that is no longer among the open calls.
    pub(crate) fn ended(&mut self, tries: bool, open: &OpenCalls) {
        self.live = self.live.saturating_sub(1);
        self.tries = self.tries.saturating_sub(usize::from(tries));
        // Only while ended entries are left, because looking up an open call costs a cache miss.
        while self.entries.len() > self.live && self.entries.front().is_some_and(|(op, _)| !open.contains_key(op)) {
            self.entries.pop_front();
        }
        // Sweeps when most entries have ended, so that the queue can't grow forever behind a patient head.
        if self.entries.len() > self.live.saturating_mul(2).saturating_add(32) {
            self.entries.retain(|(op, _)| open.contains_key(op));
        }
    }

    /// Frees the room of the only caller that ever came, because a held lease needs none. Where callers follow each other, it
    /// is used again.
    pub(crate) fn free_room(&mut self) {
        if self.entries.is_empty() && self.entries.capacity() == 1 {
            self.entries = VecDeque::new();
        }
    }

    /// Removes the first caller. It goes on waiting elsewhere, or is about to be ended.
    pub(crate) fn pop(&mut self, open: &OpenCalls) -> Option<(Caller, AcquireOptions)> {
        let (op, options) = self.entries.pop_front()?;
        self.ended(options.wait == Wait::No, open);
        self.free_room();
        Some((op, options))
    }

    /// The first caller.
    pub(crate) fn head(&self) -> Option<(Caller, &AcquireOptions)> {
        self.entries.front().map(|(op, options)| (*op, options))
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    pub(crate) fn tries(&self) -> usize {
        self.tries
    }

    /// How many callers wait.
    pub(crate) fn waiters(&self) -> u32 {
        u32::try_from(self.live.saturating_sub(self.tries)).unwrap_or(u32::MAX)
    }

    /// How many others the most patient waiting caller accepts. None if no caller counts them.
    pub(super) fn most_accepted(&self, open: &OpenCalls) -> Option<u32> {
        if !self.counts {
            return None;
        }
        let waits = |(op, options): &&(Caller, AcquireOptions)| options.wait != Wait::No && open.contains_key(op);
        self.entries.iter().filter(waits).map(|(_, options)| options.max_waiters.unwrap_or(u32::MAX)).max()
    }

    pub(crate) const fn is_undecided(&self) -> bool {
        self.undecided
    }

    /// Decides about the callers that don't wait behind any number of others. Returns those that are refused, each with the number
    /// that it found: `before` and those that wait before it here. If all are `counted`, the others may wait from now on.
    pub(crate) fn refuse(&mut self, open: &OpenCalls, before: u32, counted: bool) -> Vec<(Caller, u32)> {
        let (mut refused, mut found) = (Vec::new(), before);
        if !core::mem::take(&mut self.undecided) {
            return refused;
        }
        for (op, options) in &mut self.entries {
            if options.wait == Wait::No || !open.contains_key(op) {
                continue;
            }
            match options.max_waiters {
                Some(most) if found >= most => {
                    refused.push((*op, found));
                    continue;
                }
                Some(_) if counted => options.max_waiters = None,
                Some(_) => self.undecided = true,
                None => {}
            }
            found = found.saturating_add(1);
        }
        refused
    }

    /// Every entry, including those that have ended.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (Caller, AcquireOptions)> + '_ {
        self.entries.iter().copied()
    }
}
