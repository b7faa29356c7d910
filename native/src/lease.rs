//! What a holder holds.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Grant, LeaseId, LossReason, Mode, Outcome, ReleaseOutcome};

use crate::call::{Call, Request};
use crate::client::{Client, unexpected};
use crate::error::Error;
use crate::replicas::Replicas;

/// A lock that is held, for a time: renewed while it is held, told when it is lost, released when it is dropped.
///
/// Dropping it releases in the background, which nobody can wait for; [`release`](Self::release) tells how it went. Nothing is in the
/// background once the runtime ends: release, or [`close`](crate::LockManager::close) the manager, before `main` returns, or the
/// lock stays taken until its TTL is over.
#[must_use = "a lease that is dropped is released at once"]
pub struct Lease {
    client: Arc<Client>,
    id: LeaseId,
    name: Arc<str>,
    granted: (Fence, Mode),
    /// Set when the handle was given back by hand, so that dropping it does nothing.
    given_back: bool,
}

impl Lease {
    pub(crate) fn new(client: Arc<Client>, name: Arc<str>, grant: &Grant) -> Self {
        Self { client, id: grant.lease, name, granted: (Fence(grant.fence), grant.mode), given_back: false }
    }

    /// The lock's name, without the manager's prefix.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fencing token: greater than that of every lease that excluded this one before. Send it along with every write,
    /// and let the resource refuse a smaller one than it has seen. A conversion gives a new one.
    pub fn fence(&self) -> Fence {
        self.client.shared.grant(self.id).map_or(self.granted.0, |(fence, _)| Fence(fence))
    }

    /// Whether it is held exclusively or shared.
    pub fn mode(&self) -> Mode {
        self.client.shared.grant(self.id).map_or(self.granted.1, |(_, mode)| mode)
    }

    /// How long the lease is still valid by the local clock, if no renewal comes any more. Zero once it is over.
    pub fn remaining(&self) -> Duration {
        self.client.shared.remaining(self.id)
    }

