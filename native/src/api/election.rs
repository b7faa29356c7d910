//! Elections: one leader at a time, and observers that learn who leads.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures_util::Stream;
use leasehold_core::{Fence, Kind, LeaseId, LossReason, ReleaseOutcome};

use super::lease::Lease;
use super::lock::Lock;
use crate::client::{Elected, Observation};
use crate::errors::Error;

/// An election: at most one of its candidates leads at a time. Made by [`LockManager::election`](crate::LockManager::election).
///
/// ```no_run
/// # async fn serve(_: leasehold::Fence) {}
/// # async fn f(locks: leasehold::LockManager) -> Result<(), leasehold::Error> {
/// let election = locks.election("scheduler").value("10.0.0.7:8080");
/// loop {
///     let term = election.campaign().await?;
///     tokio::select! {
///         reason = term.lost() => println!("leads no more: {reason}"),
///         () = serve(term.fence()) => term.resign().await.map(drop)?,
///     }
/// }
/// # }
/// ```
///
/// If the leader dies, the next one leads within the TTL and a second, plus one claim window for each dead candidate ahead of it.
/// During an outage of the server, nobody leads once the TTL is over, and campaigns go on. An ordinary lock of the same name fails
/// with `wrong-kind`. A quorum has no elections.
#[derive(Clone)]
#[must_use = "an election does nothing until you campaign or observe"]
pub struct Election {
    lock: Lock,
    value: Arc<str>,
    /// The terms that were lost and still exist, and then the last term. All clones share them.
    terms: Arc<Mutex<Vec<LeaseId>>>,
}

impl Election {
    pub(super) fn new(lock: Lock) -> Self {
        Self { lock: lock.with_kind(Kind::Election), value: Arc::from(""), terms: Arc::default() }
    }

    /// What observers learn about this candidate when it leads, such as its address: at most 1,024 bytes without control
    /// characters. Default: empty.
    pub fn value(mut self, value: impl Into<Arc<str>>) -> Self {
        self.value = value.into();
        self
    }

    /// How long a leader that has died keeps the others waiting: 10 ms to 30 days. Default: the manager's TTL, which is 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.lock = self.lock.ttl(ttl);
        self
    }

    /// A name for the terms, which [`inspect`](crate::LockManager::inspect) shows: see [`Lock::label`](crate::Lock::label).
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.lock = self.lock.label(label);
        self
    }

    /// The election's name, without the manager's prefix.
    pub fn name(&self) -> &str {
        self.lock.name()
    }

    /// Waits until this candidate leads, for as long as it takes, also through outages of the server. Campaign again after the
    /// term has ended.
    ///
    /// # Cancel safety
    /// Dropping the future ends the campaign. If the term has just begun, it ends in the background.
    ///
    /// # Errors
    /// - `conflict`: this manager already campaigns in this election, or leads.
    /// - `invalid-option`: the name, the TTL or the value can't be used.
    /// - `wrong-kind`: the name is in use by another kind of lock.
    /// - `unsupported` for a quorum. `auth`, `server`, `protocol`, `closed`.
    pub fn campaign(&self) -> impl Future<Output = Result<Term, Error>> + Send + 'static + use<> {
        let election = self.clone();
        async move {
            let lease = election.lock.campaign(Arc::clone(&election.value)).await?;
            let shared = &election.lock.client().shared;
            let mut terms = election.terms.lock().unwrap_or_else(PoisonError::into_inner);
            terms.retain(|term| shared.lost_for(*term).is_some());
            terms.push(lease.id());
            drop(terms);
            Ok(Term { lease })
        }
    }

    /// Observes who leads, without campaigning.
    ///
    /// The client subscribes to the election's channel. It asks the server once at the beginning and after each break, once for
    /// each TTL of the leader, and after a message that is late. If the connection carries no messages, it asks once for each
    /// claim window.
    pub fn observe(&self) -> Observer {
        Observer { observation: Some(self.lock.observation()) }
    }

    /// Whether this candidate leads, by the local clock. False from the moment at which the term can end on the server. No I/O.
    pub fn is_leader(&self) -> bool {
        let last = self.terms.lock().unwrap_or_else(PoisonError::into_inner).last().copied();
        last.is_some_and(|term| !self.lock.client().shared.remaining(term).is_zero())
    }

    /// For a liveness probe: false if a term was lost longer than `grace` ago and its [`Term`] still exists, also while this
    /// candidate leads again. Then the program did not notice the loss, or it can't stop its work. No I/O.
    ///
    /// ```no_run
    /// # fn f(election: leasehold::Election) -> bool {
    /// election.is_healthy(std::time::Duration::from_secs(20))
    /// # }
    /// ```
    pub fn is_healthy(&self, grace: Duration) -> bool {
        let terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let shared = &self.lock.client().shared;
        terms.into_iter().filter_map(|term| shared.lost_for(term)).all(|lost| lost <= grace)
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election").field("name", &self.name()).field("value", &self.value).finish_non_exhaustive()
    }
}

