//! The options of a blocking manager.

use std::time::Duration;

use leasehold_core::Wait;

use super::background::Background;
use super::manager::LockManager;
use super::same_options;
use crate::api::options::manager_options;
use crate::api::{Address, ManagerOptions, QuorumMember};
use crate::errors::Error;

/// The options of a blocking [`LockManager`]. They are those of the async [`Builder`](crate::Builder).
///
/// ```no_run
/// # fn build() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
/// use leasehold::blocking::LockManager;
///
/// let locks = LockManager::builder().prefix("billing:").ttl(Duration::from_secs(10)).connect("redis://127.0.0.1/")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it connects"]
pub struct Builder {
    inner: crate::Builder,
}

impl Builder {
    manager_options!(same_options);
    same_options! {
        Builder: username(username: impl Into<String>);
        Builder: password(password: impl Into<String>);
        Builder: database(number: u32);
        Builder: options(options: &ManagerOptions);
    }

    #[cfg(feature = "tls-rustls")]
    same_options! {
        Builder: root_certificates(pem: impl Into<Vec<u8>>);
        Builder: client_certificate(certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>);
    }

    #[cfg(feature = "without-scripts")]
    same_options! {
        Builder: without_scripts();
    }

    /// Connects to a server: see [`LockManager::connect`](crate::LockManager::connect).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn connect(self, address: impl Into<Address>) -> Result<LockManager, Error> {
        Background::start(self.inner.connect(address)).map(LockManager::new)
    }

    /// Connects to a cluster: see [`LockManager::cluster`](crate::LockManager::cluster).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn cluster<I>(self, nodes: I) -> Result<LockManager, Error>
    where
        I: IntoIterator<Item: Into<Address>>,
    {
        Background::start(self.inner.cluster(nodes)).map(LockManager::new)
    }

    /// Connects to the primary that Sentinel monitors as `service`: see
    /// [`LockManager::sentinel`](crate::LockManager::sentinel).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn sentinel<I>(self, service: impl Into<String>, sentinels: I) -> Result<LockManager, Error>
    where
        I: IntoIterator<Item: Into<Address>>,
    {
        Background::start(self.inner.sentinel(service, sentinels)).map(LockManager::new)
    }

    /// Connects to several independent members: see [`LockManager::quorum`](crate::LockManager::quorum).
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    pub fn quorum<I>(self, members: I) -> Result<LockManager, Error>
    where
        I: IntoIterator<Item: Into<QuorumMember>>,
    {
        Background::start(self.inner.quorum(members)).map(LockManager::new)
    }

    /// Uses a server in memory: see [`testing`](crate::testing). Time is real, because the thread's clock is not paused.
    ///
    /// # Errors
    /// As the async method, and `unsupported` inside a tokio task.
    #[cfg(feature = "testing")]
    pub fn in_memory(self, server: &crate::testing::Server) -> Result<LockManager, Error> {
        Background::start(async { self.inner.in_memory(server) }).map(LockManager::new)
    }
}
