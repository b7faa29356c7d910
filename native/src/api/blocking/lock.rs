//! A blocking lock, and the ways to take it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::Wait;

use super::background::Background;
use super::lease::Lease;
use super::same_options;
use crate::api::options::lock_options;
use crate::api::{LockOptions, Part};
use crate::errors::Error;

/// A lock's name, kind and options. You can keep it, share it between threads, and acquire it many times.
///
/// ```no_run
/// # fn f(locks: leasehold::blocking::LockManager) -> Result<(), leasehold::Error> {
/// use std::time::Duration;
///
/// let nightly = locks.mutex("nightly-report").ttl(Duration::from_secs(5)).wait(Duration::from_secs(60));
/// let lease = nightly.acquire()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct Lock {
    // Before `background`, so that the last handle closes the client after everything else is dropped.
    inner: crate::Lock,
    background: Arc<Background>,
}

impl Lock {
    pub(super) fn new(background: Arc<Background>, inner: crate::Lock) -> Self {
        Self { inner, background }
    }

    lock_options!(same_options);
    same_options! { Lock: options(options: &LockOptions); }

    /// The lock's name, without the manager's prefix. Several names are joined by `, `.
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// The lock's names in the order in which you gave them, without the manager's prefix.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.inner.names()
    }

    /// Waits until the lock is free, and takes it: see [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// A mutex is not reentrant: a thread that acquires a lock that it already holds waits until the timeout.
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn acquire(&self) -> Result<Lease, Error> {
        let lease = self.background.block_on(self.inner.acquire())??;
        Ok(Lease::new(Arc::clone(&self.background), lease))
    }

    /// Takes the lock if it is free: see [`Lock::try_acquire`](crate::Lock::try_acquire).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn try_acquire(&self) -> Result<Option<Lease>, Error> {
        let lease = self.background.block_on(self.inner.try_acquire())??;
        Ok(lease.map(|lease| Lease::new(Arc::clone(&self.background), lease)))
    }

    /// Takes over a lease that another process holds: see [`Lock::adopt`](crate::Lock::adopt).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn adopt(&self, token: impl AsRef<str>) -> Result<Lease, Error> {
        let lease = self.background.block_on(self.inner.adopt(token))??;
        Ok(Lease::new(Arc::clone(&self.background), lease))
    }

    /// Acquires the lock, runs `work`, and releases the lock, even if the work fails or panics.
    ///
    /// If the lease is lost or the manager is closed, the call fails with `lost` or `closed`, but only after the work has
    /// ended. Long work should look at [`is_held`](Lease::is_held) between its steps. The result of the work counts only
    /// if the lease was held until its end. If the work fails, the call returns its error unchanged.
    ///
    /// ```no_run
    /// # fn pay(_: leasehold::Fence) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> { Ok(1) }
    /// # fn f(locks: leasehold::blocking::LockManager) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    /// let paid = locks.mutex("invoice:42").run(|lease| pay(lease.fence()))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of the work, the errors of [`acquire`](Self::acquire), `lost` and `closed`.
    pub fn run<T, E>(&self, work: impl FnOnce(&Lease) -> Result<T, E>) -> Result<T, E>
    where
        E: From<Error>,
    {
        let lease = self.acquire()?;
        let done = lease.span().in_scope(|| work(&lease))?;
        lease.release_or_loss()?;
        Ok(done)
    }
}

impl From<&Lock> for Part {
    fn from(lock: &Lock) -> Self {
        (&lock.inner).into()
    }
}

impl From<Lock> for Part {
    fn from(lock: Lock) -> Self {
        lock.inner.into()
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// A limited number of permits: see [`Semaphore`](crate::Semaphore).
#[derive(Clone)]
#[must_use = "a semaphore does nothing until permits are acquired"]
pub struct Semaphore {
    inner: crate::Semaphore,
    background: Arc<Background>,
}

impl Semaphore {
    pub(super) fn new(background: Arc<Background>, inner: crate::Semaphore) -> Self {
        Self { inner, background }
    }

    /// Makes it a rate: see [`Semaphore::per`](crate::Semaphore::per).
    pub fn per(mut self, window: Duration) -> Self {
        self.inner = self.inner.per(window);
        self
    }

    /// A lock that takes this many permits at once: 1 to the limit. They are one lease, with one fence and one release.
    pub fn permits(&self, permits: u32) -> Lock {
        Lock::new(Arc::clone(&self.background), self.inner.permits(permits))
    }

    /// Waits for one permit: see [`Lock::acquire`].
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub fn acquire(&self) -> Result<Lease, Error> {
        self.permits(1).acquire()
    }

    /// Takes one permit if it is free: see [`Lock::try_acquire`].
    ///
    /// # Errors
    /// As [`Lock::try_acquire`].
    pub fn try_acquire(&self) -> Result<Option<Lease>, Error> {
        self.permits(1).try_acquire()
    }
}

/// One permit of the semaphore.
impl From<Semaphore> for Part {
    fn from(semaphore: Semaphore) -> Self {
        semaphore.inner.into()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// A lock that many readers or one writer can hold.
#[derive(Clone)]
pub struct ReadWrite {
    inner: crate::ReadWrite,
    background: Arc<Background>,
}

impl ReadWrite {
    pub(super) fn new(background: Arc<Background>, inner: crate::ReadWrite) -> Self {
        Self { inner, background }
    }

    /// The shared side. Several readers can hold it together.
    pub fn read(&self) -> Lock {
        Lock::new(Arc::clone(&self.background), self.inner.read())
    }

    /// The exclusive side. A writer holds it alone.
    pub fn write(&self) -> Lock {
        Lock::new(Arc::clone(&self.background), self.inner.write())
    }
}

impl fmt::Debug for ReadWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
