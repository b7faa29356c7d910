//! Timers and timeouts.

use alloc::boxed::Box;

use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use core::time::Duration;

use futures_util::future::LocalBoxFuture;
use leasehold_core::Instant;

use crate::bindings::wasi::clocks::monotonic_clock;

/// Clocks that stand still while the machine is suspended wake nobody in time, so check at least this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// When something began.
#[derive(Clone, Copy)]
pub(crate) struct Start(u64);

impl Start {
    pub(crate) fn now() -> Self {
        Self(monotonic_clock::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        Duration::from_nanos(monotonic_clock::now().saturating_sub(self.0))
    }
}

/// Waits for this time.
pub(crate) async fn sleep(time: Duration) {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    monotonic_clock::wait_for(nanos).await;
}

/// The result of `action`, or none if it takes longer. It is then dropped.
pub(crate) async fn within<T>(limit: Duration, action: impl Future<Output = T>) -> Option<T> {
    let mut action = pin!(action);
    let mut limit = pin!(sleep(limit));
    poll_fn(|context| match action.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => limit.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// The driver's timer. A later time doesn't change it, because waking early is harmless.
#[derive(Default)]
pub(crate) struct Timer {
    set: Option<(Instant, LocalBoxFuture<'static, ()>)>,
}

impl Timer {
    /// Wakes at `at`, or a little before.
    pub(crate) fn set(&mut self, now: Instant, at: Option<Instant>) {
        let Some(at) = at else { return };
        let at = at.min(now + LONGEST_SLEEP);
        if self.set.as_ref().is_none_or(|(earlier, _)| at < *earlier) {
            self.set = Some((at, Box::pin(sleep(at.since(now)))));
        }
    }

    /// Whether it has fired. That clears it.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let Some((_, sleep)) = &mut self.set else { return false };
        if Pin::new(sleep).poll(context).is_pending() {
            return false;
        }
        self.set = None;
        true
    }
}
