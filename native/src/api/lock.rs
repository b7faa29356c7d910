//! A lock with its options, and the ways to take it.

use std::fmt;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    AcquireOptions, Fence, Kind, LeaseToken, Mode, Operation, Outcome, Part as EnginePart, Wait, check_label,
};
use tracing::{Instrument, Span};

use super::lease::Lease;
use super::part::Part;
use super::spans::{Acquiring, Holding, ModeLabel};
use crate::client::{Client, Named, Observation, unexpected_outcome};
use crate::errors::Error;

/// A lock's name, kind and options.
///
/// Nothing is sent until you call [`acquire`](Self::acquire), [`try_acquire`](Self::try_acquire) or [`run`](Self::run).
/// You can keep a `Lock` and acquire it many times. The futures own what they need, so you can keep them, spawn them and
/// select over them.
///
/// ```no_run
/// # async fn f(locks: leasehold::LockManager) -> Result<(), leasehold::Error> {
/// use std::time::Duration;
/// use leasehold::Wait;
///
/// let nightly = locks.mutex("nightly-report").ttl(Duration::from_secs(5)).wait(Wait::Forever);
/// let lease = nightly.acquire().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct Lock {
    client: Arc<Client>,
    pub(super) lock: Named,
    pub(super) several: Option<Several>,
    pub(super) options: AcquireOptions,
}

/// What an acquire got.
pub(super) enum Taken {
    Lease(Lease),
    /// The result of a once, in place of a lease.
    #[cfg_attr(not(feature = "once"), allow(dead_code))]
    Stored(Vec<u8>),
}

/// The names of a lock over several names.
#[derive(Clone)]
pub(super) struct Several {
    pub(super) names: Arc<[Arc<str>]>,
    /// For each name.
    kinds: Arc<[(Kind, Mode)]>,
    pub(super) one_script: bool,
}

/// How to get the lease.
pub(super) enum Want {
    Acquire,
    /// Another process has it.
    Adopt(LeaseToken),
    /// Campaign with this value.
    Lead(Arc<str>),
}

impl Lock {
    pub(super) fn new(client: Arc<Client>, name: &str, options: AcquireOptions) -> Self {
        Self { client, lock: Named { name: name.into(), called: None }, several: None, options }
    }

    pub(super) fn of_several(
        client: Arc<Client>,
        parts: impl IntoIterator<Item: Into<Part>>,
        options: AcquireOptions,
    ) -> Self {
        let parts: Vec<Part> = parts.into_iter().map(Into::into).collect();
        let per = parts.iter().find_map(|part| part.per);
        let (names, kinds): (Vec<Arc<str>>, Vec<_>) = parts.into_iter().flat_map(|part| part.locks).unzip();
        let lock = Named { name: names.join(", ").into(), called: None };
        let (names, kinds) = (names.into(), kinds.into());
        let options = AcquireOptions { linger: None, per, ..options };
        Self { client, lock, several: Some(Several { names, kinds, one_script: false }), options }
    }

    pub(super) fn with_kind(mut self, kind: Kind) -> Self {
        self.options.kind = kind;
        // The manager's default is for locks that can linger.
        self.options.linger = None;
        self
    }

    /// What it is as a part of a lock over several names.
    pub(super) fn parts(&self) -> Vec<(Arc<str>, (Kind, Mode))> {
        match &self.several {
            Some(several) => several.names.iter().cloned().zip(several.kinds.iter().copied()).collect(),
            None => vec![(Arc::clone(&self.lock.name), (self.options.kind, self.options.mode))],
        }
    }

    fn with_mode(mut self, mode: Mode) -> Self {
        self.options.mode = mode;
        self
    }

    /// The lock's name, without the manager's prefix. Several names are joined by `, `.
    pub fn name(&self) -> &str {
        &self.lock.name
    }

