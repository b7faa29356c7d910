//! Fencing tokens rise: those that the server draws, and those that the holders get.

use leasehold_core::Mode;

use super::{Verdict, broken};
use crate::wire::Token;

/// How far ahead of a script's clock a lost counter begins.
const BEGINS: u64 = 3_073;
/// How far a fence may be ahead of the server's clock: as far as after the loss of the counter, plus the microseconds that a script
/// without `TIME` adds, plus one for each grant at the same moment.
pub(crate) const AHEAD: u64 = BEGINS + 999 + 64;
/// The same, after a replica with a slower clock took over. Until its clock has caught up, each grant adds one.
const AHEAD_OF_A_SLOWER_CLOCK: u64 = AHEAD + 4_096;

/// Whether the server still has the lease of whoever uses a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// As far as anybody can see.
    Holder,
    /// Its server lost the data.
    Orphan,
    /// An operator took the lock from it.
    Victim,
}

impl User {
    /// The user of a lease that may be an `orphan`, because it is a `victim` or for another reason.
    pub(crate) fn of(orphan: bool, victim: bool) -> Self {
        match (orphan, victim) {
            (true, true) => Self::Victim,
            (true, false) => Self::Orphan,
            (false, _) => Self::Holder,
        }
    }
}

/// The fences of one lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fences {
    drawn: u64,
    used: u64,
    used_by_writers: u64,
    /// The server's counter was lost. Blocks from before may end here.
    least: u64,
    /// An operator took the lock, and this was drawn next. 0 if nothing was drawn since.
    forced: Option<u64>,
    /// From these tokens.
    victims: Vec<Token>,
    /// The server's clock was set back, and is behind until then.
    behind_until: u64,
    /// The end of the last block from before that.
    block_before: u64,
}

impl Fences {
    /// The server drew `fence` for a new holder in this mode, or for one that goes on.
    pub(crate) fn drawn(&mut self, mode: Mode, fence: u64, is_new: bool, server_us: u64) -> Verdict {
        if let Some(next @ 0) = &mut self.forced {
            *next = fence;
        }
        let before = self.drawn;
        self.drawn = self.drawn.max(fence);
        // Readers that are granted together share a fence.
        if fence < before || (fence == before && mode == Mode::Exclusive) {
            return broken("fence-draw", format!("drew {fence}, and {before} was drawn before"));
        }
        if fence <= self.least {
            return broken("fence-draw", format!("drew {fence}, and a block from before may reach {}", self.least));
        }
        let used = if mode == Mode::Exclusive { self.used } else { self.used_by_writers };
        if is_new && fence <= used {
            return broken("fence-draw", format!("drew {fence}, and {used} is in use"));
        }
        let slower = self.behind_until > 0 && fence <= self.behind_until + AHEAD_OF_A_SLOWER_CLOCK;
        if fence > server_us + AHEAD && !slower {
            return broken("fence-ahead", format!("drew {fence} at {server_us}"));
        }
        Ok(())
    }

    /// A holder got a fence. An orphan's fence is from before its server lost the data, and may be smaller.
    pub(crate) fn used(&mut self, mode: Mode, fence: u64, user: User, server_us: u64) -> Verdict {
        if server_us < self.behind_until {
            // It may belong to a block from before. Only the holder knows that block, and the clock that was set back
            // says nothing.
            return Ok(());
        }
        if user != User::Holder {
            // Whoever lost it may not know yet, and go on with its block. A slower clock doesn't tell how far that reaches.
            return match self.forced {
                Some(next) if user == User::Victim && next > 0 && fence >= next && fence > self.block_before => {
                    broken("fence-order", format!("{fence} is in use, and {next} was drawn after it was taken"))
                }
                _ => Ok(()),
            };
        }
        if fence > server_us + AHEAD {
            return broken("fence-ahead", format!("{fence} is in use at {server_us}"));
        }
        let before = if mode == Mode::Exclusive { self.used } else { self.used_by_writers };
        self.used = self.used.max(fence);
        if mode == Mode::Exclusive {
            self.used_by_writers = self.used_by_writers.max(fence);
        }
        if fence <= before {
            return broken("fence-order", format!("{mode:?} lease got {fence} after {before}"));
        }
        Ok(())
    }

