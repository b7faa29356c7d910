//! A lease of the blocking API.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Fence, LossReason, Mode, ReleaseOutcome};
use tokio::time::timeout;
use tracing::Span;

use super::background::Background;
use crate::api::LeaseToken;
use crate::errors::Error;

/// A lock that you hold for a limited time.
///
/// The background thread renews it while you hold it. Dropping the lease, also by a panic, releases it in the background.
/// To wait for the release and see its result, call [`release`](Self::release).
#[must_use = "a lease that is dropped is released at once"]
pub struct Lease {
    // Before `background`, so that it is released before the last handle closes the client.
    inner: crate::Lease,
    background: Arc<Background>,
}

impl Lease {
    pub(super) fn new(background: Arc<Background>, inner: crate::Lease) -> Self {
        Self { inner, background }
    }

    /// The lock's name, without the manager's prefix. Several names are joined by `, `.
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// The fencing token. It is greater than the fence of every lease that excluded this one before: see
    /// [`Lease::fence`](crate::Lease::fence).
    pub fn fence(&self) -> Fence {
        self.inner.fence()
    }

    /// The fencing token of each name, in the order in which you gave the names.
    pub fn fences(&self) -> impl ExactSizeIterator<Item = (&str, Fence)> {
        self.inner.fences()
    }

    /// Whether the lease is exclusive or shared.
    pub fn mode(&self) -> Mode {
        self.inner.mode()
    }

    /// How long the lease is still valid by the local clock, unless it is renewed. Zero once it has ended. No I/O.
    pub fn remaining(&self) -> Duration {
        self.inner.remaining()
    }

    /// Whether the lease is still valid by the local clock. No I/O.
    pub fn is_held(&self) -> bool {
        self.inner.is_held()
    }

