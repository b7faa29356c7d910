//! Calls of the connection provider that take too long.

use alloc::boxed::Box;

use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use crate::limits;
use crate::time::{LATE, Stopwatch, sleep};

/// The result of `call`. If it takes longer than `limit`, returns `None` and [leaves](leave) it. If this instance was
/// paused until after the limit, the result may have arrived, but not been read. So the call then gets the same time
/// once more.
pub(crate) async fn timeout<T: 'static>(limit: Duration, call: impl Future<Output = T> + 'static) -> Option<T> {
    let (mut call, stopwatch) = (Box::pin(call), Stopwatch::start());
    let mut done = within(limit, call.as_mut()).await;
    if done.is_none() && stopwatch.remaining(limit + LATE).is_zero() {
        done = within(limit, call.as_mut()).await;
    }
    if done.is_none() {
        wit_bindgen::spawn_local(leave(call));
    }
    done
}

/// Waits for the end of a call that was given up, and ignores its result. Cancelling the call would be worse: if the
/// provider is a component that is busy, a cancellation blocks this whole instance until the provider goes on, and some
/// hosts write a late result into memory that is in use again. Only if too many calls are left, the call is cancelled.
pub(crate) async fn leave<T>(call: impl Future<Output = T>) {
    if let Some(_permit) = limits::left_call_permit() {
        drop(call.await);
    }
}

async fn within<T>(limit: Duration, call: impl Future<Output = T>) -> Option<T> {
    let mut call = pin!(call);
    let mut limit = pin!(sleep(limit));
    poll_fn(|context| match call.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => limit.as_mut().poll(context).map(|()| None),
    })
    .await
}
