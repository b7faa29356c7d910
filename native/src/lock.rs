//! A lock as one caller wants it, and the ways to take it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{AcquireOptions, Kind, Mode, Outcome, Wait};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use crate::builder::set_wait;
use crate::call::Request;
use crate::client::unexpected;
use crate::clock;
use crate::error::Error;
use crate::lease::Lease;
use crate::manager::LockManager;
use crate::replicas::Replicas;

/// A name, how it is to be held, and the options. Nothing is sent before [`acquire`](Self::acquire); keep it as long as
/// you like and acquire as often as you like.
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
    manager: LockManager,
    name: Arc<str>,
    options: AcquireOptions,
    replicas: Option<Replicas>,
}

impl Lock {
    pub(crate) fn new(manager: LockManager, name: &str) -> Self {
        let options = manager.defaults;
        Self { manager, name: name.into(), options, replicas: None }
    }

    pub(crate) fn with_kind(mut self, kind: Kind) -> Self {
        self.options.kind = kind;
        self
    }

    fn with_mode(mut self, mode: Mode) -> Self {
        self.options.mode = mode;
        self
    }

    /// What the server keeps if nobody renews, and so how long a crashed holder blocks the others: 10 ms to 24 h.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// Whether the lease is renewed at a third of its TTL while it is held. Default true; false makes a fixed lease.
    pub fn renew(mut self, renew: bool) -> Self {
        self.options.renew = renew;
        self
    }

