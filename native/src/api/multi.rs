//! One lock over several names: all or none.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{AcquireOptions, LossReason, Outcome, ReleaseOutcome, Wait};
use tracing::Instrument;

use super::lease::{Fence, Lease};
use super::lock::set_wait;
use crate::client::{Client, Operation, unexpected_outcome};
use crate::errors::Error;

/// Several names that are taken together, exclusively, as one lease. Clients that name them in different orders never
/// deadlock.
///
/// If all names have one hash tag (`{order:7}:stock`, `{order:7}:invoice`) and all are free, one script takes them at
/// one moment. Otherwise the client takes them in sorted order, each through its queue. If that fails, is cancelled, or
/// takes longer than the wait, the client releases the names that it has.
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
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct Multi {
    client: Arc<Client>,
    names: Arc<[Arc<str>]>,
    /// The names as one text, for spans and errors.
    label: Arc<str>,
    options: AcquireOptions,
    one_script: bool,
}

impl Multi {
    pub(super) fn new(client: Arc<Client>, names: impl Iterator<Item = Arc<str>>, options: AcquireOptions) -> Self {
        let names: Arc<[Arc<str>]> = names.collect();
        let label = names.join(", ").into();
        Self { client, names, label, options, one_script: false }
    }

    /// How long the server keeps the lease unless it is renewed: 10 ms to 24 h. A crashed holder blocks the others for this long.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// Whether the client renews the lease at a third of its TTL while you hold it. Default: true. `false` makes a fixed lease.
    pub fn renew(mut self, renew: bool) -> Self {
        self.options.renew = renew;
        self
    }

