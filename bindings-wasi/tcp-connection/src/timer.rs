//! Time and timeouts.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::bindings::wasi::clocks::monotonic_clock;

/// A moment of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(u64);

impl Moment {
    pub(crate) fn now() -> Self {
        Self(monotonic_clock::now())
    }

    /// How much is left of this time since this moment. Zero once it is over.
    pub(crate) fn rest_of(self, time: Duration) -> Duration {
        let passed = monotonic_clock::now().saturating_sub(self.0);
        time.saturating_sub(Duration::from_nanos(passed))
    }
}

/// Waits for this time.
pub(crate) async fn sleep(time: Duration) {
    monotonic_clock::wait_for(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)).await;
}

/// The result of `action`, or none if it takes longer. It is then dropped.
pub(crate) async fn within<T>(limit: Duration, action: impl Future<Output = T>) -> Option<T> {
    match select(pin!(action), pin!(sleep(limit))).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}

/// The result of whichever ends first. The other one is dropped.
pub(crate) async fn first<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    select(pin!(one), pin!(other)).await.factor_first().0
}
