//! A lease: a lock that is held for a limited time.

use std::fmt;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::{Fence, Grant, Input, LeaseId, LossReason, Mode, Operation, Outcome, ReleaseOutcome};
use tracing::Span;

use crate::client::{Client, OperationFuture, unexpected_outcome};
use crate::errors::Error;

use super::lease_token::LeaseToken;
use super::spans::Holding;

/// A lock that you hold for a limited time.
///
/// The client renews the lease while you hold it, and [`lost`](Self::lost) notifies you of a loss. Dropping the lease
/// releases it in the background. To wait for the release and see its result, call [`release`](Self::release).
///
/// When the runtime ends, background work ends with it. So release the lease, or [`close`](crate::LockManager::close)
/// the manager, before `main` returns. Otherwise the lock stays taken until its TTL is over.
#[must_use = "a lease that is dropped is released at once"]
pub struct Lease {
    client: Arc<Client>,
    id: LeaseId,
    name: Arc<str>,
    at_grant: (Fence, Mode),
    /// The fence of each name, if the lease holds several.
    fences: Option<Fences>,
    /// Set when `release` was called, so that dropping the lease does not release it again.
    released: bool,
    /// Set when the lease was detached, so that nothing releases it.
    detached: AtomicBool,
    holding: Holding,
}

/// Names with their fences.
pub(super) type Fences = Arc<[(Arc<str>, Fence)]>;

impl Lease {
    pub(super) fn new(client: Arc<Client>, name: Arc<str>, grant: &Grant, holding: Holding) -> Self {
        let at_grant = (Fence::new(grant.fence), grant.mode);
        let detached = AtomicBool::new(false);
        Self { client, id: grant.lease, name, at_grant, fences: None, released: false, detached, holding }
    }

    /// Nothing is held: the server keeps the permits of a rate for their time.
    pub(super) fn detached(mut self) -> Self {
        self.detached = AtomicBool::new(true);
        self
    }

    pub(super) fn with_fences(mut self, fences: Fences) -> Self {
        self.fences = Some(fences);
        self
    }

    pub(super) const fn id(&self) -> LeaseId {
        self.id
    }

    /// The lock's name, without the manager's prefix. Several names are joined by `, `.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fencing token. It is greater than the fence of every lease that excluded this one before.
    ///
    /// Send it along with every write, and let the resource refuse a fence that is smaller than the greatest it has
    /// seen. A conversion ([`upgrade`](Self::upgrade), [`downgrade`](Self::downgrade)) draws a new fence.
    pub fn fence(&self) -> Fence {
        self.client.shared.lease(self.id).map_or(self.at_grant.0, |lease| Fence::new(lease.fence))
    }

    /// The fencing token of each name, in the order in which you gave the names. Send each resource the fence of its
    /// name. [`fence`](Self::fence) is the greatest of them.
    pub fn fences(&self) -> impl ExactSizeIterator<Item = (&str, Fence)> {
        let fences = match &self.fences {
            Some(fences) => fences.iter().map(|(name, fence)| (&**name, *fence)).collect(),
            None => vec![(&*self.name, self.fence())],
        };
        fences.into_iter()
    }

    /// Whether the lease is exclusive or shared.
    pub fn mode(&self) -> Mode {
        self.client.shared.lease(self.id).map_or(self.at_grant.1, |lease| lease.mode)
    }

    /// How long the lease is still valid by the local clock, unless it is renewed. Zero once it has ended. No I/O.
    pub fn remaining(&self) -> Duration {
        self.client.shared.remaining(self.id)
    }

