//! The engine's clock, and timers.

use core::time::Duration;

use leasehold_core::{Clock, Instant};

use crate::bindings::wasi::clocks::{monotonic_clock, system_clock};

/// The current time for the engine. It includes the time for which the machine was suspended, although a monotonic
/// clock may leave that out.
pub(crate) fn now(clock: &mut Clock) -> Instant {
    let monotonic = Duration::from_nanos(monotonic_clock::now());
    let wall = system_clock::now();
    clock.now(monotonic, Duration::new(u64::try_from(wall.seconds).unwrap_or(0), wall.nanoseconds))
}

/// Measures how long something takes.
#[derive(Clone, Copy)]
pub(crate) struct Stopwatch(u64);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(monotonic_clock::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        Duration::from_nanos(monotonic_clock::now().saturating_sub(self.0))
    }

    /// How much of `limit` is left. Zero if nothing is.
    pub(crate) fn remaining(self, limit: Duration) -> Duration {
        limit.saturating_sub(self.elapsed())
    }
}

pub(crate) async fn sleep(time: Duration) {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    monotonic_clock::wait_for(nanos).await;
}

/// A timer that fires this late shows that this instance was paused.
pub(crate) const LATE: Duration = Duration::from_millis(50);

/// Whole milliseconds, capped at `u64::MAX`.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