/// The time during which this candidate leads. The client renews it. Dropping it resigns in the background.
#[must_use = "a term that is dropped ends at once"]
#[derive(Debug)]
pub struct Term {
    lease: Lease,
}

impl Term {
    /// The term's number, which is a fencing token: greater than that of every earlier term. Send it along with every write,
    /// and let the resource refuse a smaller one than the greatest it has seen.
    pub fn fence(&self) -> Fence {
        self.lease.fence()
    }

    /// Whether the term goes on, by the local clock. No I/O.
    pub fn is_leader(&self) -> bool {
        self.lease.is_held()
    }

    /// How long the term goes on by the local clock, unless it is renewed. Zero once it has ended. No I/O.
    pub fn remaining(&self) -> Duration {
        self.lease.remaining()
    }

    /// Resolves with the reason when the term is lost: see [`Lease::lost`](crate::Lease::lost). Stop the work then, and drop
    /// the term.
    ///
    /// # Cancel safety
    /// You can drop the future at any time and call `lost` again.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + Sync + 'static + use<> {
        self.lease.lost()
    }

    /// Asks the server whether the term goes on: see [`Lease::verify`](crate::Lease::verify).
    ///
    /// # Errors
    /// `unreachable`, `auth`, `server`, `closed`.
    pub async fn verify(&self) -> Result<bool, Error> {
        self.lease.verify().await
    }

    #[cfg(feature = "cancellation-token")]
    pub(super) const fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Ends the term. The next candidate leads at once.
    ///
    /// # Cancel safety
    /// The request goes on even if you drop the future.
    ///
    /// # Errors
    /// As [`Lease::release`](crate::Lease::release).
    pub async fn resign(self) -> Result<ReleaseOutcome, Error> {
        self.lease.release().await
    }
}

/// The leader of an election, as an [`Observer`] learned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// What it tells about itself: see [`Election::value`].
    pub value: String,
    /// Its term's number. A later term has a greater one, except after a failover that lost the last terms.
    pub fence: Fence,
    /// Since when it leads, by this machine's clock.
    pub since: SystemTime,
}

/// Learns who leads. Made by [`Election::observe`]. Dropping it ends the observation.
///
/// ```no_run
/// # async fn f(locks: leasehold::LockManager) -> Result<(), leasehold::Error> {
/// let mut observer = locks.election("scheduler").observe();
/// loop {
///     match observer.next().await? {
///         Some(leader) => println!("{} leads since {:?}", leader.value, leader.since),
///         None => println!("nobody leads"),
///     }
/// }
/// # }
/// ```
///
/// It is also a `futures` stream.
#[must_use = "an observer learns nothing until it is polled"]
pub struct Observer {
    /// None once it has ended.
    observation: Option<Observation>,
}

impl Observer {
    /// The first call returns who leads now. Each later call waits for a change. `None` means that nobody leads, or that the server
    /// has not answered for the leader's TTL and one claim window. If several changes came since the last call, it returns the last
    /// one. It never goes back to an earlier term.
    ///
    /// # Cancel safety
    /// You can drop the future at any time and call it again.
    ///
    /// # Errors
    /// `wrong-kind`, `invalid-option` for the name, `auth`, `server`, `protocol`, `unsupported` for a quorum, `closed`. The
    /// observation has ended then, and another call fails with `closed`.
    pub async fn next(&mut self) -> Result<Option<Leader>, Error> {
        poll_fn(|context| self.poll(context)).await.unwrap_or(Err(Error::Closed))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Option<Leader>, Error>>> {
        let Some(observation) = &mut self.observation else { return Poll::Ready(None) };
        observation.poll(context.waker()).map(|told| {
            if told.is_err() {
                self.observation = None;
            }
            Some(told.map(|leader| leader.map(Leader::of)))
        })
    }
}

impl Leader {
    fn of(Elected { leader, since }: Elected) -> Self {
        Self { value: leader.value, fence: Fence::new(leader.fence), since }
    }
}

impl Stream for Observer {
    type Item = Result<Option<Leader>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(context)
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}
