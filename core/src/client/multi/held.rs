//! Calls on a lease of several names. Each call is made to all parts, and its result is the worst of theirs.

use alloc::vec::Vec;
use core::mem;

use super::{AcquireAll, Entry, PartCall, PartLocks};
use crate::error::{Error, LossReason};
use crate::event::Outcome;
use crate::ids::{Caller, LeaseId, PartId};
use crate::session::{Gather, Leased, PartEvent};

pub(crate) trait HoldAll: PartLocks {
    /// Makes a user's call to all parts of its lease.
    fn scatter(&mut self, op: Caller, parts: &[LeaseId], call: PartCall) {
        self.cx().scatter(op, parts.iter().map(|_| true));
        let number = self.cx().new_lease();
        self.multi().open.insert(number, Entry::OnParts(op));
        for (index, part) in (0..).zip(parts) {
            self.call_part(Caller::Part(PartId::new(number, index)), *part, call);
        }
    }

    /// Extends or verifies all parts.
    fn call_all(&mut self, op: Caller, lease: LeaseId, call: PartCall) {
        let Some((parts, renew)) = self.parts(lease) else { return };
        if let PartCall::Extend(ttl) = call
            && !renew
        {
            // The end of a fixed lease moves, and its parts may be renewed up to it.
            let until = self.cx().now + ttl;
            for part in &parts {
                if let Some(ends) = self.part_ends(*part) {
                    self.keep_part(*part, ends.max(until));
                }
            }
        }
        self.scatter(op, &parts, call);
    }

    /// The leases that a lease consists of, and whether it is renewed.
    fn parts(&mut self, lease: LeaseId) -> Option<(Vec<LeaseId>, bool)> {
        let lease = self.cx().leases.get(&lease)?;
        if let Leased::Parts(parts) = &lease.of { Some((parts.to_vec(), lease.renew)) } else { None }
    }

    /// Processes what happened to parts.
    fn gather(&mut self) {
        while !self.cx().parts.is_empty() {
            self.take_in_parts();
        }
    }

    #[inline(never)]
    fn take_in_parts(&mut self) {
        for (part, event) in mem::take(&mut self.cx().parts) {
            match event {
                PartEvent::Ended(result) => match self.multi().open.get(&part.whole()) {
                    Some(&Entry::OnParts(op)) => self.part_answered(op, part, result),
                    _ => self.part_acquired(part, result),
                },
                PartEvent::Lost(reason) => self.part_lost(part, reason),
            }
        }
    }

    /// A part of a user's call has ended. The worst result is that of the whole call.
    fn part_answered(&mut self, op: Caller, part: PartId, result: Result<Outcome, Error>) {
        let gather = self.cx().gather(op, part.index(), result).filter(|gather| gather.open() == 0);
        let Some(Gather(parts)) = gather.map(mem::take) else { return };
        self.multi().open.remove(&part.whole());
        if let Some(worst) = parts.into_iter().flatten().min_by_key(goodness) {
            self.cx().complete(op, worst);
        }
    }

    /// A lease of several names is lost with the first part.
    fn part_lost(&mut self, part: PartId, reason: LossReason) {
        let id = part.whole();
        let Some((parts, renew)) = self.parts(id) else { return self.lost_before_held(part, reason) };
        let reason = match reason {
            LossReason::MaxHold if !renew => LossReason::Expired,
            reason => reason,
        };
        self.cx().lose_lease(id, reason);
        parts.into_iter().for_each(|part| self.give_back(part, &Error::Lost(reason)));
    }

    /// Gives back the lease of a part. Calls that wait for it end with `error`.
    fn give_back(&mut self, part: LeaseId, error: &Error) {
        let Some(lock) = self.cx().end_lease(part, error).and_then(|lease| lease.lock()) else { return };
        self.give_back_part(lock, part);
    }
}

impl<T: PartLocks> HoldAll for T {}

/// The order of the results of one call.
fn goodness(result: &Result<Outcome, Error>) -> u64 {
    match result {
        Ok(Outcome::Verified(false)) => 0,
        Err(_) => 1,
        Ok(Outcome::Extended { valid_until }) => valid_until.as_micros().saturating_add(2),
        Ok(Outcome::Released(outcome)) => u64::MAX - *outcome as u64,
        Ok(_) => u64::MAX,
    }
}
