//! The ways to connect a manager without options.

use redis::aio::ConnectionLike;
use redis::{IntoConnectionInfo, PushInfo};
use tokio::sync::mpsc::UnboundedReceiver;

use super::builder::Builder;
use super::manager::LockManager;
use super::quorum_member::QuorumMember;
use crate::errors::Error;

impl LockManager {
    /// Connects to the server at `url`, such as `redis://user:password@host:6379/0`. TLS (`rediss://`) needs
    /// the feature `tls-rustls`.
    ///
    /// The manager reconnects by itself after a break. It opens a second connection for messages when a call has to wait.
    ///
    /// A task on the current tokio runtime drives the client. Keep that runtime running as long as you use the manager.
    /// When the runtime shuts down, leases count as lost and calls fail with `closed`. While a runtime is not being
    /// run, nothing happens: no lease is renewed and no call ends, not even a call from another runtime.
    ///
    /// Connecting takes at most one response timeout (2 s).
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections that it has opened. Nothing else remains.
    ///
    /// # Errors
    /// `invalid-option` for a bad URL, `unreachable`, `auth`, and `unsupported` for a replica or a server that is too old.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder().connect(url).await
    }

    /// Connects with the address and settings of `client`. Everything else is as with [`connect`](Self::connect).
    ///
    /// A `redis::Client` has one address, and the manager connects to no other. So don't pass one that
    /// `redis::sentinel` made. After a failover, its address is that of the old primary. The old primary may grant
    /// locks for seconds until it becomes a replica, while the new primary grants them too. Use
    /// [`sentinel`](Self::sentinel), which leaves the old primary when a sentinel names another one.
    ///
    /// # Cancel safety
    /// As [`connect`](Self::connect).
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn from_client(client: redis::Client) -> Result<Self, Error> {
        Self::builder().from_client(client).await
    }

    /// Connects to a Redis Cluster. One server is enough to find the others. Give several, in case one is down.
    ///
    /// Each lock is on the server that has its name's slot, and moves with the slot. The first address also sets the
    /// user, the password and TLS for all servers. You can give URLs or `redis::ConnectionInfo` values.
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
        I: IntoIterator<Item: IntoConnectionInfo>,
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
        I: IntoIterator<Item: IntoConnectionInfo>,
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

    /// Uses a connection that you provide, and never closes it.
    ///
    /// The manager can't subscribe on it, so waiters poll, at least once in a third of the claim window. With RESP3, use
    /// [`from_connection_with_push`](Self::from_connection_with_push): its waiters are notified. Reconnecting is
    /// the connection's job. It must **never resend a command by itself**: a repeated command may arrive after the
    /// release of its lease. For a cluster, prefer [`cluster`](Self::cluster).
    ///
    /// Don't pass a connection that `redis::sentinel` made, such as that of a `SentinelClient`: it stays at the old
    /// primary after a failover. The old primary may learn up to 10 seconds later that it is a replica. Until then it
    /// grants locks that the new primary grants too, and the manager can't notice. Use [`sentinel`](Self::sentinel): it
    /// leaves the old primary when a sentinel names another one, and ignores its late answers.
    ///
    /// # Cancel safety
    /// You can drop the future at any time. It changes nothing on the server.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn from_connection<C>(connection: C) -> Result<Self, Error>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        Self::builder().from_connection(connection).await
    }

    /// Uses a RESP3 connection that you provide, for commands and for messages. Waiters are notified by push messages on
    /// the same connection and don't poll. `pushes` is the other end of the connection's `push_sender`.
    ///
    /// ```no_run
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// use leasehold::LockManager;
    /// use redis::AsyncConnectionConfig;
    /// # use leasehold::redis;
    ///
    /// let (sender, pushes) = tokio::sync::mpsc::unbounded_channel();
    /// let config = AsyncConnectionConfig::new().set_push_sender(sender);
    /// let client = redis::Client::open("redis://127.0.0.1/?protocol=resp3")?;
    /// let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    /// let locks = LockManager::from_connection_with_push(connection.clone(), pushes).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A `ConnectionManager` works in the same way. After it has reconnected, the manager subscribes again, with or
    /// without `set_automatic_resubscription`. A `MultiplexedConnection` that broke stays broken. For a cluster, use
    /// [`cluster`](Self::cluster).
    ///
    /// The manager takes every message from `pushes` and ignores those of other channels. If you have channels of your
    /// own on the connection, let the push sender be a closure that sends each message to both receivers. Use one
    /// manager for a connection. If you unsubscribe from all channels at once, the manager subscribes again.
    /// Unsubscribe with the connection's method `unsubscribe`. A `redis::cmd("UNSUBSCRIBE")` without channels gets one
    /// reply for each channel, so later commands, also the manager's, get the replies of others.
    ///
    /// If the connection speaks RESP2, or if `pushes` gets nothing from it, the manager logs a warning and its waiters
    /// poll. The manager asks for the protocol with `HELLO` when it first subscribes.
    ///
    /// The rules of [`from_connection`](Self::from_connection) apply: the connection never resends a command by itself,
    /// and `redis::sentinel` didn't make it. The manager never closes it, and leaves its channels when it ends.
    ///
    /// # Cancel safety
    /// You can drop the future at any time. It changes nothing on the server.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn from_connection_with_push<C>(connection: C, pushes: UnboundedReceiver<PushInfo>) -> Result<Self, Error>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        Self::builder().from_connection_with_push(connection, pushes).await
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
