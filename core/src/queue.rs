//! The local callers of one name, first come, first served.

use alloc::collections::VecDeque;

use crate::event::OpId;

/// Local callers in their order. A caller that ends early is only marked, and skipped or swept out later.
#[derive(Default)]
pub(crate) struct LocalQueue {
    entries: VecDeque<OpId>,
    live: usize,
    /// How many of the live ones don't wait: they end with the first answer.
    tries: usize,
}

impl LocalQueue {
    pub(crate) fn push(&mut self, op: OpId, tries: bool) {
        self.entries.push_back(op);
        self.live = self.live.saturating_add(1);
        self.tries = self.tries.saturating_add(usize::from(tries));
    }

    /// Counts out a caller that is no longer among the open calls.
    pub(crate) fn ended(&mut self, tries: bool, is_open: impl Fn(OpId) -> bool) {
        self.live = self.live.saturating_sub(1);
        self.tries = self.tries.saturating_sub(usize::from(tries));
        // Sweep when most entries are dead, so that a patient head can't let the queue grow for ever.
        if self.entries.len() > self.live.saturating_mul(2).saturating_add(32) {
            self.entries.retain(|op| is_open(*op));
        }
    }

    /// The first live caller.
    pub(crate) fn head(&mut self, is_open: impl Fn(OpId) -> bool) -> Option<OpId> {
        if self.live == 0 {
            self.entries.clear();
            return None;
        }
        while let Some(op) = self.entries.front() {
            if is_open(*op) {
                return Some(*op);
            }
            self.entries.pop_front();
        }
        None
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

    /// Every entry, dead ones among them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = OpId> + '_ {
        self.entries.iter().copied()
    }
}
