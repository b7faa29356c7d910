//! Clocks that disagree: every client and every server has its own, with its own rate.
//!
//! *True time* is the time of the simulated world: microseconds since the run began. No client or server can read it.

use leasehold_core::Instant;

/// Microseconds of true time.
pub type Micros = u64;

const MILLION: u64 = 1_000_000;

/// A clock that started at `origin` and runs at `parts` millionths of the rate of true time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: u64,
    parts: u64,
}

impl Clock {
    /// A clock that shows `origin` at true time 0 and gains `ppm` microseconds in a second.
    pub fn new(origin: u64, ppm: i64) -> Self {
        Self { origin, parts: MILLION.saturating_add_signed(ppm) }
    }

    /// What it shows at a true time.
    pub fn reads(&self, at: Micros) -> u64 {
        self.origin + (u128::from(at) * u128::from(self.parts) / u128::from(MILLION)) as u64
    }

    /// The same as a client's monotonic time.
    pub fn instant(&self, at: Micros) -> Instant {
        Instant::from_micros(self.reads(at))
    }

    /// The first true time at which it shows `reading` or more.
    pub fn when(&self, reading: u64) -> Micros {
        let passed = u128::from(reading.saturating_sub(self.origin));
        (passed * u128::from(MILLION)).div_ceil(u128::from(self.parts)) as u64
    }

    /// Sets it back by this many microseconds.
    pub fn step_back(&mut self, by: u64) {
        self.origin = self.origin.saturating_sub(by);
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;

    #[test]
    fn when_is_the_first_time_at_which_the_clock_shows_the_reading() {
        for ppm in [-5000, -1, 0, 1, 4999] {
            let clock = Clock::new(123_456, ppm);
            for reading in [0, 123_456, 123_457, 9_999_999, 1_000_000_007] {
                let when = clock.when(reading);
                assert!(clock.reads(when) >= reading);
                assert!(when == 0 || clock.reads(when - 1) < reading);
            }
        }
    }
}
