//! The lock manager: it makes locks, and closes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{AcquireOptions, Inspection, Kind, Mode, Operation, Outcome};

use super::election::Election;
use super::lock::{Lock, ReadWrite, Semaphore};
use super::owner::Owner;
use super::part::Part;
use super::query::{LockInfo, Snapshot};
use crate::client::{Client, Listed, unexpected_outcome};
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

    /// An election: one of its candidates leads at a time, and observers learn who.
    ///
    /// ```no_run
    /// # async fn f(locks: leasehold::LockManager) -> Result<(), leasehold::Error> {
    /// let term = locks.election("scheduler").value("10.0.0.7:8080").campaign().await?;
    /// println!("leads in term {}", term.fence());
    /// # Ok(())
    /// # }
    /// ```
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self.mutex(name))
    }

    /// Several locks as one lease: all or none. Clients that name them in different orders never deadlock. A part is a name,
    /// which means its mutex, or a lock: a mutex, a reader, a writer or permits of a semaphore. Other kinds, and rates, fail
    /// with `unsupported`.
    ///
    /// It takes 1 to 256 names of at most 1 MiB together, prefixes included. Its calls refuse others with
    /// `invalid-option`.
    ///
    /// On one server, and in a cluster for names with one hash tag (`{order:7}:stock`, `{order:7}:invoice`), one script takes all
    /// parts or none. If a part is full, the caller waits there and holds nothing meanwhile. After four turns in which another
    /// part was full, it takes the parts in the order of their names, each through its queue. It then holds the earlier parts
    /// while it waits for the next one. Across slots of a cluster and in a quorum, it always does that. If the acquire fails, is
    /// cancelled, or takes longer than the wait, the client releases what it has. The lease is renewed, extended, lost and
    /// released as a whole, and has a [fence for each name](crate::Lease::fences).
    ///
    /// In a [quorum](Self::quorum), a majority of the servers has each name. It has no semaphores.
    ///
    /// ```no_run
    /// # async fn f(locks: leasehold::LockManager) -> Result<(), leasehold::Error> {
    /// let lease = locks.multi(["account:1", "account:2"]).acquire().await?;
    /// for (name, fence) in lease.fences() {
    ///     println!("{name} with fence {fence}");
    /// }
    /// lease.release().await?;
    ///
    /// let tenant = locks.semaphore("tenant:9", 2).permits(1);
    /// let lease = locks.multi([locks.mutex("order:7"), tenant]).acquire().await?;
    /// lease.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn multi(&self, parts: impl IntoIterator<Item: Into<Part>>) -> Lock {
        Lock::of_several(Arc::clone(&self.client), parts, self.defaults)
    }

    /// Asks the server who holds the lock `name`, who waits for it, and for how long. A second round trip asks for their
    /// [labels](crate::Builder::label). It also asks the clients for the labels of their [leases](Lock::label), and waits for
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
            Outcome::Inspected(inspection) => Ok(*inspection),
            other => Err(unexpected_outcome(&other, &name)),
        }
    }

    /// The locks that this manager holds and waits for, as far as it knows. No I/O. Use it for a status page of your service, for
    /// example. It doesn't see other managers: [`inspect`](Self::inspect) asks the server.
    ///
    /// ```
    /// # #[cfg(feature = "testing")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let locks = leasehold::LockManager::in_memory()?;
    /// let lease = locks.mutex("invoice:42").acquire().await?;
    /// let names: Vec<_> = locks.query().held.into_iter().map(|lock| lock.name).collect();
    /// assert_eq!(names, ["invoice:42"]);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "testing"))]
    /// # fn main() {}
    /// ```
    pub fn query(&self) -> Snapshot {
        let (client, Listed { held, pending, lingering }) = (&self.client.id, self.client.shared.list());
        let listed = |locks: Vec<(Arc<str>, Mode)>| {
            let info = |(name, mode): (Arc<str>, Mode)| LockInfo {
                name: (*name).to_owned(),
                mode,
                client: client.to_string(),
            };
            locks.into_iter().map(info).collect()
        };
        Snapshot { held: listed(held), pending: listed(pending), lingering: listed(lingering) }
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
    /// It returns at once if nothing is held and the server has no [label](crate::Builder::label) of this client. Otherwise it
    /// returns when the server has confirmed all releases or has refused them, or when the server has been silent for
    /// one response timeout. Locks without a confirmation end with their TTL; [`Closed::unreleased`] counts them. If
    /// the client's runtime has ended, it returns at once and counts the locks that the server still had at that time.
    ///
    /// # Cancel safety
    /// Once polled, the closing goes on even if you drop the future. Call it again to wait for its end.
    pub fn close(&self) -> impl Future<Output = Closed> + Send + 'static + use<> {
        let client = Arc::clone(&self.client);
        async move {
            match client.execute(Operation::Close, None).await {
                Ok(Outcome::Closed { lost, unreleased }) => Closed { lost, unreleased },
                // The driver's runtime has ended meanwhile.
                _ => Closed { lost: 0, unreleased: client.shared.unreleased() },
            }
        }
    }

    /// As [`close`](Self::close), but running work first has the time `grace` to finish: 0 ms to 30 days. Use it when your
    /// process gets SIGTERM.
    ///
    /// New and waiting acquires fail with [`Error::Closed`] at once, and leases that linger are released. The manager
    /// renews held leases as before, and calls on them work, such as [`extend`](crate::Lease::extend) and
    /// [`nested`](crate::Lease::nested). The owner of a reentrant lock can take it again.
    ///
    /// When the last lease is released or lost, or when the time is over, the client closes. [`Closed::lost`] is the number of
    /// leases that were still held then. Call [`close`](Self::close) to end the drain at once. Of several calls, the one whose
    /// time is over first counts.
    ///
    /// # Cancel safety
    /// Once polled, the drain goes on even if you drop the future, and the client closes at the end.
    ///
    /// # Errors
    /// `invalid-option` if the time is out of these bounds. The client stays open then.
    ///
    /// ```no_run
    /// # async fn f(locks: leasehold::LockManager) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let closed = locks.close_draining(Duration::from_secs(25)).await?;
    /// println!("{} leases were still held", closed.lost);
    /// # Ok(())
    /// # }
    /// ```
    pub fn close_draining(
        &self,
        grace: Duration,
    ) -> impl Future<Output = Result<Closed, Error>> + Send + 'static + use<> {
        let (client, closing) = (Arc::clone(&self.client), self.close());
        async move {
            match client.execute(Operation::Drain { grace }, None).await {
                Err(error @ Error::InvalidOption { .. }) => Err(error),
                // Otherwise the client closes already.
                _ => Ok(closing.await),
            }
        }
    }
}

/// The result of [`LockManager::close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// How many leases were still held. Their holders lost them with
    /// [`LossReason::Closed`](crate::LossReason::Closed).
    pub lost: u32,
    /// How many locks the server has not confirmed as released. They end with their TTL. A lease of several names counts
    /// once for each name.
    pub unreleased: u32,
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager").field("defaults", &self.defaults).finish_non_exhaustive()
    }
}
