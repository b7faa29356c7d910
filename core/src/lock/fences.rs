//! Fences that the server reserved for a hold.

/// Fences that the server reserved for this hold. Each is given to one holder.
#[derive(Clone, Debug, Hash)]
pub(super) struct Fences {
    next: u64,
    /// How many are left, starting with `next`.
    left: u64,
    spare: Option<(u64, u64)>,
    /// The greatest that was taken or given out.
    pub(super) taken: u64,
    /// The greatest that the server drew. Its counter has that one at least.
    pub(super) drawn: u64,
    /// The greatest that a quorum gave out while the server held the lock for it.
    #[cfg(feature = "quorum")]
    given: u64,
}

impl Fences {
    pub(crate) const fn new(first: u64, count: u64) -> Self {
        Self {
            next: first,
            left: count,
            spare: None,
            taken: 0,
            drawn: first,
            #[cfg(feature = "quorum")]
            given: 0,
        }
    }

    /// The greatest fence that was taken, if the server's counter may be below it. Else 0.
    pub(super) const fn used_fence(&self) -> u64 {
        if self.taken > self.drawn { self.taken } else { 0 }
    }

    /// The next fence. It is greater than all before it.
    pub(super) fn take(&mut self) -> Option<u64> {
        if self.left == 0 {
            (self.next, self.left) = self.spare.take()?;
        }
        let fence = self.next;
        self.next = fence.saturating_add(1);
        self.left = self.left.checked_sub(1)?;
        self.taken = self.taken.max(fence);
        Some(fence)
    }

    /// The first fence, if none was taken.
    pub(super) const fn first(&self) -> Option<u64> {
        if self.taken == 0 { Some(self.next) } else { None }
    }

    /// A quorum gives this fence out.
    #[cfg(feature = "quorum")]
    pub(crate) fn gives_out(&mut self, fence: u64) {
        self.taken = self.taken.max(fence);
        self.given = self.given.max(fence);
    }

    /// A fence that is above all that a quorum gave out: this one, or a greater one.
    #[cfg(feature = "quorum")]
    pub(crate) fn above_given(&self, fence: u64) -> u64 {
        self.given.saturating_add(1).max(fence)
    }

    /// The last of those that follow each other.
    #[cfg(feature = "quorum")]
    pub(super) const fn last(&self) -> u64 {
        self.next.saturating_add(self.left).saturating_sub(1)
    }

    pub(crate) fn left(&self) -> u64 {
        self.left.saturating_add(self.spare.map_or(0, |(_, count)| count))
    }

    /// Adds a block from a refill. It may begin inside of the last one. A late one never lowers the next fence.
    pub(crate) fn add(&mut self, first: u64, count: u64) {
        self.drawn = self.drawn.max(first);
        let (start, left) = self.spare.unwrap_or((self.next, self.left));
        let (end, added) = (start.saturating_add(left), first.saturating_add(count));
        if first <= end {
            let left = left.saturating_add(added.saturating_sub(end));
            match &mut self.spare {
                Some((_, spare)) => *spare = left,
                None => self.left = left,
            }
        } else if self.spare.is_none() && self.left == 0 {
            (self.next, self.left) = (first, count);
        } else {
            self.spare = Some((first, count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Fences;

    #[test]
    fn fences_rise_through_refills_and_end_with_the_last_block() {
        let mut fences = Fences::new(10, 2);
        assert_eq!(fences.take(), Some(10));
        fences.add(20, 1);
        fences.add(21, 1);
        assert_eq!(fences.left(), 3);
        assert_eq!([fences.take(), fences.take(), fences.take(), fences.take()], [Some(11), Some(20), Some(21), None]);
    }

    #[test]
    fn a_late_refill_never_lowers_the_next_fence() {
        let mut fences = Fences::new(100, 1);
        fences.add(50, 10);
        assert_eq!(fences.take(), Some(100));
        fences.add(60, 10);
        assert_eq!(fences.take(), None);
        fences.add(101, 1);
        assert_eq!(fences.take(), Some(101));
        assert_eq!(fences.used_fence(), 0, "the server drew it");
        fences.add(102, 2);
        assert_eq!([fences.take(), fences.take()], [Some(102), Some(103)]);
        assert_eq!(fences.used_fence(), 103);
    }

    #[test]
    fn a_refill_that_begins_inside_of_the_last_block_adds_what_is_behind_it() {
        let mut fences = Fences::new(10, 3);
        assert_eq!(fences.take(), Some(10));
        fences.add(11, 4);
        assert_eq!(fences.left(), 4);
        fences.add(30, 2);
        fences.add(31, 3);
        assert_eq!(fences.left(), 8);
        let rest = core::iter::from_fn(|| fences.take()).collect::<alloc::vec::Vec<_>>();
        assert_eq!(rest, [11, 12, 13, 14, 30, 31, 32, 33]);
    }
}
