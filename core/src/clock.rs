//! A clock that also counts the time in which the machine was suspended.

use crate::time::api::Duration;
use crate::time::{Instant, micros};

/// Makes the engine's clock of two clocks of the host, for hosts that have no clock like Linux's `CLOCK_BOOTTIME`.
///
/// A monotonic clock may stop while the machine is suspended, but a lease on the server goes on. So this clock follows
/// whichever went further: the monotonic clock or the wall clock. A wall clock that is set forward can cost a lease, but
/// never safety. One that is set back changes nothing.
///
/// ```
/// use core::time::Duration;
/// use leasehold_core::Clock;
///
/// let at = |seconds| Duration::from_secs(seconds);
/// let mut clock = Clock::default();
/// let start = clock.now(at(1), at(1_800_000_000));
/// // The machine was suspended for a minute.
/// let later = clock.now(at(2), at(1_800_000_061));
/// assert_eq!(later.since(start), at(61));
/// ```
#[derive(Debug, Default)]
pub struct Clock {
    /// How far the wall clock is ahead of the monotonic clock, in microseconds. None before the first reading.
    gap: Option<i64>,
    /// The time that the monotonic clock left out, in microseconds.
    missed: u64,
    last: Instant,
}

/// A smaller difference is ignored: clocks that count whole milliseconds differ, and a wall clock is corrected slowly.
const NOTICEABLE: i64 = 10_000;

impl Clock {
    /// The current time. `monotonic` may have any origin. `wall` is the time since 1970.
    ///
    /// Read one directly after the other. A pause between the two readings can count as time that has passed.
    pub fn now(&mut self, monotonic: Duration, wall: Duration) -> Instant {
        let (monotonic, wall) = (micros(monotonic), micros(wall));
        let gap = signed(wall).saturating_sub(signed(monotonic));
        let known = *self.gap.get_or_insert(gap);
        let ahead = gap.saturating_sub(known);
        if ahead.abs() > NOTICEABLE {
            self.gap = Some(gap);
            self.missed = self.missed.saturating_add(u64::try_from(ahead).unwrap_or(0));
        }
        self.last = self.last.max(Instant::from_micros(monotonic.saturating_add(self.missed)));
        self.last
    }
}

fn signed(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const START: i64 = 1_800_000_000_000_000;

    /// Reads the clock once at each pair of microseconds since the start, by the monotonic and the wall clock.
    fn read_at(moments: &[(u64, i64)]) -> Vec<u64> {
        let mut clock = Clock::default();
        let wall = |micros: i64| Duration::from_micros(u64::try_from(START + micros).unwrap_or(0));
        let at =
            |&(monotonic, micros): &(u64, i64)| clock.now(Duration::from_micros(monotonic), wall(micros)).as_micros();
        moments.iter().map(at).collect()
    }

    #[test]
    fn the_time_of_a_suspension_counts_though_the_monotonic_clock_stood_still() {
        assert_eq!(read_at(&[(0, 0), (5, 5), (10, 60_000_010), (15, 60_000_015)]), [0, 5, 60_000_010, 60_000_015]);
    }

    #[test]
    fn a_wall_clock_that_is_set_back_takes_nothing_away_and_a_later_suspension_still_counts() {
        let hour = 3_600_000_000;
        let moments = [(0, 0), (100, 100 - hour), (200, 200 - hour), (300, 60_000_300 - hour)];
        assert_eq!(read_at(&moments), [0, 100, 200, 60_000_300]);
    }

    #[test]
    fn small_corrections_of_the_wall_clock_do_not_add_up() {
        let moments: Vec<(u64, i64)> =
            (0..1_000).map(|step| (step * 1_000, step as i64 * 1_000 + step as i64 % 9)).collect();
        assert_eq!(read_at(&moments).last(), Some(&999_000));
    }

    #[test]
    fn a_monotonic_clock_that_goes_back_stands_still() {
        assert_eq!(read_at(&[(0, 0), (900, 900), (400, 1_000), (1_000, 1_100)]), [0, 900, 900, 1_000]);
    }
}