    /// How long a renewed lease may be held: 10 ms to 30 days. Default: no limit.
    ///
    /// After this time the lease is lost, with [`LossReason::MaxHold`].
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.options.max_hold = Some(limit);
        self
    }

    /// How long an acquire waits for all names together: a [`Duration`] of 1 ms to 30 days, or [`Wait::Forever`].
    ///
    /// A [`try_acquire`](Self::try_acquire) also ends within this time, if it is shorter than the response timeout.
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        set_wait(&mut self.options, wait.into());
        self
    }

    /// Refuses names that no single script can take, because they are in several slots of a cluster, with `cross-slot`.
    /// Names in one slot are always tried with one script first.
    pub fn one_script(mut self) -> Self {
        self.one_script = true;
        self
    }

    /// The names in the order in which you gave them, without the manager's prefix.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// Waits until all names are free, and takes them.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait. The names that were already taken are released in the background.
    ///
    /// # Errors
    /// - `busy`: other clients held a name for the whole wait.
    /// - `unreachable`: no server answered in that time.
    /// - `invalid-option`: there is no name, a name is given twice, or a name or an option can't be used. Nothing was sent.
    /// - `cross-slot`, `wrong-kind`, `auth`, `server`, `protocol`, `closed`.
    pub async fn acquire(&self) -> Result<MultiLease, Error> {
        self.acquire_with(self.options.wait).await
    }

    /// Takes all names if they are free. Returns `None` if another client holds one or waits for it.
    ///
    /// It ends within one response timeout, or within the [`wait`](Self::wait) if you set one that is shorter.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but never `busy`.
    pub async fn try_acquire(&self) -> Result<Option<MultiLease>, Error> {
        match self.acquire_with(Wait::No).await {
            Ok(lease) => Ok(Some(lease)),
            Err(Error::Busy { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Acquires all names, runs `work`, and releases them, as [`Lock::run`](crate::Lock::run) does with one name. If
    /// one of them is lost, the work is dropped at its next `await`.
    ///
    /// # Cancel safety
    /// As [`Lock::run`](crate::Lock::run).
    ///
    /// # Errors
    /// The error of the work, the errors of [`acquire`](Self::acquire), `lost` and `closed`.
    pub async fn run<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: AsyncFnOnce(&MultiLease) -> Result<T, E>,
        E: From<Error>,
    {
        let lease = self.acquire().await?;
        let done = tokio::select! {
            biased;
            error = lease.lease.interrupted() => return Err(error.into()),
            done = work(&lease) => done?,
        };
        match lease.lease.release_or_loss().await {
            Ok(()) => Ok(done),
            Err(lost) => Err(lost.into()),
        }
    }

    fn acquire_with(&self, wait: Wait) -> impl Future<Output = Result<MultiLease, Error>> + Send {
        let span = tracing::info_span!("leasehold.acquire", name = &*self.label);
        self.acquire_in_span(wait).instrument(span)
    }

    async fn acquire_in_span(&self, wait: Wait) -> Result<MultiLease, Error> {
        tokio::task::coop::consume_budget().await;
        let names: Vec<&str> = self.names().collect();
        let options = AcquireOptions { wait, ..self.options };
        let operation =
            Operation::AcquireAll { label: &self.label, names: &names, options, one_script: self.one_script };
        let outcome = self.client.execute(operation, Some(&self.label)).await?;
        let (Outcome::AcquiredAll { fences, .. }, Some(grant)) = (&outcome, outcome.grant()) else {
            return Err(unexpected_outcome(&outcome, &self.label));
        };
        tracing::debug!(?fences, "lease granted");
        let fences = self.names.iter().cloned().zip(fences.iter().copied().map(Fence::new)).collect();
        let lease = Lease::new(Arc::clone(&self.client), Arc::clone(&self.label), &grant);
        Ok(MultiLease { lease, fences })
    }
}

impl fmt::Debug for Multi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multi").field("names", &self.names).field("options", &self.options).finish_non_exhaustive()
    }
}

/// Several names that are held as one lease: renewed, lost, extended and released together.
///
/// Dropping it releases it in the background, like a [`Lease`].
#[must_use = "a lease that is dropped is released at once"]
pub struct MultiLease {
    lease: Lease,
    fences: Arc<[(Arc<str>, Fence)]>,
}

impl MultiLease {
    /// The fencing token of each name, in the order in which you gave the names. Send each resource the fence of its name.
    pub fn fences(&self) -> impl ExactSizeIterator<Item = (&str, Fence)> {
        self.fences.iter().map(|(name, fence)| (&**name, *fence))
    }

    /// The fencing token of one of the names.
    pub fn fence(&self, name: &str) -> Option<Fence> {
        self.fences().find(|(other, _)| *other == name).map(|(_, fence)| fence)
    }

    /// How long all names are still valid by the local clock, unless they are renewed. Zero once one has ended. No I/O.
    pub fn remaining(&self) -> Duration {
        self.lease.remaining()
    }

    /// Whether all names are still valid by the local clock. No I/O.
    pub fn is_held(&self) -> bool {
        self.lease.is_held()
    }

    /// Asks the server whether all names are still held. If it returns `false`, the lease is lost from now on.
    /// See [`Lease::verify`].
    ///
    /// # Cancel safety
    /// As [`Lease::verify`].
    ///
    /// # Errors
    /// `unreachable`, `auth`, `server`, `closed`.
    pub async fn verify(&self) -> Result<bool, Error> {
        self.lease.verify().await
    }

    /// Resolves with the reason when the first of the names is lost. The others are then released. See [`Lease::lost`].
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + Sync + 'static + use<> {
        self.lease.lost()
    }

    /// Makes all names valid for at least `ttl` from now, but not past their
    /// [`max_hold`](crate::Multi::max_hold). See [`Lease::extend`].
    ///
    /// # Cancel safety
    /// As [`Lease::extend`].
    ///
    /// # Errors
    /// `invalid-option` for a TTL that is out of its bounds, `not-held`, `lost`, `unreachable`, `auth`, `server`, `closed`.
    pub async fn extend(&self, ttl: Duration) -> Result<(), Error> {
        self.lease.extend(ttl).await
    }

    /// Takes one more hold on all names, without I/O. They are released with the last hold.
    ///
    /// # Errors
    /// `not-held` if the lease was lost, `closed`.
    pub fn nested(&self) -> Result<Self, Error> {
        Ok(Self { lease: self.lease.nested()?, fences: Arc::clone(&self.fences) })
    }

    /// How many holds this lease has.
    pub fn hold_count(&self) -> u32 {
        self.lease.hold_count()
    }

    /// Gives this hold back. The last one releases all names. Returns the worst of their outcomes.
    ///
    /// # Cancel safety
    /// The release goes on even if you drop the future.
    ///
    /// # Errors
    /// `unreachable` if the server did not confirm the release in time: the names without a confirmation end with their
    /// TTL. `auth`, `server`, and `closed` if the runtime ends during the call.
    pub async fn release(self) -> Result<ReleaseOutcome, Error> {
        self.lease.release().await
    }
}

impl fmt::Debug for MultiLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiLease").field("fences", &self.fences).finish_non_exhaustive()
    }
}
