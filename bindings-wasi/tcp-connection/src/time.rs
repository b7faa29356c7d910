//! Timers and timeouts.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::bindings::wasi::clocks::monotonic_clock;

/// Measures how long something takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(u64);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(monotonic_clock::now())
    }

    /// How much of `limit` is left. Zero if nothing is.
    pub(crate) fn remaining(self, limit: Duration) -> Duration {
        let elapsed = monotonic_clock::now().saturating_sub(self.0);
        limit.saturating_sub(Duration::from_nanos(elapsed))
    }
}

pub(crate) async fn sleep(time: Duration) {
    monotonic_clock::wait_for(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)).await;
}

/// A timer that fires this late shows that this instance was paused.
const LATE: Duration = Duration::from_millis(50);

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
    match select(pin!(action), pin!(sleep(limit))).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}

/// The result of the future that ends first. The other one is dropped.
pub(crate) async fn race<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    select(pin!(one), pin!(other)).await.factor_first().0
}