    /// A holder has given the lock back, or converted it. The next draw must be above every fence that writers used. Other
    /// readers may still use fences of theirs.
    pub(crate) fn ends(&self, counter: u64, server_us: u64) -> Verdict {
        let used = self.used_by_writers;
        if used <= counter || used < server_us {
            return Ok(());
        }
        broken("used-untold", format!("{used} was used, and the counter is at {counter} at {server_us}"))
    }

    /// An operator took the lock from these holders.
    pub(crate) fn forced(&mut self, victims: &[Token]) {
        self.forced = Some(0);
        self.victims = victims.to_vec();
    }

    /// Whether an operator took the lock from this token, and it did not get it again.
    pub(crate) fn is_victim(&self, token: Option<Token>) -> bool {
        token.is_some_and(|token| self.victims.contains(&token))
    }

    /// The server granted the lock to a token that had nothing.
    pub(crate) fn granted(&mut self, token: Token) {
        self.victims.retain(|victim| *victim != token);
    }

    /// The server lost its counter.
    pub(crate) fn counter_lost(&mut self, server_us: u64) {
        self.least = server_us + 1_023;
        if self.drawn >= server_us + BEGINS {
            // It was lost within the last millisecond too, in which a script without `TIME` always begins with the same fence.
            (self.drawn, self.used, self.used_by_writers) = (0, 0, 0);
        }
    }

    /// A replica with this counter takes over when the clock is at `server_us`. Its own clock is behind. Fences of blocks that
    /// holders didn't tell may be drawn again.
    pub(crate) fn clock_fell_back(&mut self, counter: u64, server_us: u64) {
        self.forced = None;
        self.behind_until = self.behind_until.max(server_us);
        self.block_before = self.behind_until + 1_023;
        self.used = self.used.min(counter);
        self.used_by_writers = self.used_by_writers.min(counter);
    }

    /// The server lost its data.
    pub(crate) fn data_lost(&mut self) {
        self.forced = None;
    }

