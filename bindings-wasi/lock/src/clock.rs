//! The clock that drives the engine.

use core::time::Duration;

use leasehold_core::{Clock, Instant};

use crate::bindings::wasi::clocks::{monotonic_clock, system_clock};

/// The current time. A suspension counts too, although a monotonic clock may leave it out.
pub(crate) fn now(clock: &mut Clock) -> Instant {
    let monotonic = Duration::from_nanos(monotonic_clock::now());
    let wall = system_clock::now();
    clock.now(monotonic, Duration::new(u64::try_from(wall.seconds).unwrap_or(0), wall.nanoseconds))
}
