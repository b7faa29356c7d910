//! The thread behind a blocking manager, and how callers wait for it.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::coop;

use crate::LockManager;
use crate::errors::Error;

/// A manager and the thread that drives it. Locks and leases share it.
///
/// When it is dropped, the thread closes the manager, which releases its leases, and ends.
pub(super) struct Background {
    pub(super) manager: LockManager,
    pub(super) runtime: Handle,
    /// Takes the manager to the thread, to be closed there.
    ended: Option<oneshot::Sender<LockManager>>,
}

impl Background {
    /// Starts the thread and makes the manager on its runtime.
    pub(super) fn start(connecting: impl Future<Output = Result<LockManager, Error>>) -> Result<Arc<Self>, Error> {
        refuse_in_a_task()?;
        let failed = |error: std::io::Error| {
            let problem = format!("a blocking lock manager needs a background thread, which did not start: {error}");
            Error::Unsupported { name: None, problem }
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (ended, end) = oneshot::channel::<LockManager>();
        let drive = move || {
            runtime.block_on(async {
                // An error means that connecting failed, so there is nothing to close.
                if let Ok(manager) = end.await {
                    manager.close().await;
                }
            });
        };
        thread::Builder::new().name("leasehold".to_owned()).spawn(drive).map_err(failed)?;
        let manager = {
            // Timers, sockets and tasks belong to the thread's runtime.
            let _inside = handle.enter();
            wait_for(connecting)?
        };
        Ok(Arc::new(Self { manager, runtime: handle, ended: Some(ended) }))
    }

    /// Blocks until the future ends.
    pub(super) fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        refuse_in_a_task()?;
        let _inside = self.runtime.enter();
        Ok(wait_for(future))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.take() {
            // The thread has ended only if its runtime has.
            let _ = ended.send(self.manager.clone());
        }
    }
}

/// Polls the future on this thread, which sleeps in between. tokio's own `block_on` would panic where a runtime runs.
fn wait_for<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}

/// Fails inside a task of a tokio runtime, which a blocking call would stop together with its neighbours.
fn refuse_in_a_task() -> Result<(), Error> {
    if !is_in_a_task() {
        return Ok(());
    }
    let problem = "a blocking call would stop the tasks of this tokio runtime; use the async API of \
                   `leasehold::LockManager`, or call it in `tokio::task::spawn_blocking`";
    Err(Error::Unsupported { name: None, problem: problem.to_owned() })
}

/// Whether tokio limits how long this code may run without a pause. It does in tasks, but not in `spawn_blocking`,
/// `block_in_place` and other threads. `Handle::try_current` doesn't tell them apart.
fn is_in_a_task() -> bool {
    /// More than tokio's budget for one poll of a task, which is 128.
    const MANY: usize = 1024;
    if Handle::try_current().is_err() {
        return false;
    }
    let mut context = Context::from_waker(Waker::noop());
    (0..MANY).any(|_| pin!(coop::consume_budget()).poll(&mut context).is_pending())
}