    /// The server lost the lock's own key, but not its last fence. Fences of the last millisecond may be drawn again.
    pub(crate) fn lock_lost(&mut self, server_us: u64) {
        self.forced = None;
        self.used = self.used.min(server_us);
        self.used_by_writers = self.used_by_writers.min(server_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_that_leaves_the_counter_below_a_used_fence_is_seen() {
        let mut fences = Fences::default();
        fences.used(Mode::Exclusive, 1_032, User::Holder, 1_000).unwrap();
        assert_eq!(fences.ends(1_031, 1_032).unwrap_err().invariant, "used-untold");
        fences.ends(1_032, 1_031).unwrap();
        fences.ends(1_000, 1_033).unwrap();
    }

    #[test]
    fn a_draw_that_is_not_above_a_used_fence_is_seen() {
        let mut fences = Fences::default();
        fences.drawn(Mode::Exclusive, 1_000, true, 1_000).unwrap();
        fences.used(Mode::Exclusive, 1_032, User::Holder, 2_000).unwrap();
        assert_eq!(fences.drawn(Mode::Exclusive, 1_032, true, 1_032).unwrap_err().invariant, "fence-draw");
        assert_eq!(fences.drawn(Mode::Shared, 1_032, true, 1_032).unwrap_err().invariant, "fence-draw");
        fences.drawn(Mode::Exclusive, 1_033, true, 1_032).unwrap();
        assert_eq!(fences.drawn(Mode::Exclusive, 1_033, false, 1_033).unwrap_err().invariant, "fence-draw");
    }

    #[test]
    fn a_draw_far_ahead_of_the_clock_is_seen() {
        let verdict = Fences::default().drawn(Mode::Exclusive, 5_100, true, 900);
        assert_eq!(verdict.unwrap_err().invariant, "fence-ahead");
    }

    #[test]
    fn a_use_far_ahead_of_the_clock_is_seen() {
        let verdict = Fences::default().used(Mode::Shared, 5_100, User::Holder, 900);
        assert_eq!(verdict.unwrap_err().invariant, "fence-ahead");
    }

    #[test]
    fn a_draw_far_ahead_of_a_clock_that_was_set_back_is_seen() {
        let mut fences = Fences::default();
        fences.used(Mode::Exclusive, 9_005, User::Holder, 9_000).unwrap();
        fences.clock_fell_back(9_000, 9_000);
        fences.drawn(Mode::Exclusive, 9_001, true, 2_000).unwrap();
        assert_eq!(fences.drawn(Mode::Exclusive, 18_000, true, 2_000).unwrap_err().invariant, "fence-ahead");
    }

    #[test]
    fn a_draw_inside_of_a_block_from_before_the_counter_was_lost_is_seen() {
        let mut fences = Fences::default();
        fences.counter_lost(1_000);
        assert_eq!(fences.drawn(Mode::Exclusive, 2_023, true, 1_100).unwrap_err().invariant, "fence-draw");
        fences.drawn(Mode::Exclusive, 2_024, true, 1_100).unwrap();
    }

    #[test]
    fn a_counter_that_is_lost_twice_within_a_millisecond_may_begin_with_the_same_fence() {
        let mut fences = Fences::default();
        for (lost, drawn) in [(1_000, 4_999), (1_500, 4_999), (2_000, 5_999)] {
            fences.counter_lost(lost);
            fences.drawn(Mode::Exclusive, drawn, true, lost).unwrap();
        }
        fences.counter_lost(3_000);
        assert_eq!(fences.drawn(Mode::Exclusive, 5_999, true, 3_000).unwrap_err().invariant, "fence-draw");
    }

    #[test]
    fn a_victim_that_goes_on_above_its_successor_is_seen() {
        let mut fences = Fences::default();
        fences.drawn(Mode::Exclusive, 1_000, true, 1_000).unwrap();
        let [victim, other] = [7, 8].map(|count| Token { life: 1, count });
        fences.forced(&[victim]);
        assert!(fences.is_victim(Some(victim)) && !fences.is_victim(Some(other)) && !fences.is_victim(None));
        fences.used(Mode::Exclusive, 1_020, User::Victim, 1_000).unwrap();
        fences.drawn(Mode::Exclusive, 1_010, true, 1_010).unwrap();
        fences.used(Mode::Exclusive, 1_009, User::Victim, 1_010).unwrap();
        fences.used(Mode::Exclusive, 1_010, User::Orphan, 1_010).unwrap();
        assert_eq!(fences.used(Mode::Exclusive, 1_010, User::Victim, 1_010).unwrap_err().invariant, "fence-order");
    }

    #[test]
    fn a_victim_may_go_on_with_a_block_from_before_the_clock_was_set_back() {
        let mut fences = Fences::default();
        fences.used(Mode::Exclusive, 9_005, User::Holder, 9_000).unwrap();
        fences.clock_fell_back(9_000, 9_000);
        fences.forced(&[Token { life: 1, count: 7 }]);
        fences.drawn(Mode::Exclusive, 9_001, true, 2_000).unwrap();
        fences.used(Mode::Exclusive, 10_023, User::Victim, 20_000).unwrap();
        assert_eq!(fences.used(Mode::Exclusive, 10_024, User::Victim, 20_000).unwrap_err().invariant, "fence-order");
    }

    #[test]
    fn a_lock_that_was_lost_within_a_millisecond_may_draw_a_used_fence_again() {
        let mut fences = Fences::default();
        fences.drawn(Mode::Exclusive, 1_000, true, 1_000).unwrap();
        fences.used(Mode::Exclusive, 1_032, User::Holder, 2_000).unwrap();
        fences.lock_lost(1_010);
        fences.drawn(Mode::Exclusive, 1_011, true, 1_011).unwrap();
    }

    #[test]
    fn a_writer_rises_above_all_and_a_reader_above_writers_only() {
        let mut fences = Fences::default();
        fences.used(Mode::Shared, 10, User::Holder, 2_000).unwrap();
        fences.used(Mode::Shared, 9, User::Holder, 2_000).unwrap();
        fences.used(Mode::Exclusive, 11, User::Holder, 2_000).unwrap();
        assert_eq!(fences.used(Mode::Shared, 11, User::Holder, 2_000).unwrap_err().invariant, "fence-order");
        assert!(fences.used(Mode::Exclusive, 11, User::Holder, 2_000).is_err());
    }
}
