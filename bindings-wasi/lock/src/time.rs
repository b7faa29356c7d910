//! The engine's clock, timers and timeouts.

use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
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

/// The result of `action`. If it takes longer than `limit`, returns `None` and drops it. If this instance was paused
/// until after the limit, the result may have arrived, but not been read. So the action then gets the same time once
/// more.
pub(crate) async fn timeout<T>(limit: Duration, action: impl Future<Output = T>) -> Option<T> {
    let (mut action, stopwatch) = (pin!(action), Stopwatch::start());
    if let Some(done) = within(limit, action.as_mut()).await {
        return Some(done);
    }
    if stopwatch.remaining(limit + LATE).is_zero() { within(limit, action).await } else { None }
}

async fn within<T>(limit: Duration, action: impl Future<Output = T>) -> Option<T> {
    let mut action = pin!(action);
    let mut limit = pin!(sleep(limit));
    poll_fn(|context| match action.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => limit.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// Whole milliseconds, capped at `u64::MAX`.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