    /// Whether the lease is still valid by the local clock. No I/O.
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Asks the server whether the lease is still there. If it returns `false`, the lease is lost from now on.
    ///
    /// It returns within one response timeout.
    ///
    /// # Cancel safety
    /// Once polled, the check goes on even if you drop the future. It may then still find that the lease is lost.
    ///
    /// # Errors
    /// `unreachable`, `auth`, `server`, `closed`.
    pub async fn verify(&self) -> Result<bool, Error> {
        match self.execute(Operation::Verify { lease: self.id }).await {
            Ok(Outcome::Verified(held)) => Ok(held),
            Ok(other) => Err(unexpected_outcome(&other, &self.name)),
            Err(Error::NotHeld { .. } | Error::Lost { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Resolves with the reason when the lease is lost. If it is already lost, the future resolves at once.
    ///
    /// The future owns what it needs, so you can spawn it. It never resolves if the lease is released first. If the
    /// manager is closed, it resolves with [`LossReason::Closed`] before the lock is released.
    ///
    /// ```no_run
    /// # async fn work() {}
    /// # async fn f(lease: leasehold::Lease) {
    /// tokio::select! {
    ///     reason = lease.lost() => println!("stop at once: {reason}"),
    ///     () = work() => {}
    /// }
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// You can drop the future at any time and call `lost` again.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + Sync + 'static + use<> {
        let ended = self.ended();
        async move {
            match ended.await {
                Some(reason) => reason,
                None => pending().await,
            }
        }
    }

    /// Resolves when the lease ends: with the reason if it was lost, with none if it was released.
    pub(super) fn ended(&self) -> impl Future<Output = Option<LossReason>> + Send + Sync + 'static + use<> {
        let loss = self.client.shared.loss_receiver(self.id);
        // Weak, because a task that waits for a loss must not keep the client alive.
        let (shared, id) = (Arc::downgrade(&self.client.shared), self.id);
        async move {
            let mut loss = loss?;
            let mut waiting = pin!(loss.wait_for(Option::is_some));
            let found = poll_fn(|context| {
                // After a pause, this task may run before the driver. So it checks itself whether the lease has
                // expired.
                if let Some(shared) = shared.upgrade() {
                    shared.remaining(id);
                }
                waiting.as_mut().poll(context).map(|found| found.ok().and_then(|reason| *reason))
            });
            found.await
        }
    }

    /// The span of this hold. Work that runs in it has its spans below it.
    pub(super) fn span(&self) -> Span {
        self.holding.span()
    }

    #[cfg(feature = "cancellation-token")]
    pub(super) fn ending(&self) -> tokio_util::sync::CancellationToken {
        self.client.shared.cancellation_token(self.id)
    }

    /// Resolves with an error when the lease is lost or the client is closed.
    pub(super) async fn interrupted(&self) -> Error {
        match self.ended().await {
            None if self.is_detached() => pending().await,
            ended => loss_error(&self.name, ended.unwrap_or(LossReason::Closed)),
        }
    }

    /// Makes the lease valid for at least `ttl` from now (10 ms to 30 days), but not past its
    /// [`max_hold`](crate::Lock::max_hold). It never makes the lease shorter: see [`shorten`](Self::shorten).
    ///
    /// # Cancel safety
    /// Once polled, the request goes on even if you drop the future.
    ///
    /// # Errors
    /// `invalid-option` for a TTL that is out of its bounds, `not-held`, `lost`, `unreachable`, `auth`, `server`, `closed`.
    pub async fn extend(&self, ttl: Duration) -> Result<(), Error> {
        match self.execute(Operation::Extend { lease: self.id, ttl }).await? {
            Outcome::Extended { .. } => Ok(()),
            other => Err(unexpected_outcome(&other, &self.name)),
        }
    }

    /// Makes the lease end `ttl` from now (10 ms to 30 days), here and on the server, and stops the renewals. The lock is then
    /// free in time, even if this process ends before. [`extend`](Self::extend) can make the lease longer again.
    ///
    /// The lock is free earlier if you release or drop the lease or close the manager. The end of
    /// [`run`](crate::Lock::run) releases the lease.
    ///
    /// If the call fails, the lease still ends here in time, but the server may keep it for as long as before.
    ///
    /// # Cancel safety
    /// Once polled, the request goes on even if you drop the future.
    ///
    /// # Errors
    /// As [`extend`](Self::extend). `conflict` while other callers of this manager hold the same lease, as readers do.
    /// `unsupported` for reentrant locks, semaphores, several names and quorums.
    ///
    /// ```no_run
    /// # async fn f(lease: leasehold::Lease) -> Result<(), leasehold::Error> {
    /// lease.shorten(std::time::Duration::from_secs(5)).await?;
    /// lease.lost().await; // nobody else gets the lock for five more seconds
    /// # Ok(())
    /// # }
    /// ```
    pub async fn shorten(&self, ttl: Duration) -> Result<(), Error> {
        match self.execute(Operation::Shorten { lease: self.id, ttl }).await? {
            Outcome::Extended { .. } => Ok(()),
            other => Err(unexpected_outcome(&other, &self.name)),
        }
    }

    /// Ends this process's interest in the lease without freeing the lock. Returns the lease's token: another process, or this
    /// one, can [`adopt`](crate::Lock::adopt) the lease with it later, also after this manager has closed.
    ///
    /// The server keeps the lock for one more TTL, or until the end of a fixed lease. For another time, use
    /// [`detach_for`](Self::detach_for). No process renews it. This lease has ended: [`is_held`](Self::is_held) is false. If you
    /// drop it, if [`run`](crate::Lock::run) ends or if you [`close`](crate::LockManager::close) the manager, the lock stays taken.
    ///
    /// ```no_run
    /// # async fn f(locks: leasehold::LockManager) -> Result<(), leasehold::Error> {
    /// // The process that accepts the job
    /// let lease = locks.mutex("invoice:42").acquire().await?;
    /// let token = lease.detach_for(std::time::Duration::from_secs(600)).await?;
    ///
    /// // The process that does the job, at some time in the next ten minutes
    /// let adopted = locks.mutex("invoice:42").adopt(&token).await?;
    /// adopted.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Every process that has the token can take the lease. Treat it as a secret.
    ///
    /// # Cancel safety
    /// Once polled, the lease has ended here, even if you drop the future. No process has its token then.
    ///
    /// # Errors
    /// - `conflict` while other callers of this manager hold the same lease, as readers do, while it has
    ///   [`nested`](Self::nested) holds, and during a conversion. You still hold the lease.
    /// - `unsupported` for reentrant locks, several names and quorums. You still hold the lease.
    /// - `lost`, `not-held`.
    /// - `unreachable` if the server did not answer in time. The lease has ended here, and no process has a token. The client
    ///   repeats the request until the lease would have expired. The lock stays taken until then, or for the detached time.
    /// - `auth`, `server`, `closed`: as `unreachable`, but the client doesn't repeat the request.
    pub async fn detach(&self) -> Result<LeaseToken, Error> {
        self.detach_after(None).await
    }

    /// As [`detach`](Self::detach). The server keeps the lock for `time` from now (10 ms to 30 days), but not past the lease's
    /// [`max_hold`](crate::Lock::max_hold).
    ///
    /// # Cancel safety
    /// As [`detach`](Self::detach).
    ///
    /// # Errors
    /// As [`detach`](Self::detach), and `invalid-option` for a time that is out of its bounds.
    pub async fn detach_for(&self, time: Duration) -> Result<LeaseToken, Error> {
        self.detach_after(Some(time)).await
    }

    async fn detach_after(&self, time: Option<Duration>) -> Result<LeaseToken, Error> {
        // If the future is dropped, the lease is detached all the same.
        if self.detached.swap(true, Ordering::Relaxed) {
            return Err(Error::NotHeld { name: self.name.as_ref().to_owned() });
        }
        let result = self.execute(Operation::Detach { lease: self.id, time }).await;
        let ended = matches!(result, Err(Error::NotHeld { .. } | Error::Lost { .. } | Error::Closed));
        if ended || self.client.shared.lease(self.id).is_some() {
            self.detached.store(false, Ordering::Relaxed);
        }
        match result? {
            Outcome::Exported(token) => Ok(LeaseToken::of(&token)),
            other => Err(unexpected_outcome(&other, &self.name)),
        }
    }

    fn is_detached(&self) -> bool {
        self.detached.load(Ordering::Relaxed)
    }

    /// Takes one more hold on this lease, without I/O. The lease is released with its last hold.
    ///
    /// # Errors
    /// `not-held` if the lease was lost, `closed`.
    pub fn nested(&self) -> Result<Self, Error> {
        match self.client.execute_now(&Operation::Hold { lease: self.id }, &self.name)? {
            Outcome::Held(_) => {
                let (client, name, fences) = (Arc::clone(&self.client), Arc::clone(&self.name), self.fences.clone());
                let at_grant = (self.fence(), self.mode());
                let holding = self.holding.nested(&name, at_grant.0.get());
                let detached = AtomicBool::new(false);
                Ok(Self { client, id: self.id, name, at_grant, fences, released: false, detached, holding })
            }
            other => Err(unexpected_outcome(&other, &self.name)),
        }
    }

    /// Stops the renewals. The lease ends one TTL after its last renewal, and is then lost with [`LossReason::Expired`].
    /// [`extend`](Self::extend) moves that end. A fixed lease stays as it is. The call returns at once.
    ///
    /// If the lease came after a wait, the client renews it once more, because the server grants a waiter only the
    /// [claim window](crate::Builder::claim_window).
    pub fn stop_renewing(&self) {
        self.client.shared.handle(Input::StopRenewing { lease: self.id });
    }

    /// The lease's token. Another process can take the lease over with it: see [`Lock::adopt`](crate::Lock::adopt). No I/O.
    ///
    /// Keep this lease until the other process has adopted it. If you drop or release it, or close the manager, the lock
    /// is free, and the token no longer works. To end earlier, [`detach`](Self::detach) the lease instead. After the adoption, this
    /// lease is lost, usually with [`LossReason::Revoked`]: see [`lost`](Self::lost). A conversion and [`shorten`](Self::shorten) give the lease a new token.
    ///
    /// From now on, this process doesn't hand the lease over to its other callers, and the lease doesn't
    /// [linger](crate::Lock::linger).
    ///
    /// Every process that has the token can take the lease. Treat it as a secret.
    ///
    /// # Errors
    /// `unsupported` for reentrant locks, several names and quorums. `not-held`, `closed`; `conflict` during a conversion, and
    /// while other callers of this manager hold the same lease, as readers do.
    pub fn token(&self) -> Result<LeaseToken, Error> {
        match self.client.execute_now(&Operation::Export { lease: self.id }, &self.name)? {
            Outcome::Exported(token) => Ok(LeaseToken::of(&token)),
            other => Err(unexpected_outcome(&other, &self.name)),
        }
    }

    /// How many holds this lease has.
    pub fn hold_count(&self) -> u32 {
        self.client.shared.lease(self.id).map_or(0, |lease| lease.holds)
    }

    /// Turns an exclusive lease into a shared one. No writer can get in between, but waiting readers may join.
    ///
    /// # Cancel safety
    /// Once polled, the request goes on even if you drop the future. [`mode`](Self::mode) shows whether it has succeeded.
    ///
    /// # Errors
    /// `not-held`, `lost`, `unreachable`, `auth`, `server`, `closed`; `conflict` during another conversion;
    /// `unsupported` for any kind but a mutex or a read-write lock.
    pub async fn downgrade(&self) -> Result<(), Error> {
        self.convert(Mode::Shared).await
    }

    /// Turns the lease of the only reader into an exclusive one.
    ///
    /// # Cancel safety
    /// Once polled, the request goes on even if you drop the future. [`mode`](Self::mode) shows whether it has succeeded.
    ///
    /// # Errors
    /// `conflict` at once if there is another reader. It never waits, because two upgrades would wait for each other.
    /// `not-held`, `lost`, `unreachable`, `auth`, `server`, `closed`; `unsupported` for any kind but a mutex or a
    /// read-write lock.
    pub async fn upgrade(&self) -> Result<(), Error> {
        self.convert(Mode::Exclusive).await
    }

    async fn convert(&self, mode: Mode) -> Result<(), Error> {
        match self.execute(Operation::Convert { lease: self.id, mode }).await? {
            Outcome::Converted(_) => {
                self.holding.converted(self.fence().get());
                Ok(())
            }
            other => Err(unexpected_outcome(&other, &self.name)),
        }
    }

    /// Gives this hold back and returns what happened.
    ///
    /// It is not an error if the lease has already ended: see [`ReleaseOutcome`]. If the manager's `close` has released
    /// everything, the result is [`AlreadyExpired`](ReleaseOutcome::AlreadyExpired).
    ///
    /// # Cancel safety
    /// The release goes on even if you drop the future.
    ///
    /// # Errors
    /// `unreachable` if the server did not confirm the release in time: the lease then ends with its TTL. `auth`,
    /// `server`, and `closed` if the runtime ends during the call, or if the manager was closed and could not release
    /// everything.
    pub async fn release(mut self) -> Result<ReleaseOutcome, Error> {
        self.released = true;
        if self.is_detached() {
            self.holding.released(Ok(ReleaseOutcome::Detached), None);
            return Ok(ReleaseOutcome::Detached);
        }
        let loss = self.holding.loss(&self.client, self.id);
        let released = match self.execute(Operation::Release { lease: self.id }).await {
            Ok(Outcome::Released(outcome)) => Ok(outcome),
            Ok(other) => Err(unexpected_outcome(&other, &self.name)),
            Err(error) => Err(error),
        };
        self.holding.released(released.as_ref().copied(), loss);
        released
    }

    /// Gives the lease of a once back and stores its result.
    #[cfg(feature = "once")]
    pub(super) async fn store_json(mut self, value: &[u8]) -> Result<(), Error> {
        self.released = true;
        let loss = self.client.shared.loss(self.id);
        let stored = match self.execute(Operation::Store { lease: self.id, value }).await {
            Ok(Outcome::Released(outcome)) => Ok(outcome),
            Ok(other) => Err(unexpected_outcome(&other, &self.name)),
            Err(error) => Err(error),
        };
        self.holding.released(stored.as_ref().copied(), loss);
        match stored? {
            ReleaseOutcome::Released => Ok(()),
            ReleaseOutcome::NotOwner => Err(loss_error(&self.name, loss.unwrap_or(LossReason::Taken))),
            _ => Err(loss_error(&self.name, loss.unwrap_or(LossReason::Gone))),
        }
    }

    /// Gives the hold back after some work. Fails if the lease ended before the work did.
    pub(super) async fn release_or_loss(self) -> Result<(), Error> {
        let (name, loss) = (Arc::clone(&self.name), self.client.shared.loss(self.id));
        let lost = |reason| loss_error(&name, loss.unwrap_or(reason));
        match self.release().await {
            Ok(ReleaseOutcome::AlreadyExpired) => Err(lost(LossReason::Expired)),
            Ok(ReleaseOutcome::NotOwner) => Err(lost(LossReason::Taken)),
            // The lease was valid when the work ended. If the release did not reach the server, the lease ends with its TTL.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn execute<'a>(&'a self, operation: Operation<'a>) -> OperationFuture<'a> {
        self.client.execute(operation, Some(&self.name))
    }
}

/// The error for work whose lease ended before the work did.
fn loss_error(name: &str, reason: LossReason) -> Error {
    match reason {
        LossReason::Closed => Error::Closed,
        reason => Error::Lost { name: name.to_owned(), reason },
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_detached() {
            return self.holding.released(Ok(ReleaseOutcome::Detached), None);
        }
        let loss = self.holding.loss(&self.client, self.id);
        self.holding.dropped(loss);
        if !self.released {
            self.client.shared.release(self.id);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("name", &self.name).field("fence", &self.fence()).finish_non_exhaustive()
    }
}
