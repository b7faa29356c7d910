//! A lease: a lock that is held for a limited time.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use core::cell::Cell;
use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use leasehold_core::{Error as EngineError, Grant, LeaseId, LossReason, Mode, OpId, Operation, Outcome};

use super::convert;
use crate::bindings::exports::leasehold::lock::locks::{self, Error, ErrorKind, GuestLease, HoldEnd, ReleaseOutcome};
use crate::client::{Client, Shared};
use crate::error;
use crate::limits::{self, Permit};
use crate::time::{millis, sleep};

/// One hold on a lease. Dropping it releases the hold in the background.
pub(crate) struct Lease {
    client: Rc<Client>,
    id: LeaseId,
    name: Rc<str>,
    /// The fence of each name, if the lease holds several.
    fences: Rc<[(String, u64)]>,
    last_grant: Cell<(u64, Mode)>,
    /// The operation that released it, if `release` was called.
    released: Cell<Option<OpId>>,
    /// Whether it was detached, so that it has ended here. A rate's lease is from its grant on.
    detached: Cell<bool>,
    _permit: Permit,
}

impl Lease {
    pub(super) fn new(client: Rc<Client>, name: Rc<str>, fences: Rc<[(String, u64)]>, grant: &Grant) -> Self {
        let last_grant = Cell::new((grant.fence, grant.mode));
        let permit = limits::lease_permit(name.len());
        let (released, detached) = (Cell::new(None), Cell::new(false));
        Self { client, id: grant.lease, name, fences, last_grant, released, detached, _permit: permit }
    }

    /// The permits of a rate count for their window, and no release gives them back.
    pub(super) fn detached(self, detached: bool) -> Self {
        self.detached.set(detached);
        self
    }

    fn is_released(&self) -> bool {
        self.released.get().is_some() || self.detached.get()
    }

    /// The fence and the mode. Once the lease is over, the last ones.
    fn grant(&self) -> (u64, Mode) {
        if !self.is_released()
            && let Some(grant) = self.client.shared.grant(self.id)
        {
            self.last_grant.set(grant);
        }
        self.last_grant.get()
    }

    async fn convert(&self, mode: Mode) -> Result<(), Error> {
        match self.execute(Operation::Convert { lease: self.id, mode }).await? {
            Outcome::Converted(_) => Ok(()),
            _ => Err(error::unexpected_outcome()),
        }
    }

    /// Runs an operation on the lease.
    async fn execute(&self, operation: Operation<'_>) -> Result<Outcome, Error> {
        if self.is_released() {
            return Err(self.error(&EngineError::NotHeld));
        }
        let result = self.client.execute(operation, &self.name).await;
        // The engine doesn't know whether the lease reached its TTL or `max-hold-ms`. The state of the lease does, unless the
        // operation has ended it.
        if let Err(Error { kind: ErrorKind::Lost(_), .. }) = result
            && let Some(reason) = self.client.shared.loss(self.id)
        {
            return Err(self.error(&EngineError::Lost(reason)));
        }
        result
    }

    /// Starts to give the lease back.
    fn end(&self, operation: &Operation<'_>) -> OpId {
        // Remembers the fence and the mode, because the engine forgets them.
        self.grant();
        let op = self.client.shared.start(operation);
        self.released.set(Some(op));
        op
    }

    /// What an operation that gives the lease back has done.
    async fn ended(&self, op: OpId) -> Result<ReleaseOutcome, Error> {
        poll_fn(|context| self.client.shared.poll_completed(op, context)).await;
        self.client.shared.read_result(op, |result| match result {
            Ok(Outcome::Released(outcome)) => Ok(convert::release_outcome(*outcome)),
            Ok(_) => Err(error::unexpected_outcome()),
            Err(error) => Err(self.error(error)),
        })
    }

    fn error(&self, error: &EngineError) -> Error {
        error::from_engine(error, Some(&self.name))
    }
}

impl GuestLease for Lease {
    fn name(&self) -> String {
        self.name.to_string()
    }

    fn mode(&self) -> locks::Mode {
        convert::mode(self.grant().1)
    }

    fn fence(&self) -> u64 {
        self.grant().0
    }

    fn fences(&self) -> Vec<(String, u64)> {
        if self.fences.is_empty() { vec![(self.name(), self.fence())] } else { self.fences.to_vec() }
    }

    fn remaining_ms(&self) -> u64 {
        if self.is_released() { 0 } else { millis(self.client.shared.remaining(self.id)) }
    }

    fn is_held(&self) -> bool {
        !self.is_released() && !self.client.shared.remaining(self.id).is_zero()
    }

