//! The ways to connect a blocking manager without options.

#[cfg(feature = "testing")]
use super::background::Background;
use super::builder::Builder;
use super::manager::LockManager;
use crate::api::{Address, QuorumMember};
use crate::errors::Error;

impl LockManager {
    /// Connects to a server: see [`LockManager::connect`](crate::LockManager::connect).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn connect(address: impl Into<Address>) -> Result<Self, Error> {
        Self::builder().connect(address)
    }

    /// Connects to a cluster: see [`LockManager::cluster`](crate::LockManager::cluster).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn cluster<I>(nodes: I) -> Result<Self, Error>
    where
        I: IntoIterator<Item: Into<Address>>,
    {
        Self::builder().cluster(nodes)
    }

    /// Connects to the primary that Sentinel monitors as `service`: see
    /// [`LockManager::sentinel`](crate::LockManager::sentinel).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn sentinel<I>(service: impl Into<String>, sentinels: I) -> Result<Self, Error>
    where
        I: IntoIterator<Item: Into<Address>>,
    {
        Self::builder().sentinel(service, sentinels)
    }

    /// A manager for locks over several independent servers, clusters or Sentinel groups: see [`LockManager::quorum`](crate::LockManager::quorum).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn quorum<I>(members: I) -> Result<Self, Error>
    where
        I: IntoIterator<Item: Into<QuorumMember>>,
    {
        Self::builder().quorum(members)
    }

    /// A manager with a server in memory of its own, for tests without Redis.
    ///
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let locks = leasehold::blocking::LockManager::in_memory()?;
    /// let lease = locks.mutex("invoice:42").acquire()?;
    /// assert!(locks.mutex("invoice:42").try_acquire()?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `unsupported` inside a tokio task.
    #[cfg(feature = "testing")]
    pub fn in_memory() -> Result<Self, Error> {
        Background::start(async { crate::LockManager::in_memory() }).map(Self::new)
    }

    /// A builder, to set options before connecting.
    pub fn builder() -> Builder {
        Builder::default()
    }
}
