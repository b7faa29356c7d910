//! Fencing tokens rise: those that the server draws, and those that the holders get.

use leasehold_core::Mode;

use super::{Verdict, broken};

/// How far a reserved fence may be ahead of the server's clock: a millisecond, plus one for each grant of a single
/// script.
const AHEAD: u64 = 1_024 + 64;

/// The fences of one lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fences {
    drawn: u64,
    used: u64,
    used_by_writers: u64,
}

impl Fences {
    /// The server drew `fence` and reserved `block` from it on.
    pub(crate) fn drawn(&mut self, fence: u64, block: u64, server_us: u64) -> Verdict {
        let (before, used) = (self.drawn, self.used);
        self.drawn = self.drawn.max(fence + block.max(1) - 1);
        if fence <= before {
            return broken("fence-draw", format!("drew {fence}, and {before} was drawn or reserved before"));
        }
        if fence <= used {
            return broken("fence-draw", format!("drew {fence}, and {used} is in use"));
        }
        if fence + block > server_us + AHEAD {
            return broken("fence-ahead", format!("reserved up to {} at {server_us}", fence + block - 1));
        }
        Ok(())
    }

    /// A holder got a fence. An orphan's fence is from before its server lost the data, and may be smaller.
    pub(crate) fn used(&mut self, mode: Mode, fence: u64, orphan: bool) -> Verdict {
        let before = if mode == Mode::Exclusive { self.used } else { self.used_by_writers };
        self.used = self.used.max(fence);
        if mode == Mode::Exclusive {
            self.used_by_writers = self.used_by_writers.max(fence);
        }
        if fence <= before && !orphan {
            return broken("fence-order", format!("{mode:?} lease got {fence} after {before}"));
        }
        Ok(())
    }

    /// The server lost its data. Fences that were reserved and never used may be drawn again.
    pub(crate) fn data_lost(&mut self) {
        self.drawn = self.used;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_inside_an_earlier_block_is_seen() {
        let mut fences = Fences::default();
        fences.drawn(1_000, 33, 1_000).unwrap();
        assert_eq!(fences.drawn(1_032, 1, 1_032).unwrap_err().invariant, "fence-draw");
    }

    #[test]
    fn a_draw_far_ahead_of_the_clock_is_seen() {
        assert_eq!(Fences::default().drawn(5_000, 1_000, 4_000).unwrap_err().invariant, "fence-ahead");
    }

    #[test]
    fn a_writer_rises_above_all_and_a_reader_above_writers_only() {
        let mut fences = Fences::default();
        fences.used(Mode::Shared, 10, false).unwrap();
        fences.used(Mode::Shared, 9, false).unwrap();
        fences.used(Mode::Exclusive, 11, false).unwrap();
        assert_eq!(fences.used(Mode::Shared, 11, false).unwrap_err().invariant, "fence-order");
        assert!(fences.used(Mode::Exclusive, 11, false).is_err());
    }
}
