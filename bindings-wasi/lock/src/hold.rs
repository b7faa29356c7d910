//! `hold`: renews a lease for a time.

use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use leasehold_core::LeaseId;

use crate::bindings::exports::leasehold::lock::locks::HoldEnd;
use crate::error;
use crate::limits::{self, Taken};
use crate::shared::Shared;
use crate::timer::sleep;

/// Keeps a lease until this is dropped, but no longer than its time.
pub(crate) struct Hold<'a> {
    shared: &'a Shared,
    lease: LeaseId,
    time: Duration,
    keeper: u64,
    _taken: Taken,
}

impl<'a> Hold<'a> {
    pub(crate) fn new(shared: &'a Shared, lease: LeaseId, time: Duration) -> Self {
        Self { shared, lease, time, keeper: shared.add_keeper(lease, time), _taken: limits::call(0) }
    }

    /// Waits until the time is over or the lease has ended.
    pub(crate) async fn end(self, is_released: impl Fn() -> bool) -> HoldEnd {
        let mut time = pin!(sleep(self.time));
        poll_fn(|context| {
            if is_released() {
                return Poll::Ready(HoldEnd::Released);
            }
            if let Some(reason) = self.shared.loss(self.lease) {
                return Poll::Ready(HoldEnd::Lost(error::loss(reason)));
            }
            self.shared.watch(self.lease, context);
            time.as_mut().poll(context).map(|()| HoldEnd::Held)
        })
        .await
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.shared.remove_keeper(self.lease, self.keeper);
    }
}