    /// Asks the server whether the lease is still there: see [`Lease::verify`](crate::Lease::verify).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn verify(&self) -> Result<bool, Error> {
        self.background.block_on(self.inner.verify())?
    }

    /// Waits at most `limit` for a loss. Returns the reason, or `None` if the lease was not lost in that time.
    ///
    /// ```no_run
    /// # fn f(lease: leasehold::blocking::Lease) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// if let Some(reason) = lease.wait_lost(Duration::from_secs(1))? {
    ///     println!("stop at once: {reason}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `unsupported` inside a tokio task.
    pub fn wait_lost(&self, limit: Duration) -> Result<Option<LossReason>, Error> {
        let ended = self.inner.ended();
        match self.background.block_on(async { timeout(limit, ended).await })? {
            Ok(Some(reason)) => Ok(Some(reason)),
            Ok(None) => Err(Error::Closed),
            Err(_) => Ok(None),
        }
    }

    /// Calls `notify` once with the reason when the lease is lost, before the lease expires on the server. If the lease
    /// is already lost, the call comes at once. There is no call if the lease is released first.
    ///
    /// The background thread calls it, so it must not block: renewals of other leases wait for it. Set a flag or send to
    /// a channel.
    ///
    /// ```no_run
    /// # fn f(lease: leasehold::blocking::Lease) {
    /// let (sender, losses) = std::sync::mpsc::channel();
    /// lease.on_lost(move |reason| {
    ///     let _ = sender.send(reason);
    /// });
    /// # }
    /// ```
    pub fn on_lost(&self, notify: impl FnOnce(LossReason) + Send + 'static) {
        let ended = self.inner.ended();
        self.background.runtime.spawn(async move {
            if let Some(reason) = ended.await {
                notify(reason);
            }
        });
    }

    /// A token that is cancelled when the lease ends: see [`Lease::cancellation_token`](crate::Lease::cancellation_token). Work on this
    /// thread or on others can ask [`is_cancelled`](tokio_util::sync::CancellationToken::is_cancelled) between its steps.
    ///
    /// ```
    /// # #[cfg(feature = "testing")]
    /// # fn main() -> Result<(), leasehold::Error> {
    /// # let locks = leasehold::blocking::LockManager::in_memory()?;
    /// let lease = locks.mutex("report").acquire()?;
    /// let token = lease.cancellation_token();
    /// let helper = std::thread::spawn(move || {
    ///     while !token.is_cancelled() {
    ///         std::thread::yield_now(); // one step of the work
    ///     }
    /// });
    /// lease.release()?;
    /// let _ = helper.join();
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "testing"))]
    /// # fn main() {}
    /// ```
    #[cfg(feature = "cancellation-token")]
    #[cfg_attr(docsrs, doc(cfg(feature = "cancellation-token")))]
    pub fn cancellation_token(&self) -> tokio_util::sync::CancellationToken {
        self.inner.cancellation_token()
    }

    /// The span of the lease, for the work under it.
    pub(super) fn span(&self) -> Span {
        self.inner.span()
    }

    /// Makes the lease valid for at least `ttl` from now: see [`Lease::extend`](crate::Lease::extend).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn extend(&self, ttl: Duration) -> Result<(), Error> {
        self.background.block_on(self.inner.extend(ttl))?
    }

    /// Makes the lease end `ttl` from now: see [`Lease::shorten`](crate::Lease::shorten).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn shorten(&self, ttl: Duration) -> Result<(), Error> {
        self.background.block_on(self.inner.shorten(ttl))?
    }

    /// Ends this process's interest in the lease without freeing the lock: see [`Lease::detach`](crate::Lease::detach).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn detach(&self) -> Result<LeaseToken, Error> {
        self.background.block_on(self.inner.detach())?
    }

    /// As [`detach`](Self::detach), for a time from now: see [`Lease::detach_for`](crate::Lease::detach_for).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn detach_for(&self, time: Duration) -> Result<LeaseToken, Error> {
        self.background.block_on(self.inner.detach_for(time))?
    }

    /// Takes one more hold on this lease, without I/O. The lease is released with its last hold.
    ///
    /// # Errors
    /// `not-held` if the lease was lost, `closed`.
    pub fn nested(&self) -> Result<Self, Error> {
        Ok(Self::new(Arc::clone(&self.background), self.inner.nested()?))
    }

    /// Stops the renewals: see [`Lease::stop_renewing`](crate::Lease::stop_renewing).
    pub fn stop_renewing(&self) {
        self.inner.stop_renewing();
    }

    /// The lease's token. Another process can take the lease over with it: see [`Lease::token`](crate::Lease::token).
    ///
    /// # Errors
    /// As the async method.
    pub fn token(&self) -> Result<LeaseToken, Error> {
        self.inner.token()
    }

    /// How many holds this lease has.
    pub fn hold_count(&self) -> u32 {
        self.inner.hold_count()
    }

    /// Turns an exclusive lease into a shared one: see [`Lease::downgrade`](crate::Lease::downgrade).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn downgrade(&self) -> Result<(), Error> {
        self.background.block_on(self.inner.downgrade())?
    }

    /// Turns the lease of the only reader into an exclusive one: see [`Lease::upgrade`](crate::Lease::upgrade).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn upgrade(&self) -> Result<(), Error> {
        self.background.block_on(self.inner.upgrade())?
    }

    /// Gives this hold back and returns what happened: see [`Lease::release`](crate::Lease::release).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task. The lease is then released in the background.
    pub fn release(self) -> Result<ReleaseOutcome, Error> {
        let Self { inner, background } = self;
        background.block_on(inner.release())?
    }

    /// The lease of the async API and the client's thread, for a method that ends the lease itself.
    #[cfg(feature = "once")]
    pub(super) fn into_parts(self) -> (crate::Lease, Arc<Background>) {
        (self.inner, self.background)
    }

    /// Gives the hold back after some work. Fails if the lease ended before the work did.
    pub(super) fn release_or_loss(self) -> Result<(), Error> {
        let Self { inner, background } = self;
        background.block_on(inner.release_or_loss())?
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
