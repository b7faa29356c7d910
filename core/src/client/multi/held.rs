//! Calls on a lease of several names. Each call is made to all parts, and its result is the worst of theirs.

use super::{Entry, Fan, part};
use crate::client::Client;
use crate::error::Error;
use crate::event::{Outcome, ReleaseOutcome};
use crate::ids::{LeaseId, OpId};
use crate::session::OpKind;
use crate::time::Instant;

impl Client {
    pub(crate) fn release_all(&mut self, op: OpId, lease: LeaseId) {
        let Some(group) = self.multi.held(lease) else {
            return self.cx.release_ended(op, lease);
        };
        if group.holds > 1 {
            group.holds = group.holds.saturating_sub(1);
            return self.cx.answer(op, Ok(Outcome::Released(ReleaseOutcome::StillHeld)));
        }
        let parts = self.parts(lease);
        self.multi.remove(lease);
        self.fan_out(op, Outcome::Released(ReleaseOutcome::Released), parts, Self::release);
    }

    /// Extends or verifies all parts.
    pub(crate) fn call_all(&mut self, op: OpId, lease: LeaseId, kind: &OpKind) {
        let Some(group) = self.multi.held(lease) else { return self.cx.answer(op, Err(Error::NotHeld)) };
        let fixed = !group.options.renew;
        let parts = self.parts(lease);
        let OpKind::Extend { ttl, .. } = *kind else {
            return self.fan_out(op, Outcome::Verified(true), parts, Self::verify);
        };
        let until = self.cx.now + ttl;
        let end = Outcome::Extended { valid_until: Instant::from_micros(u64::MAX) };
        self.fan_out(op, end, parts, |client, op, part| {
            // The end of a fixed lease moves, and its parts may be renewed up to it.
            let ends = client.cx.leases.get(&part).and_then(|lease| lease.ends).filter(|_| fixed);
            if let Some(ends) = ends {
                client.keep(part, ends.at.max(until));
            }
            client.extend(op, part, ttl);
        });
    }

    fn fan_out(
        &mut self,
        op: OpId,
        best: Outcome,
        parts: impl Iterator<Item = u64>,
        call: impl Fn(&mut Self, OpId, LeaseId),
    ) {
        let number = self.cx.new_lease();
        let mut left = 0;
        for lease in parts {
            call(self, OpId(part(number, left)), LeaseId(lease));
            left = left.saturating_add(1);
        }
        // The results are gathered later.
        self.multi.insert(number, Entry::Fan(Fan { op, left, result: Ok(best) }));
    }

    pub(crate) fn nest_all(&mut self, op: OpId, lease: LeaseId) {
        let held = self.multi.held(lease).map(|group| {
            group.holds = group.holds.saturating_add(1);
            Outcome::Held(group.holds)
        });
        self.cx.answer(op, held.ok_or(Error::NotHeld));
    }

    pub(crate) fn convert_all(&mut self, op: OpId, lease: LeaseId) {
        let error = match self.multi.held(lease) {
            Some(_) => Error::Unsupported("several names are held as exclusive locks".into()),
            None => Error::NotHeld,
        };
        self.cx.answer(op, Err(error));
    }

    pub(crate) fn keep_all(&mut self, lease: LeaseId, until: Instant) {
        if self.multi.held(lease).is_some_and(|group| group.options.renew) {
            self.parts(lease).for_each(|part| self.keep(LeaseId(part), until));
        }
    }

    pub(crate) fn all_valid_until(&self, lease: LeaseId) -> Option<Instant> {
        self.parts(lease).filter_map(|part| self.valid_until(LeaseId(part))).min()
    }
}
