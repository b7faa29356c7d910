//! The clock that drives the engine.

use leasehold_core::Instant;

use crate::bindings::wasi::clocks::{monotonic_clock, system_clock};

/// A clock that also counts the time in which the machine was suspended. A monotonic clock may leave that time out, but
/// a lease on the server goes on. So this clock follows whichever advanced more: the monotonic clock or the calendar. A
/// calendar that is set forward can cost a lease, but never safety.
#[derive(Default)]
pub(crate) struct Clock {
    /// How far the calendar is ahead of the monotonic clock, once that was measured.
    gap: Option<i64>,
    /// The time that the monotonic clock has left out, in µs.
    missed: u64,
}

/// Both clocks at one moment, in µs.
#[derive(Clone, Copy)]
struct Reading {
    monotonic: u64,
    calendar: i64,
}

/// A smaller difference is ignored. It is more than small clock corrections add up to in a short time.
const NOTICEABLE: u64 = 10_000;

impl Clock {
    /// The present moment.
    pub(crate) fn now(&mut self) -> Instant {
        self.at(read)
    }

    fn at(&mut self, mut read: impl FnMut() -> Reading) -> Instant {
        let mut reading = read();
        let known = *self.gap.get_or_insert(reading.gap());
        if reading.gap().abs_diff(known) > NOTICEABLE {
            // A pause between the two readings looks the same, but it won't happen twice.
            reading = read();
            let gap = reading.gap();
            if gap.abs_diff(known) > NOTICEABLE {
                let ahead = u64::try_from(gap.saturating_sub(known)).unwrap_or(0);
                self.missed = self.missed.saturating_add(ahead);
                self.gap = Some(gap);
            }
        }
        Instant::from_micros(reading.monotonic.saturating_add(self.missed))
    }
}

impl Reading {
    fn gap(self) -> i64 {
        self.calendar.saturating_sub_unsigned(self.monotonic)
    }
}

fn read() -> Reading {
    let monotonic = monotonic_clock::now() / 1_000;
    let instant = system_clock::now();
    let calendar = instant.seconds.saturating_mul(1_000_000).saturating_add(i64::from(instant.nanoseconds / 1_000));
    Reading { monotonic, calendar }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_800_000_000_000_000;

    /// Reads the clock once at each pair of µs since the start.
    fn read_at(moments: &[(u64, i64)]) -> Vec<u64> {
        let mut clock = Clock::default();
        let mut at = |&(monotonic, calendar): &(u64, i64)| {
            clock.at(|| Reading { monotonic, calendar: START + calendar }).as_micros()
        };
        moments.iter().map(&mut at).collect()
    }

    #[test]
    fn the_time_of_a_suspension_counts_though_the_monotonic_clock_stood_still() {
        assert_eq!(read_at(&[(0, 0), (5, 5), (10, 60_000_010), (15, 60_000_015)]), [0, 5, 60_000_010, 60_000_015]);
    }

    #[test]
    fn a_calendar_that_is_put_back_takes_nothing_away_and_a_later_suspension_still_counts() {
        let hour = 3_600_000_000;
        let moments = [(0, 0), (100, 100 - hour), (200, 200 - hour), (300, 60_000_300 - hour)];
        assert_eq!(read_at(&moments), [0, 100, 200, 60_000_300]);
    }

    #[test]
    fn small_corrections_of_the_calendar_do_not_add_up() {
        let moments: Vec<(u64, i64)> =
            (0..1_000).map(|step| (step * 1_000, step as i64 * 1_000 + step as i64 % 9)).collect();
        assert_eq!(read_at(&moments).last(), Some(&999_000));
    }

    #[test]
    fn a_pause_between_the_two_readings_is_no_suspension() {
        let mut clock = Clock::default();
        clock.at(|| Reading { monotonic: 0, calendar: START });
        let mut readings = [(100, 50_100), (50_200, 50_200)].into_iter();
        let now = clock.at(|| {
            let (monotonic, calendar) = readings.next().expect("read twice");
            Reading { monotonic, calendar: START + calendar }
        });
        assert_eq!(now.as_micros(), 50_200);
    }
}
