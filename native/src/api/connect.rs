//! The ways to connect a manager without options.

use super::address::{Address, Connection};
use super::builder::Builder;
use super::manager::LockManager;
use super::quorum_member::QuorumMember;
use crate::errors::Error;

impl LockManager {
    /// Connects to a server, given as a URL such as `redis://user:password@host:6379/0`. TLS (`rediss://`) needs
    /// the feature `tls-rustls`. With the feature `redis-1`, you can also give a `redis::Client`.
    ///
    /// The manager reconnects by itself after a break. It opens a second connection for messages when a call has to wait.
    ///
    /// A task on the current tokio runtime drives the client. Keep that runtime running as long as you use the manager.
    /// When the runtime shuts down, leases count as lost and calls fail with `closed`. While a runtime is not being
    /// run, nothing happens: no lease is renewed and no call ends, not even a call from another runtime.
    ///
    /// Connecting takes at most one response timeout (2 s). It succeeds if the server answers that it is not ready, for example because
    /// it loads its data (`LOADING`) or runs a long script (`BUSY`). Calls then wait with their own [`wait`](crate::Lock::wait). What
    /// would have ended connecting ends them: `auth`, `unsupported` or `invalid-option`.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections that it has opened. Nothing else remains.
    ///
    /// # Errors
    /// `invalid-option` for a bad URL, `unreachable`, `auth`, and `unsupported` for a replica or a server that is too old.
    pub fn connect(address: impl Into<Address>) -> impl Future<Output = Result<Self, Error>> + Send + 'static {
        Self::builder().connect(address)
    }

    /// Connects to a Redis Cluster. One server is enough to find the others. Give several, in case one is down.
    ///
    /// Each lock is on the server that has its name's slot, and moves with the slot. The first address also sets the
    /// user, the password and TLS for all servers. An [`Address`] can be a URL, or a host and a port.
    ///
    /// ```no_run
    /// # async fn f() -> Result<(), leasehold::Error> {
    /// use leasehold::LockManager;
    ///
    /// let locks = LockManager::cluster(["redis://:secret@10.0.0.1:7000", "redis://:secret@10.0.0.2:7000"]).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Connecting takes at most one response timeout (2 s).
    ///
    /// # Cancel safety
    /// As [`connect`](Self::connect).
    ///
    /// # Errors
    /// As [`connect`](Self::connect). The field of a bad address is `cluster`.
    pub async fn cluster<I>(nodes: I) -> Result<Self, Error>
    where
        I: IntoIterator<Item: Into<Address>>,
    {
        Self::builder().cluster(nodes).await
    }

    /// Connects to the primary that Sentinel monitors as `service`. After a failover, connects to the new primary.
    ///
    /// The manager follows all sentinels. Within a second after one of them reports a failover, it leaves the old primary
    /// and ignores everything that the old one answers later. The report with the greatest configuration epoch counts, and
    /// in one epoch the server that most sentinels name. So a sentinel that is stale or silent does no harm. The manager
    /// trusts the epochs: a sentinel that reports a false, greater epoch misleads it.
    ///
    /// The URLs are those of the sentinels, with their own user and password, if any. Set the primary's user, password
    /// and database number on the [`builder`](Self::builder). The primary is reached over TLS if the first sentinel is.
    ///
    /// ```no_run
    /// # async fn f() -> Result<(), leasehold::Error> {
    /// use leasehold::LockManager;
    ///
    /// let sentinels = ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379", "redis://10.0.0.3:26379"];
    /// let locks = LockManager::builder().password("secret").sentinel("main", sentinels).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Connecting takes at most one response timeout (2 s).
    ///
    /// # Cancel safety
    /// As [`connect`](Self::connect).
    ///
    /// # Errors
    /// As [`connect`](Self::connect). The field of an invalid value is `service` or `sentinels`.
    pub async fn sentinel<I>(service: impl Into<String>, sentinels: I) -> Result<Self, Error>
    where
        I: IntoIterator<Item: Into<Address>>,
    {
        Self::builder().sentinel(service, sentinels).await
    }

    /// A manager for locks over several independent servers (Redlock). A lock is held while a majority of the servers
    /// has it, so it survives the loss of a minority.
    ///
    /// It needs an odd number of servers, three or more. They must not replicate each other. At the start, a majority
    /// must be reachable. A server that is down is ignored, and joins when it is back.
    ///
    /// A client asks all servers at once. If the lock is taken, it joins the queue on the first server. The fencing token
    /// is the greatest of the majority's, and the whole majority then remembers it.
    ///
    /// A quorum has mutexes, [read-write locks](Self::read_write) and [several names](Self::multi). Semaphores, reentrant
    /// locks and conversions are `unsupported`. A reader asks the first server before the others, so that it does not pass a
    /// writer that waits there.
    ///
    /// ```no_run
    /// # async fn f() -> Result<(), leasehold::Error> {
    /// use leasehold::LockManager;
    ///
    /// let locks = LockManager::quorum(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]).await?;
    /// let lease = locks.mutex("invoice:42").acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// List the servers in the same order everywhere, because the queue is on the first one.
    ///
    /// Instead of a server, a member can be a cluster or a group behind Sentinel: see [`QuorumMember`].
    ///
    /// Connecting takes at most one response timeout (2 s).
    ///
    /// # Cancel safety
    /// As [`connect`](Self::connect).
    ///
    /// # Errors
    /// `invalid-option` for fewer than three servers, an even number, or a server that appears twice, even under two
    /// addresses. `unreachable` if there is no majority, with each server's answer in `votes`. `auth`, and
    /// `unsupported` for a replica or a server that is too old.
    pub async fn quorum<I>(members: I) -> Result<Self, Error>
    where
        I: IntoIterator<Item: Into<QuorumMember>>,
    {
        Self::builder().quorum(members).await
    }

    /// Uses a connection that you provide, and never closes it. The functions of the module `redis_1` make a [`Connection`]
    /// from one of the `redis` crate. Their docs say when waiters poll and when they are notified.
    ///
    /// Reconnecting is the connection's job. It must **never resend a command by itself**: a repeated command may arrive
    /// after the release of its lease. For a cluster, prefer [`cluster`](Self::cluster).
    ///
    /// ```no_run
    /// # #[cfg(feature = "redis-1")]
    /// # async fn f(mine: leasehold::redis_1::redis::aio::MultiplexedConnection) -> Result<(), leasehold::Error> {
    /// use leasehold::{LockManager, redis_1};
    ///
    /// let locks = LockManager::from_connection(redis_1::connection(mine.clone())).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// You can drop the future at any time. It changes nothing on the server.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn from_connection(connection: Connection) -> Result<Self, Error> {
        Self::builder().from_connection(connection).await
    }

    /// A manager with a server in memory of its own, for tests without Redis. Several managers share a server that you
    /// make: see [`testing`](crate::testing).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let locks = leasehold::LockManager::in_memory()?;
    /// let lease = locks.mutex("invoice:42").acquire().await?;
    /// assert!(locks.mutex("invoice:42").try_acquire().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `unsupported` outside a tokio runtime.
    #[cfg(feature = "testing")]
    pub fn in_memory() -> Result<Self, Error> {
        crate::testing::Server::new().manager()
    }

    /// A builder, to set options before connecting.
    pub fn builder() -> Builder {
        Builder::default()
    }
}
