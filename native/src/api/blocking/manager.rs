//! The blocking lock manager.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::Inspection;

use super::background::Background;
use super::lock::{Lock, ReadWrite, Semaphore};
use crate::api::{Closed, Owner, Part, Snapshot};
use crate::errors::Error;

/// A client of one server, one cluster or one quorum, with a background thread. Cloning it is cheap and starts no thread.
///
/// The client ends when you call [`close`](Self::close), or when the last clone, lock and lease are dropped. Then the
/// background thread releases the leases and ends. Dropping doesn't wait for that. So release the leases, or call
/// `close`, before `main` returns.
#[derive(Clone)]
pub struct LockManager {
    background: Arc<Background>,
}

impl LockManager {
    pub(super) fn new(background: Arc<Background>) -> Self {
        Self { background }
    }

    /// A mutex: one holder at a time.
    pub fn mutex(&self, name: impl AsRef<str>) -> Lock {
        self.lock(self.background.manager.mutex(name))
    }

    /// A read-write lock: many readers or one writer, in one queue, so neither starves the other.
    pub fn read_write(&self, name: impl AsRef<str>) -> ReadWrite {
        ReadWrite::new(Arc::clone(&self.background), self.background.manager.read_write(name))
    }

    /// A reentrant lock: see [`LockManager::reentrant`](crate::LockManager::reentrant).
    pub fn reentrant(&self, name: impl AsRef<str>, owner: &Owner) -> Lock {
        self.lock(self.background.manager.reentrant(name, owner))
    }

    /// A semaphore with `limit` permits: see [`LockManager::semaphore`](crate::LockManager::semaphore).
    pub fn semaphore(&self, name: impl AsRef<str>, limit: u32) -> Semaphore {
        Semaphore::new(Arc::clone(&self.background), self.background.manager.semaphore(name, limit))
    }

    /// Several locks as one lease: see [`LockManager::multi`](crate::LockManager::multi).
    pub fn multi(&self, parts: impl IntoIterator<Item: Into<Part>>) -> Lock {
        self.lock(self.background.manager.multi(parts))
    }

    /// Asks the server for the holders and waiters of the lock `name`: see
    /// [`LockManager::inspect`](crate::LockManager::inspect).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn inspect(&self, name: impl AsRef<str>) -> Result<Inspection, Error> {
        self.background.block_on(self.background.manager.inspect(name))?
    }

    /// Takes the lock `name` from its holders: see [`LockManager::force_release`](crate::LockManager::force_release).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn force_release(&self, name: impl AsRef<str>) -> Result<u32, Error> {
        self.background.block_on(self.background.manager.force_release(name))?
    }

    /// The same for a key without a TTL: see
    /// [`LockManager::force_release_foreign`](crate::LockManager::force_release_foreign).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn force_release_foreign(&self, name: impl AsRef<str>) -> Result<u32, Error> {
        self.background.block_on(self.background.manager.force_release_foreign(name))?
    }

    /// The locks that this manager holds and waits for: see [`LockManager::query`](crate::LockManager::query).
    pub fn query(&self) -> Snapshot {
        self.background.manager.query()
    }

    /// Ends the client for all its clones: see [`LockManager::close`](crate::LockManager::close). Calls of other threads
    /// end with [`Error::Closed`]. You can call it twice.
    ///
    /// # Errors
    /// `unsupported` inside a tokio task. The client is not closed then.
    pub fn close(&self) -> Result<Closed, Error> {
        self.background.block_on(self.background.manager.close())
    }

    /// As [`close`](Self::close), but running work of other threads has the time `grace` to finish: see
    /// [`LockManager::close_draining`](crate::LockManager::close_draining).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task. The client is not closed then.
    pub fn close_draining(&self, grace: Duration) -> Result<Closed, Error> {
        self.background.block_on(self.background.manager.close_draining(grace))?
    }

    /// The client and its thread.
    #[cfg(feature = "once")]
    pub(super) fn background(&self) -> &Arc<Background> {
        &self.background
    }

    fn lock(&self, inner: crate::Lock) -> Lock {
        Lock::new(Arc::clone(&self.background), inner)
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.background.manager.fmt(f)
    }
}
