//! What happened in a run, in the order of time.

mod event;
mod recorder;

use std::time::{SystemTime, UNIX_EPOCH};

pub use event::{Entry, Event, HARNESS, Op, Permits, Share, What, names};
pub use recorder::{Recorder, read, write};

/// The time of day in microseconds.
pub fn day() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |day| day.as_micros() as u64)
}

/// The time of `CLOCK_MONOTONIC` in microseconds. All processes of a machine share this clock, and Node's
/// `process.hrtime` reads the same one.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000
}
