//! The client: where every lock begins.

use std::fmt;
use std::sync::Arc;

use leasehold_core::{AcquireOptions, Inspection, Kind, Outcome};
use redis::IntoConnectionInfo;
use redis::aio::ConnectionLike;

use crate::builder::Builder;
use crate::call::Request;
use crate::client::{Client, unexpected};
use crate::error::Error;
use crate::lock::{Lock, ReadWrite, Semaphore};
use crate::multi::Multi;
use crate::owner::Owner;

/// One client of a server. Cheap to clone; a process needs one for each server.
///
/// The client ends when the last clone and the last [`Lease`](crate::Lease) of it are dropped, or by
/// [`close`](Self::close): waits end, leases are released.
#[derive(Clone)]
pub struct LockManager {
    pub(crate) client: Arc<Client>,
    pub(crate) defaults: AcquireOptions,
}

impl LockManager {
    /// Connects to the server at `url`, e.g. `redis://user:password@host:6379/0`, or `rediss://` for TLS, with the feature `tls-rustls`.
    ///
    /// It connects again by itself after a break, and subscribes over a connection of its own once somebody waits.
    ///
    /// A task on the present tokio runtime drives the client: keep that runtime running as long as you use the manager. When it
    /// shuts down, leases are told lost and calls answer `closed`; when it is merely not run, nothing moves.
    ///
    /// # Errors
    /// `invalid-option` for a bad URL, `unreachable`, `auth`, and `unsupported` for a server that is too old or a replica.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder().connect(url).await
    }

    /// Connects as `client` says. Everything works as with [`connect`](Self::connect).
    ///
    /// A client has one address, and the manager connects to no other. So don't bring one that `redis::sentinel` has made: after a failover
    /// its address is that of the old primary, which may grant locks for seconds until it becomes a replica; the new primary grants
    /// them too. Use [`sentinel`](Self::sentinel), which leaves the old primary when a sentinel names another one.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn from_client(client: redis::Client) -> Result<Self, Error> {
        Self::builder().from_client(client).await
    }

    /// Connects to a Redis Cluster; one of its servers is enough to find the others, several are found even when one is down.
    ///
    /// Each lock is on the server that its name's slot is on, and goes where the slot goes. The first URL tells how all servers are
    /// reached: user, password, TLS. A `redis::ConnectionInfo` serves as well as a URL.
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
    /// # Errors
    /// As [`connect`](Self::connect), with `cluster` as the field of a bad address.
    pub async fn cluster<I>(nodes: I) -> Result<Self, Error>
    where
        I: IntoIterator<Item: IntoConnectionInfo>,
    {
        Self::builder().cluster(nodes).await
    }

    /// Connects to the primary that Sentinel watches as `service`, and after a failover to the new one.
    ///
    /// The manager listens to the sentinels. It leaves the old primary when one of them names another, within a second, and ignores what
    /// the old one answers later.
    ///
    /// The URLs are the sentinels' own, with their user and password if they have any. For those of the primary and its replicas, and for
    /// a database number, see [`builder`](Self::builder); they are reached by TLS if the first sentinel is.
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
    /// # Errors
    /// As [`connect`](Self::connect), with `service` or `sentinels` as the field of what is bad.
    pub async fn sentinel<I>(service: impl Into<String>, sentinels: I) -> Result<Self, Error>
    where
        I: IntoIterator<Item: IntoConnectionInfo>,
    {
        Self::builder().sentinel(service, sentinels).await
    }

    /// Locks over several independent servers (Redlock): each is held while a majority of them says so, so it outlives the loss of a
    /// minority. The servers must not replicate each other.
    ///
    /// It takes an odd number of servers, three or more, each of its own. A majority has to be reached at the start; a server that is away is
    /// done without, and joins when it is back. All servers are asked at once, and whoever finds the lock taken asks again after a while: there is
    /// no queue between clients, and no order but by chance. The fencing token is the greatest of the majority, which all of it then
    /// remembers. Exclusive locks only: readers, the other kinds, and several names are `unsupported`.
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
    /// # Errors
    /// `invalid-option` for fewer than three servers, an even number of them, or one that appears twice, also under two addresses;
    /// `unreachable` if there is no majority, with what each server said in `votes`; `auth`, and `unsupported` for a server that is too old or a replica.
    pub async fn quorum<I>(servers: I) -> Result<Self, Error>
    where
        I: IntoIterator<Item: IntoConnectionInfo>,
    {
        Self::builder().quorum(servers).await
    }

    /// Uses a connection that the caller has, and never closes it.
    ///
    /// It can't subscribe, so waiters poll at a third of the claim window. Connecting again is the connection's own affair. It must
    /// **never resend a command by itself**: a repeated command may arrive after the release of its lease. For a cluster prefer
    /// [`cluster`](Self::cluster).
    ///
    /// Don't bring a connection that `redis::sentinel` has made, such as that of a `SentinelClient`: it stays at the old primary after
    /// a failover. Sentinel tells the old primary up to 10 seconds later that it is a replica, and until then it grants locks that the new
    /// primary grants too. The manager can't see where a connection comes from. Use [`sentinel`](Self::sentinel): it leaves the old primary
    /// when a sentinel names another one, and ignores its late answers.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn from_connection<C>(connection: C) -> Result<Self, Error>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        Self::builder().from_connection(connection).await
    }

    /// Sets options first.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// An exclusive lock.
    pub fn mutex(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.clone(), name.as_ref())
    }

    /// A lock with many readers or one writer, in one queue: neither starves the other.
    pub fn read_write(&self, name: impl AsRef<str>) -> ReadWrite {
        ReadWrite::new(self.clone(), name.as_ref())
    }

    /// A lock that its owner may take again while it holds it, without a round trip. It is Redisson's `RLock` on the wire: Java
    /// services and this one exclude and wake each other on the same key.
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
        Lock::new(self.clone(), name.as_ref()).with_kind(Kind::Reentrant(owner.id()))
    }

    /// `limit` permits (1 to 1,000,000), of which each acquire takes some, first come, first served. All callers should say the same limit.
    /// The latest acquire's stands; lowering it takes nothing from anybody, and who asked for more than the new limit gets it when
    /// all else is free.
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
        Semaphore::new(self.clone(), name.as_ref(), limit)
    }

    /// Several names as one lock: all or nothing, and nobody deadlocks.
    pub fn multi(&self, names: impl IntoIterator<Item: AsRef<str>>) -> Multi {
        Multi::new(self.clone(), names.into_iter().map(|name| name.as_ref().into()))
    }

    /// Asks the server who holds the lock `name` and who waits for it, in one round trip. Who waits for a reentrant lock or in a quorum
    /// stands in no queue, and is not told.
    ///
    /// # Errors
    /// `invalid-option` for a bad name, `wrong-kind`, `unreachable`, `auth`, `closed`.
    pub async fn inspect(&self, name: impl AsRef<str>) -> Result<Inspection, Error> {
        let name = name.as_ref();
        match self.client.ask(Request::Inspect { name }, Some(name)).await? {
            Outcome::Inspected(inspection) => Ok(inspection),
            other => Err(unexpected(&other, name)),
        }
    }

    /// Takes the lock `name`, of whatever kind, from whoever holds it, and grants the next in line: an operator's way out. Answers
    /// how many held it.
    ///
    /// The holders are told [`LossReason::Revoked`](crate::LossReason::Revoked), or at their next renewal that the lease is gone. What they do
    /// until then they do beside the next holder: only the fence keeps the resource safe.
    ///
    /// # Errors
    /// As [`inspect`](Self::inspect). `unreachable` leaves open whether it was done: it is never sent twice, as that would take the lock
    /// from the next holder as well.
    pub async fn force_release(&self, name: impl AsRef<str>) -> Result<u32, Error> {
        let name = name.as_ref();
        match self.client.ask(Request::ForceRelease { name }, Some(name)).await? {
            Outcome::Revoked(holders) => Ok(holders),
            other => Err(unexpected(&other, name)),
        }
    }

    /// Ends the client for all its clones: waits end with [`Error::Closed`], and the leases are released. It never fails, and a second
    /// call is fine.
    ///
    /// It ends when the server has confirmed all releases, or when no answer has come for one response timeout; with nothing held it ends
    /// at once. Leases that the server has not confirmed as released end by their TTL; [`Closed::unreleased`] counts them. Dropping the
    /// future does not stop the end of the client.
    pub async fn close(&self) -> Closed {
        let ended = self.client.ask(Request::Close, None).await;
        let unreleased = match ended {
            Ok(Outcome::Closed { unreleased }) => unreleased,
            // The runtime of the driver has ended meanwhile, and nothing is known of the releases.
            _ => self.client.shared.holders(),
        };
        Closed { unreleased }
    }
}

/// How [`LockManager::close`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// How many leases the server has not confirmed as released. They end by their TTL.
    pub unreleased: u32,
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager").field("defaults", &self.defaults).finish_non_exhaustive()
    }
}
