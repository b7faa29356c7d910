//! Work that is done once, and whose result all callers get.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::Wait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::background::Background;
use super::lease::Lease;
use super::manager::LockManager;
use super::same_options;
use crate::api::OnceOptions;
use crate::api::options::once_options;
use crate::errors::Error;

/// Work that one process does, and whose result all others get: see [`LockManager::once`].
#[derive(Clone)]
#[must_use = "it does nothing until it runs"]
pub struct Once {
    // Before `background`, so that the last handle closes the client after everything else is dropped.
    inner: crate::Once,
    background: Arc<Background>,
}

/// What [`Once::begin`] found.
pub type Begun<T> = crate::Begun<T, Lease>;

impl LockManager {
    /// Work that is done once: see [`LockManager::once`](crate::LockManager::once).
    ///
    /// ```
    /// # #[cfg(feature = "testing")]
    /// # fn main() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::Error;
    ///
    /// # let locks = leasehold::blocking::LockManager::in_memory()?;
    /// let report = locks.once("report:2026-11-28").keep(Duration::from_secs(36 * 3_600));
    /// for _ in 0..3 {
    ///     let rows: u32 = report.run(|_| {
    ///         println!("this is printed once");
    ///         Ok::<_, Error>(7)
    ///     })?;
    ///     assert_eq!(rows, 7);
    /// }
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "testing"))]
    /// # fn main() {}
    /// ```
    pub fn once(&self, name: impl AsRef<str>) -> Once {
        let background = Arc::clone(self.background());
        Once { inner: background.manager.once(name), background }
    }

    /// Deletes the result of a [`once`](Self::once): see [`LockManager::forget`](crate::LockManager::forget).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn forget(&self, name: impl AsRef<str>) -> Result<bool, Error> {
        self.background().block_on(self.background().manager.forget(name))?
    }
}

impl Once {
    once_options!(same_options);
    same_options! { Once: options(options: &OnceOptions); }

    /// Returns the stored result. If there is none, it runs `work` and stores what it returns: see [`Once::run`](crate::Once::run).
    ///
    /// If the lease is lost or the manager is closed, the call fails with `lost` or `closed`, but only after the work has ended.
    /// Nothing is stored then. Long work should look at [`is_held`](Lease::is_held) between its steps.
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn run<T, E>(&self, work: impl FnOnce(&Lease) -> Result<T, E>) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        let lease = match self.begin()? {
            Begun::Stored(value) => return Ok(value),
            Begun::Work(lease) => lease,
        };
        let done = lease.span().in_scope(|| work(&lease))?;
        let (lease, background) = lease.into_parts();
        Ok(background.block_on(lease.store_and_read(&done))??)
    }

    /// Returns the stored result, or a lease to do the work with: see [`Once::begin`](crate::Once::begin).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn begin<T: DeserializeOwned>(&self) -> Result<Begun<T>, Error> {
        Ok(match self.background.block_on(self.inner.begin())?? {
            crate::Begun::Stored(value) => Begun::Stored(value),
            crate::Begun::Work(lease) => Begun::Work(Lease::new(Arc::clone(&self.background), lease)),
        })
    }
}

impl Lease {
    /// Gives a lease of [`Once::begin`] back, and stores the result of the work: see [`Lease::store`](crate::Lease::store).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task. The lease is then released in the background.
    pub fn store<T: Serialize>(self, result: &T) -> Result<(), Error> {
        let (lease, background) = self.into_parts();
        background.block_on(lease.store(result))?
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
