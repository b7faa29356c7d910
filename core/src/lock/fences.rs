//! Fences that the server reserved for a hold.

/// Fences that the server reserved for this hold. Each is given to one holder.
#[derive(Debug)]
pub(super) struct Fences {
    next: u64,
    /// How many are left, starting with `next`.
    left: u64,
    spare: Option<(u64, u64)>,
}

impl Fences {
    pub(crate) const fn new(first: u64, count: u64) -> Self {
        Self { next: first, left: count, spare: None }
    }

    /// The next fence. It is greater than all before it.
    pub(super) fn take(&mut self) -> Option<u64> {
        if self.left == 0 {
            (self.next, self.left) = self.spare.take()?;
        }
        let fence = self.next;
        self.next = fence.saturating_add(1);
        self.left = self.left.checked_sub(1)?;
        Some(fence)
    }

    /// The last of those that follow each other.
    #[cfg(feature = "quorum")]
    pub(super) const fn last(&self) -> u64 {
        self.next.saturating_add(self.left).saturating_sub(1)
    }

    pub(crate) fn left(&self) -> u64 {
        self.left.saturating_add(self.spare.map_or(0, |(_, count)| count))
    }

    /// Adds a block from a refill. A late one never lowers the next fence.
    pub(super) fn add(&mut self, first: u64, count: u64) {
        if let Some((spare, spared)) = &mut self.spare {
            let end = spare.saturating_add(*spared);
            if first == end {
                *spared = spared.saturating_add(count);
            } else if first > end {
                (*spare, *spared) = (first, count);
            }
            return;
        }
        let end = self.next.saturating_add(self.left);
        if first < end {
            return;
        }
        if self.left == 0 {
            (self.next, self.left) = (first, count);
        } else if first == end {
            self.left = self.left.saturating_add(count);
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
    }
}
