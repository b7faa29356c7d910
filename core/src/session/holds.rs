//! The holds on a lease: its holder can take further ones, and gives each back.

use super::Context;
use super::lease::{Lease, Leased};
use crate::error::{Error, LossReason};
use crate::event::{LeaseInfo, Outcome, ReleaseOutcome};
use crate::ids::{Caller, LeaseId};

impl Context {
    /// Adds a hold to a lease.
    pub(crate) fn nest(&mut self, op: Caller, id: LeaseId) {
        let held = self.leases.get_mut(&id).map(|lease| {
            lease.holds = lease.holds.saturating_add(1);
            Outcome::Held(lease.holds)
        });
        self.answer(op, held.ok_or(Error::NotHeld));
    }

    /// The state of a lease that has holds which are not released yet.
    pub(crate) fn lease(&self, id: LeaseId) -> Option<LeaseInfo> {
        self.leases.get(&id).or_else(|| self.lost.get(&id)).map(Lease::info)
    }

    /// Takes a hold away from a lease. Returns what it was of if it was the last hold: then the call goes on.
    pub(crate) fn unnest(&mut self, op: Caller, id: LeaseId) -> Option<Leased> {
        let outcome = match self.leases.get_mut(&id) {
            None => self.unnest_lost(id),
            Some(lease) if lease.holds > 1 => {
                lease.holds = lease.holds.saturating_sub(1);
                ReleaseOutcome::StillHeld
            }
            Some(_) => return self.end_lease(id, &Error::NotHeld).map(|lease| lease.of),
        };
        self.answer(op, Ok(Outcome::Released(outcome)));
        None
    }

    /// Forgets a lease that was lost and will not be released.
    #[cfg(feature = "quorum")]
    pub(crate) fn forget_loss(&mut self, id: LeaseId) {
        self.lost.remove(&id);
    }

    /// Takes a hold away from a lease that has ended. The last one removes what is known of it.
    fn unnest_lost(&mut self, id: LeaseId) -> ReleaseOutcome {
        let Some(lease) = self.lost.get_mut(&id) else { return ReleaseOutcome::AlreadyExpired };
        lease.holds = lease.holds.saturating_sub(1);
        let (holds, lost) = (lease.holds, lease.lost);
        if holds == 0 {
            self.lost.remove(&id);
        }
        if lost == Some(LossReason::Taken) { ReleaseOutcome::NotOwner } else { ReleaseOutcome::AlreadyExpired }
    }
}