    async fn verify(&self) -> Result<bool, Error> {
        match self.execute(Operation::Verify { lease: self.id }).await {
            Ok(Outcome::Verified(held)) => Ok(held),
            Ok(_) => Err(error::unexpected_outcome()),
            Err(Error { kind: ErrorKind::NotHeld | ErrorKind::Lost(_), .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn hold(&self, for_ms: u64) -> Result<HoldEnd, Error> {
        let hold = Hold::new(&self.client.shared, self.id, convert::hold(for_ms)?);
        Ok(hold.end(|| self.is_released()).await)
    }

    async fn extend(&self, ttl_ms: u64) -> Result<(), Error> {
        let ttl = Duration::from_millis(ttl_ms);
        // The engine may extend a lease up to the end that it was given. A hold moves this end.
        let _hold = Hold::new(&self.client.shared, self.id, ttl);
        match self.execute(Operation::Extend { lease: self.id, ttl }).await? {
            Outcome::Extended { .. } => Ok(()),
            _ => Err(error::unexpected_outcome()),
        }
    }

    async fn detach(&self, for_ms: Option<u64>) -> Result<String, Error> {
        let time = for_ms.map(Duration::from_millis);
        // As for an extend: the engine keeps a lease up to the end that it was given.
        let _hold = time.map(|time| Hold::new(&self.client.shared, self.id, time));
        self.grant();
        let mut detaching = pin!(self.execute(Operation::Detach { lease: self.id, time }));
        let result = poll_fn(|context| {
            let result = detaching.as_mut().poll(context);
            // Unless the engine has refused it, the lease has ended, and a `hold` with it.
            self.detached.set(self.client.shared.grant(self.id).is_none());
            result
        });
        match result.await? {
            Outcome::Exported(token) => Ok(token.text()),
            _ => Err(error::unexpected_outcome()),
        }
    }

    async fn downgrade(&self) -> Result<(), Error> {
        self.convert(Mode::Shared).await
    }

    async fn upgrade(&self) -> Result<(), Error> {
        self.convert(Mode::Exclusive).await
    }

    fn nested(&self) -> Result<locks::Lease, Error> {
        if self.is_released() {
            return Err(self.error(&EngineError::NotHeld));
        }
        limits::check_lease(self.name.len())?;
        match self.client.execute_now(&Operation::Hold { lease: self.id }).map_err(|error| self.error(&error))? {
            Outcome::Held(_) => {
                let (client, name, fences) = (Rc::clone(&self.client), Rc::clone(&self.name), Rc::clone(&self.fences));
                let (last_grant, released, detached) = (Cell::new(self.grant()), Cell::new(None), Cell::new(false));
                let _permit = limits::lease_permit(name.len());
                let lease = Self { client, id: self.id, name, fences, last_grant, released, detached, _permit };
                Ok(locks::Lease::new(lease))
            }
            _ => Err(error::unexpected_outcome()),
        }
    }

    fn token(&self) -> Result<String, Error> {
        if self.is_released() {
            return Err(self.error(&EngineError::NotHeld));
        }
        match self.client.execute_now(&Operation::Export { lease: self.id }).map_err(|error| self.error(&error))? {
            Outcome::Exported(token) => Ok(token.text()),
            _ => Err(error::unexpected_outcome()),
        }
    }

    async fn release(&self) -> Result<ReleaseOutcome, Error> {
        if self.detached.get() {
            return Ok(ReleaseOutcome::Detached);
        }
        limits::check_release()?;
        let op = self.released.get().unwrap_or_else(|| self.end(&Operation::Release { lease: self.id }));
        self.ended(op).await
    }

    async fn store(&self, value: String) -> Result<(), Error> {
        limits::check_store(value.len())?;
        if self.is_released() {
            return Err(self.error(&EngineError::NotHeld));
        }
        // The state of the lease ends with its last hold.
        let loss = self.client.shared.loss(self.id);
        let op = self.end(&Operation::Store { lease: self.id, value: value.as_bytes() });
        let otherwise = match self.ended(op).await? {
            ReleaseOutcome::Released => return Ok(()),
            ReleaseOutcome::NotOwner => LossReason::Taken,
            _ => LossReason::Gone,
        };
        Err(self.error(&EngineError::Lost(loss.unwrap_or(otherwise))))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        match self.released.get() {
            Some(op) => self.client.shared.abandon(op),
            None => self.client.shared.release(self.id),
        }
    }
}

/// A running call of `hold`. It keeps the lease for its time, or until it is dropped.
struct Hold<'a> {
    shared: &'a Shared,
    lease: LeaseId,
    time: Duration,
    keeper: u64,
    _permit: Permit,
}

impl<'a> Hold<'a> {
    fn new(shared: &'a Shared, lease: LeaseId, time: Duration) -> Self {
        Self { shared, lease, time, keeper: shared.add_keeper(lease, time), _permit: limits::call_permit(0) }
    }

    /// Waits until the time is over or the lease has ended.
    async fn end(self, is_released: impl Fn() -> bool) -> HoldEnd {
        let mut time = pin!(sleep(self.time));
        poll_fn(|context| {
            if is_released() {
                return Poll::Ready(HoldEnd::Released);
            }
            if let Some(reason) = self.shared.loss(self.lease) {
                return Poll::Ready(HoldEnd::Lost(error::loss(reason)));
            }
            self.shared.watch(self.lease, context);
            time.as_mut().poll(context).map(|()| HoldEnd::Held)
        })
        .await
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.shared.remove_keeper(self.lease, self.keeper);
    }
}
