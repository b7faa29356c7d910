//! The lock manager: it connects, makes locks, and closes.

use std::fmt;
use std::sync::Arc;

use leasehold_core::{AcquireOptions, Inspection, Kind, Operation, Outcome};
use redis::aio::ConnectionLike;
use redis::{IntoConnectionInfo, PushInfo};
use tokio::sync::mpsc::UnboundedReceiver;

use super::builder::Builder;
use super::lock::{Lock, ReadWrite, Semaphore};
use super::owner::Owner;
use super::quorum_member::QuorumMember;
use crate::client::{Client, unexpected_outcome};
use crate::errors::Error;

/// A client of one server, one cluster or one quorum. Cloning it is cheap. A process needs one manager for each server.
///
/// The client ends when you call [`close`](Self::close), or when the last clone and the last [`Lease`](crate::Lease)
/// are dropped. Then its waits end and its leases are released.
#[derive(Clone)]
pub struct LockManager {
    pub(super) client: Arc<Client>,
    pub(super) defaults: AcquireOptions,
}

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

    /// A mutex: one holder at a time.
    pub fn mutex(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(Arc::clone(&self.client), name.as_ref(), self.defaults)
    }

    /// A read-write lock: many readers or one writer, in one queue, so neither starves the other.
    pub fn read_write(&self, name: impl AsRef<str>) -> ReadWrite {
        ReadWrite::new(self.mutex(name))
    }

    /// A reentrant lock: its owner can take it again while it holds it, without a round trip.
    ///
    /// On the server it is Redisson's `RLock`. Java services and this client exclude and wake each other on the same key.
    ///
    /// ```no_run
    /// # async fn f(locks: leasehold::LockManager) -> Result<(), leasehold::Error> {
    /// let owner = leasehold::Owner::new();
    /// let lease = locks.reentrant("account:7", &owner).acquire().await?;
    /// let again = locks.reentrant("account:7", &owner).acquire().await?; // at once
    /// again.release().await?; // still held
    /// lease.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn reentrant(&self, name: impl AsRef<str>, owner: &Owner) -> Lock {
        self.mutex(name).with_kind(Kind::Reentrant(owner.id()))
    }

    /// A semaphore with `limit` permits (1 to 1,000,000), granted first come, first served.
    ///
    /// All callers should use the same limit. The limit of the latest acquire counts. A lower limit takes nothing from
    /// current holders. A request for more than the new limit is granted when everything else is free.
    ///
    /// ```no_run
    /// # async fn f(locks: leasehold::LockManager) -> Result<(), leasehold::Error> {
    /// let reports = locks.semaphore("reports", 5);
    /// let one = reports.acquire().await?;
    /// let three = reports.permits(3).acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn semaphore(&self, name: impl AsRef<str>, limit: u32) -> Semaphore {
        Semaphore::new(self.mutex(name), limit)
    }

    /// One exclusive lock over several names: all or none. Clients that name them in different orders never deadlock.
    ///
    /// It takes 1 to 256 names of at most 1 MiB together, prefixes included. Its calls refuse others with
    /// `invalid-option`.
    ///
    /// If all names have one hash tag (`{order:7}:stock`, `{order:7}:invoice`) and all are free, one script takes them
    /// at one moment. Otherwise the client takes them in sorted order, each through its queue. If that fails, is
    /// cancelled, or takes longer than the wait, the client releases the names that it has. The lease is renewed,
    /// extended, lost and released as a whole, and has a [fence for each name](crate::Lease::fences).
    ///
    /// In a [quorum](Self::quorum), a majority of the servers has each name. The client always takes them in sorted order.
    ///
    /// ```no_run
    /// # async fn f(locks: leasehold::LockManager) -> Result<(), leasehold::Error> {
    /// let lease = locks.multi(["account:1", "account:2"]).acquire().await?;
    /// for (name, fence) in lease.fences() {
    ///     println!("{name} with fence {fence}");
    /// }
    /// lease.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn multi(&self, names: impl IntoIterator<Item: AsRef<str>>) -> Lock {
        Lock::of_several(Arc::clone(&self.client), names, self.defaults)
    }

    /// Asks the server who holds the lock `name`, who waits for it, and for how long. A second round trip asks for their
    /// [labels](Builder::label). It also asks the clients for the labels of their [leases](Lock::label), and waits for
    /// the answers for at most 100 ms. A label is missing if the client does not answer in that time.
    ///
    /// Waiters for a reentrant lock are not listed, because they have no queue on the server. The waiters of a quorum are
    /// those of its first server,
    /// and each client that holds the lock there is listed once. It returns within two response timeouts.
    ///
    /// # Cancel safety
    /// It changes nothing, so you can drop the future at any time.
    ///
    /// # Errors
    /// `invalid-option` for a bad name, `wrong-kind`, `unreachable`, `auth`, `server`, `closed`.
    pub fn inspect(&self, name: impl AsRef<str>) -> impl Future<Output = Result<Inspection, Error>> + Send + 'static {
        Self::inspecting(Arc::clone(&self.client), name.as_ref().to_owned(), true)
    }

    /// The same without the labels of leases. For programs that inspect many locks.
    ///
    /// # Errors
    /// As [`inspect`](Self::inspect).
    #[doc(hidden)]
    pub fn inspect_server(
        &self,
        name: impl AsRef<str>,
    ) -> impl Future<Output = Result<Inspection, Error>> + Send + 'static {
        Self::inspecting(Arc::clone(&self.client), name.as_ref().to_owned(), false)
    }

    async fn inspecting(client: Arc<Client>, name: String, asks: bool) -> Result<Inspection, Error> {
        match client.execute(Operation::Inspect { name: &name, asks }, Some(&name)).await? {
            Outcome::Inspected(inspection) => Ok(inspection),
            other => Err(unexpected_outcome(&other, &name)),
        }
    }

    /// Takes the lock `name`, of any kind, from its holders, and grants the next waiter. For operators. Returns
    /// how many holders there were.
    ///
    /// The holders are notified with [`LossReason::Revoked`](crate::LossReason::Revoked), or learn at their next
    /// renewal that the lease is gone. Until then they may work at the same time as the next holder, so only a fence
    /// check protects the resource.
    ///
    /// It returns within one response timeout.
    ///
    /// # Cancel safety
    /// Once polled, the request goes on even if you drop the future.
    ///
    /// # Errors
    /// As [`inspect`](Self::inspect). After `unreachable` it is not known whether the lock was taken. The command is
    /// never sent twice, because a second one would take the lock from the next holder. A key without a TTL is another
    /// library's, or other data, and fails with `wrong-kind`: see
    /// [`force_release_foreign`](Self::force_release_foreign).
    pub fn force_release(&self, name: impl AsRef<str>) -> impl Future<Output = Result<u32, Error>> + Send + 'static {
        self.force(name.as_ref(), false)
    }

    /// As [`force_release`](Self::force_release), but deletes the key even if it has no TTL. Such a key is another
    /// library's, or it is data that is no lock. You lose that data, so look at the key first.
    ///
    /// # Cancel safety
    /// As [`force_release`](Self::force_release).
    ///
    /// # Errors
    /// As [`force_release`](Self::force_release). A list or a set is never deleted: `wrong-kind`.
    pub fn force_release_foreign(
        &self,
        name: impl AsRef<str>,
    ) -> impl Future<Output = Result<u32, Error>> + Send + 'static {
        self.force(name.as_ref(), true)
    }

    fn force(&self, name: &str, foreign: bool) -> impl Future<Output = Result<u32, Error>> + Send + 'static + use<> {
        let (client, name) = (Arc::clone(&self.client), name.to_owned());
        async move {
            match client.execute(Operation::ForceRelease { name: &name, foreign }, Some(&name)).await? {
                Outcome::Revoked(holders) => Ok(holders),
                other => Err(unexpected_outcome(&other, &name)),
            }
        }
    }

    /// Ends the client for all its clones: waits end with [`Error::Closed`], and leases are released. It never fails,
    /// and you can call it twice.
    ///
    /// It returns at once if nothing is held and the server has no [label](Builder::label) of this client. Otherwise it
    /// returns when the server has confirmed all releases or has refused them, or when the server has been silent for
    /// one response timeout. Locks without a confirmation end with their TTL; [`Closed::unreleased`] counts them. If
    /// the client's runtime has ended, it returns at once and counts the locks that the server still had at that time.
    ///
    /// # Cancel safety
    /// Once polled, the closing goes on even if you drop the future. Call it again to wait for its end.
    pub fn close(&self) -> impl Future<Output = Closed> + Send + 'static + use<> {
        let client = Arc::clone(&self.client);
        async move {
            let unreleased = match client.execute(Operation::Close, None).await {
                Ok(Outcome::Closed { unreleased }) => unreleased,
                // The driver's runtime has ended meanwhile.
                _ => client.shared.unreleased(),
            };
            Closed { unreleased }
        }
    }
}

/// The result of [`LockManager::close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// How many locks the server has not confirmed as released. They end with their TTL. A lease of several names counts
    /// once for each name.
    pub unreleased: u32,
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager").field("defaults", &self.defaults).finish_non_exhaustive()
    }
}