    /// Whether the lease is still valid by the local clock. No I/O.
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Asks the server whether the lease is still there. If not, it is lost from now on.
    ///
    /// # Errors
    /// `unreachable`, `auth`, `closed`.
    pub async fn verify(&self) -> Result<bool, Error> {
        match self.ask(Request::Verify { lease: self.id }).await {
            Ok(Outcome::Verified(held)) => Ok(held),
            Ok(other) => Err(unexpected(&other, &self.name)),
            Err(Error::NotHeld { .. } | Error::Lost { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ends when the lease is lost, with the reason; at once if it was lost before. The future owns what it needs and
    /// may be spawned. It never ends if the lease is given back first, by hand or by closing the manager.
    ///
    /// ```no_run
    /// # async fn work() {}
    /// # async fn f(lease: leasehold::Lease) {
    /// tokio::select! {
    ///     reason = lease.lost() => println!("stop at once: {reason}"),
    ///     () = work() => {}
    /// }
    /// # }
    /// ```
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + Sync + 'static + use<> {
        let ended = self.ended();
        async move {
            match ended.await {
                Some(reason) => reason,
                None => pending().await,
            }
        }
    }

    /// Ends when the lease is lost, with the reason, and without one when it is given back.
    fn ended(&self) -> impl Future<Output = Option<LossReason>> + Send + Sync + 'static + use<> {
        let told = self.client.shared.told(self.id);
        async move { told?.wait_for(Option::is_some).await.ok().and_then(|reason| *reason) }
    }

    /// Ends when the lease is lost or its client is closed, with the error that tells so.
    pub(crate) async fn interrupted(&self) -> Error {
        match self.ended().await {
            Some(reason) => Error::Lost { name: self.name.as_ref().to_owned(), reason },
            None => Error::Closed,
        }
    }

    /// Makes the lease valid for at least `ttl` from now, but not past its [`max_hold`](crate::Lock::max_hold).
    ///
    /// # Errors
    /// `invalid-option` for a bad TTL, `not-held`, `lost`, `unreachable`, `closed`.
    pub async fn extend(&self, ttl: Duration) -> Result<(), Error> {
        match self.ask(Request::Extend { lease: self.id, ttl }).await? {
            Outcome::Extended { .. } => Ok(()),
            other => Err(unexpected(&other, &self.name)),
        }
    }

    /// One more hold on this lease, counted here and without I/O: the lease is given back with the last of its holds.
    ///
    /// # Errors
    /// `not-held` if the lease was lost, `closed`.
    pub fn nested(&self) -> Result<Self, Error> {
        match self.client.ask_now(&Request::Hold { lease: self.id }, &self.name)? {
            Outcome::Held(_) => {
                self.client.shared.add_handle(self.id);
                let (client, name) = (Arc::clone(&self.client), Arc::clone(&self.name));
                Ok(Self { client, id: self.id, name, granted: (self.fence(), self.mode()), given_back: false })
            }
            other => Err(unexpected(&other, &self.name)),
        }
    }

    /// How many holds there are on this lease.
    pub fn hold_count(&self) -> u32 {
        self.client.shared.handles(self.id)
    }

    /// Turns an exclusive lease into a shared one, without letting a writer in between; waiting readers may join.
    ///
    /// # Errors
    /// `not-held`, `lost`, `conflict`, `unsupported` for any kind but a read-write lock or a mutex, `unreachable`, `closed`.
    pub async fn downgrade(&self) -> Result<(), Error> {
        self.convert(Mode::Shared).await
    }

    /// Turns the lease of a sole reader into an exclusive one.
    ///
    /// # Errors
    /// `conflict` at once if there is another reader (it never waits: two upgrades would wait for each other);
    /// `not-held`, `lost`, `unsupported` for any kind but a read-write lock or a mutex, `unreachable`, `closed`.
    pub async fn upgrade(&self) -> Result<(), Error> {
        self.convert(Mode::Exclusive).await
    }

    async fn convert(&self, mode: Mode) -> Result<(), Error> {
        match self.ask(Request::Convert { lease: self.id, mode }).await? {
            Outcome::Converted(_) => Ok(()),
            other => Err(unexpected(&other, &self.name)),
        }
    }

    /// Gives this hold back and tells what became of it. A lease that had ended before is no error: one that the manager's `close` gave
    /// back is [`AlreadyExpired`](ReleaseOutcome::AlreadyExpired).
    ///
    /// # Errors
    /// `unreachable` if the server could not be told in time: the lease then ends by its TTL. `auth`, `server`.
    pub async fn release(mut self) -> Result<ReleaseOutcome, Error> {
        self.given_back = true;
        match self.ask(Request::Release { lease: self.id }).await? {
            Outcome::Released(outcome) => Ok(outcome),
            other => Err(unexpected(&other, &self.name)),
        }
    }

    /// Gives the hold back after work that is worth nothing if the lease ended before it did.
    pub(crate) async fn release_or_loss(self) -> Result<(), Error> {
        let (name, loss) = (Arc::clone(&self.name), self.client.shared.loss(self.id));
        let lost = |reason| Error::Lost { name: name.as_ref().to_owned(), reason: loss.unwrap_or(reason) };
        match self.release().await {
            Ok(ReleaseOutcome::AlreadyExpired) => Err(lost(LossReason::Expired)),
            Ok(ReleaseOutcome::NotOwner) => Err(lost(LossReason::Taken)),
            // The lease was valid when the work ended; if the server was not told, it ends by its TTL.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Ends when enough replicas have the lease, as it stands on the server; before that with its loss, or the client's end.
    pub(crate) async fn confirmed(&self, replicas: Replicas) -> Result<(), Error> {
        tokio::select! {
            confirmed = replicas.confirm(&self.client, self.id, &self.name) => confirmed,
            error = self.interrupted() => Err(error),
        }
    }

    fn ask<'a>(&'a self, request: Request<'a>) -> Call<'a> {
        self.client.ask(request, Some(&self.name))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.given_back {
            self.client.shared.give_back(self.id);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("name", &self.name).field("fence", &self.fence()).finish_non_exhaustive()
    }
}

/// A fencing token. An exclusive lease's is greater than that of every lease of the name before it, also after the server
/// lost its data; readers among themselves have no order. It fits in 53 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    pub(crate) const fn new(fence: u64) -> Self {
        Self(fence)
    }

    /// The number, to be stored and compared.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<Fence> for u64 {
    fn from(fence: Fence) -> Self {
        fence.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
