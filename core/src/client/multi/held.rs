//! Calls on a lease of several names. Each call is made to all parts, and its result is the worst of theirs.

use alloc::vec::Vec;
use core::mem;

use crate::client::Client;
use crate::error::{Error, LossReason};
use crate::event::Outcome;
use crate::ids::{Caller, LeaseId};
use crate::session::{Leased, OpKind, PartEvent};

impl Client {
    /// Makes a user's call to all parts of its lease.
    pub(crate) fn scatter(&mut self, op: Caller, parts: &[LeaseId], call: impl Fn(&mut Self, Caller, LeaseId)) {
        // A part has no parts itself.
        let Caller::User(user) = op else { return };
        self.cx.scatter(op, parts.iter().map(|_| true));
        for (index, part) in (0..).zip(parts) {
            call(self, Caller::PartOfCall(user, index), *part);
        }
    }

    /// Extends or verifies all parts.
    pub(crate) fn call_all(&mut self, op: Caller, lease: LeaseId, kind: &OpKind) {
        let Some((parts, renew)) = self.parts(lease) else { return };
        let OpKind::Extend { ttl, .. } = *kind else { return self.scatter(op, &parts, Self::verify) };
        let until = self.cx.now + ttl;
        self.scatter(op, &parts, |client, op, part| {
            // The end of a fixed lease moves, and its parts may be renewed up to it.
            let ends = client.cx.leases.get(&part).and_then(|lease| lease.ends).filter(|_| !renew);
            if let Some(ends) = ends {
                client.keep(part, ends.at.max(until));
            }
            client.extend(op, part, ttl);
        });
    }

    /// The leases that a lease consists of, and whether it is renewed.
    fn parts(&self, lease: LeaseId) -> Option<(Vec<LeaseId>, bool)> {
        let lease = self.cx.leases.get(&lease)?;
        if let Leased::Parts(parts) = &lease.of { Some((parts.clone(), lease.renew)) } else { None }
    }

    /// Processes what happened to parts.
    pub(crate) fn gather(&mut self) {
        while let Some((part, event)) = self.cx.parts.pop_front() {
            self.take_in_part(part, event);
        }
    }

    #[inline(never)]
    fn take_in_part(&mut self, part: Caller, event: PartEvent) {
        match (part, event) {
            (Caller::PartOfCall(op, index), PartEvent::Ended(result)) => {
                let op = Caller::User(op);
                let gather = self.cx.gather(op, index, result).filter(|gather| gather.open() == 0);
                let parts = gather.map(|gather| mem::take(&mut gather.0));
                if let Some(worst) = parts.and_then(|parts| parts.into_iter().flatten().reduce(worst)) {
                    self.cx.complete(op, worst);
                }
            }
            (Caller::PartOfLease(lease, index), PartEvent::Ended(result)) => self.part_ended(lease, index, result),
            (Caller::PartOfLease(lease, index), PartEvent::Lost(reason)) => self.part_lost(lease, index, reason),
            _ => {}
        }
    }

    fn part_lost(&mut self, id: LeaseId, index: u16, reason: LossReason) {
        if self.multi.groups.contains_key(&id) {
            return self.lost_before_held(id, index, reason);
        }
        let Some((parts, renew)) = self.parts(id) else { return };
        let reason = match reason {
            LossReason::MaxHold if !renew => LossReason::Expired,
            reason => reason,
        };
        self.cx.lose_lease(id, reason);
        parts.into_iter().for_each(|part| self.give_back(part, &Error::Lost(reason)));
    }

    /// Gives back the lease of a part. Calls that wait for it end with `error`.
    pub(super) fn give_back(&mut self, part: LeaseId, error: &Error) {
        let Some(lock) = self.cx.end_lease(part, error).and_then(|lease| lease.lock()) else { return };
        self.with(lock, |lock, cx| {
            lock.leave(part);
            lock.settle(cx, None);
        });
    }
}

/// The worse of two results. For a verify, that is `Verified(false)`.
fn worst(one: Result<Outcome, Error>, other: Result<Outcome, Error>) -> Result<Outcome, Error> {
    match (one, other) {
        (no @ Ok(Outcome::Verified(false)), _) | (_, no @ Ok(Outcome::Verified(false))) => no,
        (Err(error), _) | (_, Err(error)) => Err(error),
        (Ok(Outcome::Released(one)), Ok(Outcome::Released(other))) => Ok(Outcome::Released(one.max(other))),
        (Ok(Outcome::Extended { valid_until: one }), Ok(Outcome::Extended { valid_until: other })) => {
            Ok(Outcome::Extended { valid_until: one.min(other) })
        }
        (one, _) => one,
    }
}