    /// The lock's names in the order in which you gave them, without the manager's prefix.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        let names = self.several.as_ref().map_or(slice::from_ref(&self.lock.name), |several| &several.names);
        names.iter().map(|name| &**name)
    }

    /// Waits until the lock is free, and takes it.
    ///
    /// A mutex is not reentrant: acquiring a lock that you already hold waits until the timeout. Use [`Lease::nested`] instead.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait and leaves the queue. If the lease has just been granted, it is released in the
    /// background. A later call does not get the old place in the queue.
    ///
    /// # Errors
    /// - `busy`: another client held the lock for the whole wait.
    /// - `unreachable`: no server answered in that time.
    /// - `invalid-option`: a name or an option can't be used. Nothing was sent.
    /// - `unsupported`: a quorum doesn't have this kind of lock, or not with [`one_script`](Self::one_script).
    /// - `not-replicated`, and `lost` while the call waited for replicas.
    /// - `cross-slot`: see [`one_script`](Self::one_script).
    /// - `wrong-kind`, `auth`, `server`, `protocol`, `closed`.
    pub fn acquire(&self) -> impl Future<Output = Result<Lease, Error>> + Send + 'static + use<> {
        self.clone().into_acquire()
    }

    /// Takes the lock if it is free. Returns `None` if another client holds it or waits for it.
    ///
    /// It ends within one response timeout, or within the [`wait`](Self::wait) if you set one that is shorter.
    ///
    /// # Cancel safety
    /// If the lease has just been granted, dropping the future releases it in the background.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but never `busy`.
    pub fn try_acquire(&self) -> impl Future<Output = Result<Option<Lease>, Error>> + Send + 'static + use<> {
        self.clone().into_try_acquire()
    }

    /// Takes over a lease that another process holds or has detached. `token` is what its [`Lease::token`] or
    /// [`Lease::detach`] returned, or its text. This lock must be like the one that acquired the lease: the same name, and the same
    /// mode or number of permits.
    ///
    /// The former holder's lease is lost. The new lease has a greater fencing token, so a resource that checks fences
    /// refuses the former holder once it has seen the new one. The new lease is renewed, extended, converted and released
    /// like any other.
    ///
    /// ```no_run
    /// # async fn f(locks: leasehold::LockManager, more_locks: leasehold::LockManager) -> Result<(), leasehold::Error> {
    /// // The process that accepts the job
    /// let lease = locks.mutex("invoice:42").renew(false).acquire().await?;
    /// let token = lease.token()?;
    /// let lost = lease.lost();
    ///
    /// // The process that does the job
    /// let adopted = more_locks.mutex("invoice:42").adopt(&token).await?;
    /// adopted.release().await?;
    ///
    /// // The first process keeps its lease until then.
    /// lost.await;
    /// drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It doesn't wait: it ends within one response timeout. The options of the lock apply, except `wait` and `linger`.
    ///
    /// # Cancel safety
    /// If you drop the future before this process has taken the lease, its holder keeps it. Otherwise the lease is released
    /// in the background.
    ///
    /// # Errors
    /// - `not-held`: the lease has ended, or it was converted, shortened, detached or adopted after the call that returned the
    ///   token.
    /// - `conflict`: the lease has another mode or number of permits.
    /// - `invalid-option` with the field `token`: the text is not a token.
    /// - `unsupported`: leases of reentrant locks, of several names and of quorums can't be adopted.
    /// - `unreachable`: no server answered in time. The former holder may have lost the lease.
    /// - `not-replicated`, and `lost` while the call waited for replicas. The former holder has lost the lease.
    /// - `wrong-kind`, `auth`, `server`, `protocol`, `closed`.
    pub fn adopt<T: AsRef<str>>(
        &self,
        token: T,
    ) -> impl Future<Output = Result<Lease, Error>> + Send + 'static + use<T> {
        let (mut lock, token) = (self.clone(), LeaseToken::read(token.as_ref()));
        lock.options.wait = Wait::No;
        async move {
            let token = token.map_err(|error| Error::from_engine(error, Some(&lock.lock.name), None))?;
            if lock.several.is_some() {
                let problem = "a lease of several names can't be adopted".to_owned();
                return Err(Error::Unsupported { name: Some(lock.lock.name.as_ref().to_owned()), problem });
            }
            lock.request(Want::Adopt(token)).await
        }
    }

    /// Acquires the lock, runs `work`, and releases the lock, even if the work fails. If the work [detaches](Lease::detach) the
    /// lease, the lock stays taken.
    ///
    /// If the lease is lost or the manager is closed, the work is dropped at its next `await`, and the call fails with
    /// `lost` or `closed`. So `Ok` means that the lease was held from the start of the work to its end.
    ///
    /// The work's error can be any type that implements `From<Error>`, such as
    /// `Box<dyn std::error::Error + Send + Sync>` or [`Error`] itself. If the compiler can't infer the type, end the
    /// work with `Ok::<_, Error>(..)`.
    ///
    /// ```no_run
    /// # async fn pay(_: leasehold::Fence) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> { Ok(1) }
    /// # async fn f(locks: leasehold::LockManager) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    /// let paid = locks.mutex("invoice:42").run(async |lease| pay(lease.fence()).await).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future drops the work and releases the lease in the background.
    ///
    /// # Errors
    /// The error of the work, the errors of [`acquire`](Self::acquire), `lost` and `closed`.
    pub fn run<T, E, F>(&self, work: F) -> impl Future<Output = Result<T, E>> + use<T, E, F>
    where
        F: AsyncFnOnce(&Lease) -> Result<T, E>,
        E: From<Error>,
    {
        let lock = self.clone();
        async move {
            let lease = lock.request(Want::Acquire).await?;
            let done = tokio::select! {
                biased;
                error = lease.interrupted() => return Err(error.into()),
                done = work(&lease).instrument(lease.span()) => done?,
            };
            match lease.release_or_loss().await {
                Ok(()) => Ok(done),
                Err(lost) => Err(lost.into()),
            }
        }
    }

    // The future of an `async fn` stores each argument twice. These functions store it once, so a waiting task is smaller.

    #[allow(clippy::manual_async_fn)]
    fn into_acquire(self) -> impl Future<Output = Result<Lease, Error>> + Send {
        async move { self.request(Want::Acquire).await }
    }

    fn into_try_acquire(mut self) -> impl Future<Output = Result<Option<Lease>, Error>> + Send {
        self.options.wait = Wait::No;
        async move {
            match self.request(Want::Acquire).await {
                Ok(lease) => Ok(Some(lease)),
                Err(Error::Busy { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        }
    }

    /// Campaigns in an election with this value.
    pub(super) fn campaign(&self, value: Arc<str>) -> impl Future<Output = Result<Lease, Error>> + Send {
        self.request(Want::Lead(value))
    }

    pub(super) fn observation(&self) -> Observation {
        Observation::new(Arc::clone(&self.client), Arc::clone(&self.lock.name))
    }

    pub(super) const fn client(&self) -> &Arc<Client> {
        &self.client
    }

    fn request(&self, want: Want) -> impl Future<Output = Result<Lease, Error>> + Send {
        let taken = self.take(want);
        async move {
            match taken.await? {
                Taken::Lease(lease) => Ok(lease),
                Taken::Stored(_) => {
                    let problem = "a result in place of a lease".to_owned();
                    Err(Error::Protocol { name: Some(self.lock.name.as_ref().to_owned()), problem })
                }
            }
        }
    }

    pub(super) fn take(&self, want: Want) -> impl Future<Output = Result<Taken, Error>> + Send {
        let mode = ModeLabel::of(&self.options, self.several.is_some());
        self.request_in_span(want, mode, Span::current()).instrument(Acquiring::span(&self.lock.name, mode))
    }

    /// `caller` is the span that the lease's span will be a child of.
    async fn request_in_span(&self, want: Want, mode: ModeLabel, caller: Span) -> Result<Taken, Error> {
        // An acquire that succeeds at once never yields. This lets other tasks run while one task takes many leases.
        tokio::task::coop::consume_budget().await;
        let acquiring = Acquiring::begin(mode);
        if self.options.replicas.is_some() && !self.client.can_connect() {
            let problem = "`wait_for_replicas` opens its own connection to the server; connect the manager by a URL or a \
                           client. A quorum doesn't support it, because its servers are independent of each other";
            let error =
                Error::Unsupported { name: Some(self.lock.name.as_ref().to_owned()), problem: problem.to_owned() };
            acquiring.failed(&error);
            return Err(error);
        }
        if let Some(called) = &self.lock.called
            && let Err(error) = check_label(&called.label)
        {
            let error = Error::from_engine(error, Some(&self.lock.name), None);
            acquiring.failed(&error);
            return Err(error);
        }
        let options = &self.options;
        let outcome = match (&self.several, want) {
            (Some(several), _) => Box::pin(self.execute_several(several, options)).await,
            (None, Want::Adopt(token)) => {
                let operation = Operation::Adopt { name: &self.lock.name, token, options };
                self.client.acquire(operation, &self.lock).await
            }
            (None, Want::Lead(value)) => {
                let operation = Operation::Campaign { name: &self.lock.name, value: &value, options };
                self.client.acquire(operation, &self.lock).await
            }
            (None, Want::Acquire) => {
                let operation = Operation::Acquire { name: &self.lock.name, options };
                self.client.acquire(operation, &self.lock).await
            }
        };
        if let Ok(Outcome::Stored { value, .. }) = outcome {
            acquiring.stored();
            return Ok(Taken::Stored(value));
        }
        let granted = outcome.and_then(|outcome| match outcome.grant() {
            Some(grant) => Ok((outcome, grant)),
            None => Err(unexpected_outcome(&outcome, &self.lock.name)),
        });
        match granted {
            Ok((outcome, grant)) => {
                acquiring.granted(&grant);
                let holding = Holding::begin(&self.lock.name, mode, grant.fence, &caller);
                let mut lease = Lease::new(Arc::clone(&self.client), Arc::clone(&self.lock.name), &grant, holding);
                if options.per.is_some() {
                    lease = lease.detached();
                }
                Ok(Taken::Lease(match (outcome, &self.several) {
                    (Outcome::AcquiredAll { fences, .. }, Some(several)) => {
                        let fences = fences.into_iter().map(Fence::new);
                        lease.with_fences(several.names.iter().cloned().zip(fences).collect())
                    }
                    _ => lease,
                }))
            }
            Err(error) => {
                acquiring.failed(&error);
                Err(error)
            }
        }
    }

    async fn execute_several(&self, several: &Several, options: &AcquireOptions) -> Result<Outcome, Error> {
        let parts = several.names.iter().zip(&*several.kinds);
        let parts: Vec<_> = parts.map(|(name, (kind, mode))| EnginePart { name, kind: *kind, mode: *mode }).collect();
        let operation = Operation::AcquireAll { parts: &parts, options, one_script: several.one_script };
        self.client.acquire(operation, &self.lock).await
    }
}

impl From<&Lock> for Part {
    fn from(lock: &Lock) -> Self {
        Self { locks: lock.parts(), per: lock.options.per }
    }
}

impl From<Lock> for Part {
    fn from(lock: Lock) -> Self {
        Self::from(&lock)
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("name", &self.lock.name).field("options", &self.options).finish_non_exhaustive()
    }
}

/// A limited number of permits, granted first come, first served. Each acquire takes one or several of them.
///
/// To set options or to use [`run`](Lock::run), call [`permits`](Self::permits):
/// `locks.semaphore("reports", 5).permits(1).wait(..)`.
#[derive(Clone, Debug)]
#[must_use = "a semaphore does nothing until permits are acquired"]
pub struct Semaphore {
    lock: Lock,
    limit: u32,
}

impl Semaphore {
    pub(super) fn new(lock: Lock, limit: u32) -> Self {
        Self { lock, limit }
    }

    /// Makes it a rate: in each window of this length (10 ms to 30 days), at most `limit` permits are granted. Callers are served first
    /// come, first served, and no client polls.
    ///
    /// ```no_run
    /// # async fn call_api() -> Result<(), leasehold::Error> { Ok(()) }
    /// # async fn f(locks: leasehold::LockManager) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let api = locks.semaphore("api", 100).per(Duration::from_secs(60));
    /// drop(api.acquire().await?); // waits until it may start: at most 100 in a minute, for all processes together
    /// call_api().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The server's clock decides, and the time of the grant counts. A permit counts for the whole window from its grant on, also
    /// if its holder releases the lease, ends or never learns of the grant. So the lease is detached from its grant on:
    /// [`is_held`](Lease::is_held) is false, [`release`](Lease::release) returns
    /// [`Detached`](leasehold_core::ReleaseOutcome::Detached), and [`lost`](Lease::lost) never resolves. Work may take longer than the
    /// window. A [`close`](crate::LockManager::close) doesn't wait for it. The options `ttl`, `renew` and `max_hold` don't count.
    ///
    /// All callers should use the same limit. The limit of the latest acquire counts. While permits count, an acquire of the same name
    /// with another window, or with none, fails with `wrong-kind`. With `at_least`, `wait_for_replicas` and
    /// [`adopt`](Lock::adopt) it fails with `unsupported`.
    pub fn per(mut self, window: Duration) -> Self {
        self.lock = self.lock.per(window);
        self
    }

    /// A lock that takes this many permits at once: 1 to the limit. They are one lease, with one fence and one release.
    pub fn permits(&self, permits: u32) -> Lock {
        self.lock.clone().with_kind(Kind::Semaphore { permits, limit: self.limit })
    }

    /// Waits for one permit: see [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub fn acquire(&self) -> impl Future<Output = Result<Lease, Error>> + Send + 'static + use<> {
        self.permits(1).into_acquire()
    }

    /// Takes one permit if it is free: see [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::try_acquire`].
    ///
    /// # Errors
    /// As [`Lock::try_acquire`].
    pub fn try_acquire(&self) -> impl Future<Output = Result<Option<Lease>, Error>> + Send + 'static + use<> {
        self.permits(1).into_try_acquire()
    }
}

/// One permit of the semaphore.
impl From<Semaphore> for Part {
    fn from(semaphore: Semaphore) -> Self {
        semaphore.permits(1).into()
    }
}

/// A lock that many readers or one writer can hold.
#[derive(Clone, Debug)]
pub struct ReadWrite {
    lock: Lock,
}

impl ReadWrite {
    pub(super) fn new(lock: Lock) -> Self {
        Self { lock }
    }

    /// The shared side. Several readers can hold it together.
    pub fn read(&self) -> Lock {
        self.lock.clone().with_mode(Mode::Shared)
    }

    /// The exclusive side. A writer holds it alone.
    pub fn write(&self) -> Lock {
        self.lock.clone().with_mode(Mode::Exclusive)
    }
}

/// Sets how long an acquire waits. A try doesn't wait for the lock. For a try, this limits the wait for the server.
pub(super) fn set_wait(options: &mut AcquireOptions, wait: Wait) {
    options.wait = wait;
    options.within = if let Wait::For(wait) = wait { Some(wait) } else { None };
}
