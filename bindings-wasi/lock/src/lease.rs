//! The lease that a holder has.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use core::cell::Cell;
use core::future::poll_fn;
use core::time::Duration;

use leasehold_core::{Error as EngineError, Grant, LeaseId, LossReason, Mode, OpId, Outcome, ReleaseOutcome};

use crate::bindings::exports::leasehold::lock::locks::{self, Error, ErrorKind, GuestLease, HoldEnd};
use crate::call::Request;
use crate::client::Client;
use crate::hold::Hold;
use crate::limits::{self, Taken};
use crate::{error, inspection, options};

/// One hold on a lease. Dropping it gives the hold back in the background.
pub(crate) struct Lease {
    client: Rc<Client>,
    id: LeaseId,
    name: Rc<str>,
    /// For several names: the names with their fences.
    parts: Rc<[(String, u64)]>,
    granted: Cell<(u64, Mode)>,
    /// The call that released it, if it was released explicitly.
    released: Cell<Option<OpId>>,
    _counted: Taken,
}

impl Lease {
    pub(crate) fn new(client: Rc<Client>, name: Rc<str>, parts: Rc<[(String, u64)]>, grant: &Grant) -> Self {
        let granted = Cell::new((grant.fence, grant.mode));
        let counted = limits::lease(name.len());
        Self { client, id: grant.lease, name, parts, granted, released: Cell::new(None), _counted: counted }
    }

    fn is_released(&self) -> bool {
        self.released.get().is_some()
    }

    /// The fence and the mode. Once the lease is over, the last ones.
    fn grant(&self) -> (u64, Mode) {
        if !self.is_released()
            && let Some(present) = self.client.shared.grant(self.id)
        {
            self.granted.set(present);
        }
        self.granted.get()
    }

    async fn convert(&self, mode: Mode) -> Result<(), Error> {
        match self.ask(Request::Convert { lease: self.id, mode }).await? {
            Outcome::Converted(_) => Ok(()),
            _ => Err(error::unexpected()),
        }
    }

    /// Sends the engine a request about the lease.
    async fn ask(&self, request: Request<'_>) -> Result<Outcome, Error> {
        if self.is_released() {
            return Err(self.error(&EngineError::NotHeld));
        }
        let result = self.client.ask(request, &self.name).await;
        // If the lease reached its own end, its record has the right reason.
        match result {
            Err(Error { kind: ErrorKind::Lost(_), .. }) => {
                Err(self.error(&EngineError::Lost(self.client.shared.loss(self.id).unwrap_or(LossReason::Expired))))
            }
            result => result,
        }
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
        inspection::mode(self.grant().1)
    }

    fn fence(&self) -> u64 {
        self.grant().0
    }

    fn fences(&self) -> Vec<(String, u64)> {
        if self.parts.is_empty() { vec![(self.name(), self.fence())] } else { self.parts.to_vec() }
    }

    fn remaining_ms(&self) -> u64 {
        if self.is_released() { 0 } else { error::ms(self.client.shared.remaining(self.id)) }
    }

    fn is_held(&self) -> bool {
        !self.is_released() && !self.client.shared.remaining(self.id).is_zero()
    }

    async fn verify(&self) -> Result<bool, Error> {
        match self.ask(Request::Verify { lease: self.id }).await {
            Ok(Outcome::Verified(held)) => Ok(held),
            Ok(_) => Err(error::unexpected()),
            Err(Error { kind: ErrorKind::NotHeld | ErrorKind::Lost(_), .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn hold(&self, for_ms: u64) -> Result<HoldEnd, Error> {
        let hold = Hold::new(&self.client.shared, self.id, options::hold(for_ms)?);
        Ok(hold.end(|| self.is_released()).await)
    }

    async fn extend(&self, ttl_ms: u64) -> Result<(), Error> {
        let ttl = Duration::from_millis(ttl_ms);
        // The lease's end moves along. The TTL that the server has then stays.
        let _hold = Hold::new(&self.client.shared, self.id, ttl);
        match self.ask(Request::Extend { lease: self.id, ttl }).await? {
            Outcome::Extended { .. } => Ok(()),
            _ => Err(error::unexpected()),
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
        limits::may_have_a_lease(self.name.len())?;
        match self.client.ask_now(&Request::Hold { lease: self.id }).map_err(|error| self.error(&error))? {
            Outcome::Held(_) => {
                let (client, name, parts) = (Rc::clone(&self.client), Rc::clone(&self.name), Rc::clone(&self.parts));
                let (granted, released) = (Cell::new(self.grant()), Cell::new(None));
                let _counted = limits::lease(name.len());
                Ok(locks::Lease::new(Self { client, id: self.id, name, parts, granted, released, _counted }))
            }
            _ => Err(error::unexpected()),
        }
    }

    async fn release(&self) -> Result<locks::ReleaseOutcome, Error> {
        limits::may_release()?;
        let op = match self.released.get() {
            Some(op) => op,
            None => {
                // From now on, the last fence and mode are reported.
                self.grant();
                let op = self.client.shared.begin(&Request::Release { lease: self.id });
                self.released.set(Some(op));
                op
            }
        };
        poll_fn(|context| self.client.shared.has_ended(op, context)).await;
        self.client.shared.look(op, |result| match result {
            Ok(Outcome::Released(outcome)) => Ok(outcome_of(*outcome)),
            Ok(_) => Err(error::unexpected()),
            Err(error) => Err(self.error(error)),
        })
    }
}

fn outcome_of(outcome: ReleaseOutcome) -> locks::ReleaseOutcome {
    match outcome {
        ReleaseOutcome::Released => locks::ReleaseOutcome::Released,
        ReleaseOutcome::StillHeld => locks::ReleaseOutcome::StillHeld,
        ReleaseOutcome::NotOwner => locks::ReleaseOutcome::NotOwner,
        // `AlreadyExpired`. The enum may grow, so a match from outside its crate needs a last arm.
        _ => locks::ReleaseOutcome::AlreadyExpired,
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
