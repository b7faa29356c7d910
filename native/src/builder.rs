//! A manager's options.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_core::{AcquireOptions, ClientId, Config, Engine, Wait};
use redis::aio::ConnectionLike;

use crate::client::Client;
use crate::driver::Driver;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::link::Connection;
use crate::manager::LockManager;
use crate::shared::Shared;
use crate::version;

/// The options of a [`LockManager`]. One fleet should agree on all of them but `ttl` and `wait`, which are each lock's own affair.
///
/// ```no_run
/// # async fn build() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
/// use leasehold::LockManager;
///
/// let locks = LockManager::builder()
///     .prefix("billing:")
///     .ttl(Duration::from_secs(10))
///     .wait(Duration::from_secs(20))
///     .connect("redis://127.0.0.1/")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it connects"]
pub struct Builder {
    config: Config,
    defaults: AcquireOptions,
}

impl Builder {
    /// Put before every name. Default empty.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.config.prefix = prefix.into();
        self
    }

    /// Hand-overs inside this client once another client waits (and for 1 s at most): 0 to 1023. Default 32.
    pub fn local_handoffs(mut self, handoffs: u32) -> Self {
        self.config.local_handoffs = handoffs;
        self
    }

    /// How long a grant is kept for a waiter, and so what a dead waiter can cost the others: 100 ms to 60 s. Default 3 s.
    pub fn claim_window(mut self, window: Duration) -> Self {
        self.config.claim_window = window;
        self
    }

    /// How long one command's answer, or a connection, may take: 10 ms to 60 s. Default 2 s.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.config.response_timeout = timeout;
        self
    }

    /// Everybody polls, so that clients of other libraries compete on equal terms; slower. Default false.
    pub fn mixed_fleet(mut self, mixed: bool) -> Self {
        self.config.mixed_fleet = mixed;
        self
    }

    /// How long an unused name remembers its last fence: 1 min to 30 days. Default 1 h.
    pub fn fence_retention(mut self, retention: Duration) -> Self {
        self.config.fence_retention = retention;
        self
    }

    /// The TTL of leases whose lock sets none: 10 ms to 24 h. Default 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = ttl;
        self
    }

    /// How long an acquire waits whose lock sets nothing else: 1 ms to 30 days, or for ever. Default 60 s.
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.defaults.wait = wait.into();
        self
    }

    /// Connects to the server at `url`; see [`LockManager::connect`].
    ///
    /// # Errors
    /// As [`LockManager::connect`], and `invalid-option` for an option out of its bounds.
    pub async fn connect(self, url: &str) -> Result<LockManager, Error> {
        let client = redis::Client::open(url).map_err(|error| Error::invalid_url(&error))?;
        self.from_client(client).await
    }

    /// Connects as `client` says; see [`LockManager::from_client`].
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    #[allow(clippy::wrong_self_convention)] // The same word as on the manager.
    pub async fn from_client(self, client: redis::Client) -> Result<LockManager, Error> {
        let engine = self.engine()?;
        let endpoint =
            Endpoint::new(&client, self.config.response_timeout).map_err(|error| Error::invalid_url(&error))?;
        let start = Instant::now();
        let connection = endpoint
            .connect()
            .await
            .map_err(|error| Error::from_connecting(error, Some(&endpoint.address()), start.elapsed()))?;
        self.start(engine, Arc::new(connection), Some(endpoint)).await
    }

    /// Uses a connection that the caller has; see [`LockManager::from_connection`].
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    #[allow(clippy::wrong_self_convention)] // The same word as on the manager.
    pub async fn from_connection<C>(self, connection: C) -> Result<LockManager, Error>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let engine = self.engine()?;
        self.start(engine, Arc::new(connection), None).await
    }

    /// Checks the options and the surroundings before anything is sent.
    fn engine(&self) -> Result<Engine, Error> {
        if tokio::runtime::Handle::try_current().is_err() {
            let problem = "a lock manager needs a tokio runtime with I/O and time enabled".to_owned();
            return Err(Error::Unsupported { problem });
        }
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|error| {
            let problem = format!("the system gives no randomness: {error}");
            Error::Unsupported { problem }
        })?;
        Engine::new(ClientId::from_random(id), self.config.clone())
            .map_err(|error| Error::from_engine(error, None, None))
    }

    async fn start(
        self,
        engine: Engine,
        connection: Connection,
        endpoint: Option<Endpoint>,
    ) -> Result<LockManager, Error> {
        let response_timeout = self.config.response_timeout;
        let server = endpoint.as_ref().map(Endpoint::address);
        version::check(&connection, server.as_deref(), response_timeout).await?;
        let shared = Arc::new(Shared::new(engine, server));
        tokio::spawn(Driver::new(Arc::clone(&shared), connection, endpoint, response_timeout).run());
        Ok(LockManager { client: Arc::new(Client { shared }), defaults: self.defaults })
    }
}