    /// A renewed lease is lost after this, with [`LossReason::MaxHold`](crate::LossReason::MaxHold). Default none.
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.options.max_hold = Some(limit);
        self
    }

    /// How long to wait: a [`Duration`] of 1 ms to 30 days, or [`Wait::Forever`]. A [`try_acquire`](Self::try_acquire) ends within this
    /// time as well if that is shorter than the response timeout.
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        set_wait(&mut self.options, wait.into());
        self
    }

    /// Only a lease that at least `min` replicas have is given out: a failover to one of them does not lose it. If fewer have
    /// confirmed it after `timeout` (1 ms to 60 s), the lease is given back and the call ends with
    /// [`Error::NotReplicated`]; with [`Error::Lost`] if it ended meanwhile. A connection of your own and a quorum can't (`unsupported`).
    ///
    /// Each acquire asks anew, over a connection of its own that is made for it, one that is handed over inside this client too. That
    /// comes after the `wait`, and takes `timeout` and one response timeout at most. The replicas' confirmation is about this
    /// moment: later renewals are not waited for, and a failover to a replica that lags still forgets the lock.
    pub fn wait_for_replicas(mut self, min: u32, timeout: Duration) -> Self {
        self.replicas = Some(Replicas { min, timeout });
        self
    }

    /// The lock's name, without the manager's prefix.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until the lock is free and takes it. A lock is not reentrant: who holds it already waits for itself, and wants
    /// [`Lease::nested`] instead. Dropping the future cancels the wait; if the lease was just granted, it
    /// is given back.
    ///
    /// # Errors
    /// `busy` when the wait is over, `unreachable` when no server answered in that time, `invalid-option` at once for a
    /// name or an option that can't be used, `unsupported` for a kind that a quorum does not have, `not-replicated`, `lost` while replicas were waited
    /// for, `wrong-kind`, `auth`, `server`, `closed`.
    pub async fn acquire(&self) -> Result<Lease, Error> {
        self.acquire_waiting(self.options.wait).await
    }

    /// Takes the lock if it is free; `None` if somebody else holds it or waits for it. It ends within one response timeout, or within the
    /// [`wait`](Self::wait) if one was set and is shorter.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but never `busy`.
    pub async fn try_acquire(&self) -> Result<Option<Lease>, Error> {
        match self.acquire_waiting(Wait::No).await {
            Ok(lease) => Ok(Some(lease)),
            Err(Error::Busy { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Does `work` under the lock: acquires, works, releases. When the lease is lost (or the manager is closed), the work is
    /// dropped where it stands, at an `await`, and the answer is `lost`. So `Ok` means that the lease was held from the
    /// start of the work to its end.
    ///
    /// The work's error is any type that an [`Error`] can become, such as `Box<dyn std::error::Error + Send + Sync>` or
    /// [`Error`] itself; where nothing else tells the compiler which, end the work with `Ok::<_, Error>(..)`.
    ///
    /// ```no_run
    /// # async fn pay(_: leasehold::Fence) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> { Ok(1) }
    /// # async fn f(locks: leasehold::LockManager) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    /// let paid = locks.mutex("invoice:42").run(async |lease| pay(lease.fence()).await).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The work's own, those of [`acquire`](Self::acquire), and `lost`.
    pub async fn run<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: AsyncFnOnce(&Lease) -> Result<T, E>,
        E: From<Error>,
    {
        let lease = self.acquire().await?;
        let done = tokio::select! {
            biased;
            error = lease.interrupted() => return Err(error.into()),
            done = work(&lease) => done?,
        };
        match lease.release_or_loss().await {
            Ok(()) => Ok(done),
            Err(lost) => Err(lost.into()),
        }
    }

    /// The span and what is inside it are two functions, and neither keeps a copy of the options: a waiting task is small.
    fn acquire_waiting(&self, wait: Wait) -> impl Future<Output = Result<Lease, Error>> + Send {
        let span = tracing::info_span!("leasehold.acquire", name = &*self.name, mode = ?self.options.mode);
        self.granted(wait).instrument(span)
    }

    async fn granted(&self, wait: Wait) -> Result<Lease, Error> {
        // A lease that is granted at once awaits nothing: a task that takes many must let others run all the same.
        tokio::task::coop::consume_budget().await;
        if let Some(replicas) = self.replicas {
            replicas.check(&self.manager.client)?;
        }
        let start = tracing::enabled!(tracing::Level::DEBUG).then(clock::now);
        let request = Request::Acquire { name: &self.name, options: AcquireOptions { wait, ..self.options } };
        match self.manager.client.ask(request, Some(&self.name)).await? {
            Outcome::Acquired(grant) => {
                if let Some(start) = start {
                    let waited = clock::now().since(start);
                    tracing::debug!(fence = grant.fence, ?waited, local = grant.local, "lease granted");
                }
                let lease = Lease::new(Arc::clone(&self.manager.client), Arc::clone(&self.name), &grant);
                match self.replicas {
                    Some(replicas) => {
                        let response_timeout = self.manager.client.response_timeout;
                        Box::pin(confirmed(lease, replicas, response_timeout)).await
                    }
                    None => Ok(lease),
                }
            }
            other => Err(unexpected(&other, &self.name)),
        }
    }
}

/// The lease, if the replicas have it; else it is given back. The release goes on if its answer does not come in time.
async fn confirmed(lease: Lease, replicas: Replicas, response_timeout: Duration) -> Result<Lease, Error> {
    let deadline = Instant::now() + replicas.timeout + response_timeout;
    match lease.confirmed(replicas).await {
        Ok(()) => Ok(lease),
        Err(error) => {
            if let Ok(Err(error)) = timeout_at(deadline, lease.release()).await {
                tracing::debug!(%error, "a lease that too few replicas have ends by its TTL");
            }
            Err(error)
        }
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("name", &self.name).field("options", &self.options).finish_non_exhaustive()
    }
}

/// A number of permits, of which each acquire takes some, first come, first served. Options and [`run`](Lock::run) are those of
/// [`permits`](Self::permits): `locks.semaphore("reports", 5).permits(1).wait(..)`.
#[derive(Clone, Debug)]
#[must_use = "a semaphore does nothing until permits are acquired"]
pub struct Semaphore {
    lock: Lock,
    limit: u32,
}

impl Semaphore {
    pub(crate) fn new(manager: LockManager, name: &str, limit: u32) -> Self {
        Self { lock: Lock::new(manager, name), limit }
    }

    /// So many permits at once: 1 to the limit. They are one lease, with one fence and one release.
    pub fn permits(&self, permits: u32) -> Lock {
        self.lock.clone().with_kind(Kind::Semaphore { permits, limit: self.limit })
    }

    /// Waits for one permit; see [`Lock::acquire`].
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub async fn acquire(&self) -> Result<Lease, Error> {
        self.permits(1).acquire().await
    }

    /// Takes one permit if it is free; see [`Lock::try_acquire`].
    ///
    /// # Errors
    /// As [`Lock::try_acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Lease>, Error> {
        self.permits(1).try_acquire().await
    }
}

/// A lock with two sides: many readers, or one writer.
#[derive(Clone, Debug)]
pub struct ReadWrite {
    lock: Lock,
}

impl ReadWrite {
    pub(crate) fn new(manager: LockManager, name: &str) -> Self {
        Self { lock: Lock::new(manager, name) }
    }

    /// The shared side: held beside other readers.
    pub fn read(&self) -> Lock {
        self.lock.clone().with_mode(Mode::Shared)
    }

    /// The exclusive side.
    pub fn write(&self) -> Lock {
        self.lock.clone().with_mode(Mode::Exclusive)
    }
}
