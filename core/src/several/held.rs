//! Calls on a lease of several names. Each call is made to all parts, and its result is the worst of theirs.

use super::{Entry, part};
use crate::error::Error;
use crate::event::{LeaseId, OpId, Outcome, ReleaseOutcome};
use crate::node::Node;
use crate::op::OpKind;
use crate::time::Instant;

/// A user's call that is made to all parts.
pub(crate) struct Fan {
    pub(super) op: OpId,
    pub(super) left: usize,
    pub(super) result: Result<Outcome, Error>,
}

impl Node {
    pub(crate) fn release_all(&mut self, op: OpId, lease: LeaseId) {
        let Some(group) = self.several.held(lease) else {
            return self.cx.answer(op, Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired)));
        };
        if group.holds > 1 {
            group.holds = group.holds.saturating_sub(1);
            return self.cx.answer(op, Ok(Outcome::Released(ReleaseOutcome::StillHeld)));
        }
        let parts = self.parts(lease);
        self.several.remove(lease);
        self.fan_out(op, Outcome::Released(ReleaseOutcome::Released), parts, Self::release);
    }

    /// Extends or verifies all parts.
    pub(crate) fn call_all(&mut self, op: OpId, lease: LeaseId, kind: &OpKind) {
        let Some(group) = self.several.held(lease) else { return self.cx.answer(op, Err(Error::NotHeld)) };
        let fixed = !group.options.renew;
        let parts = self.parts(lease);
        let OpKind::Extend { ttl, .. } = *kind else {
            return self.fan_out(op, Outcome::Verified(true), parts, Self::verify);
        };
        let until = self.cx.now + ttl;
        let end = Outcome::Extended { valid_until: Instant::from_micros(u64::MAX) };
        self.fan_out(op, end, parts, |node, op, part| {
            // The end of a fixed lease moves, and its parts may be renewed up to it.
            let ends = node.cx.leases.get(&part).and_then(|lease| lease.ends).filter(|_| fixed);
            if let Some(ends) = ends {
                node.keep(part, ends.at.max(until));
            }
            node.extend(op, part, ttl);
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
        self.several.insert(number, Entry::Fan(Fan { op, left, result: Ok(best) }));
    }

    pub(crate) fn hold_all(&mut self, op: OpId, lease: LeaseId) {
        let held = self.several.held(lease).map(|group| {
            group.holds = group.holds.saturating_add(1);
            Outcome::Held(group.holds)
        });
        self.cx.answer(op, held.ok_or(Error::NotHeld));
    }

    pub(crate) fn convert_all(&mut self, op: OpId, lease: LeaseId) {
        let error = match self.several.held(lease) {
            Some(_) => Error::Unsupported("several names are held as exclusive locks".into()),
            None => Error::NotHeld,
        };
        self.cx.answer(op, Err(error));
    }

    pub(crate) fn keep_all(&mut self, lease: LeaseId, until: Instant) {
        if self.several.held(lease).is_some_and(|group| group.options.renew) {
            self.parts(lease).for_each(|part| self.keep(LeaseId(part), until));
        }
    }

    pub(crate) fn all_valid_until(&self, lease: LeaseId) -> Option<Instant> {
        self.parts(lease).filter_map(|part| self.valid_until(LeaseId(part))).min()
    }
}

impl Fan {
    /// Keeps the worst result. For a verify, that is `Verified(false)`.
    pub(super) fn take_in(&mut self, result: Result<Outcome, Error>) {
        match (&mut self.result, result) {
            (worst, Ok(Outcome::Verified(false))) => *worst = Ok(Outcome::Verified(false)),
            (Ok(Outcome::Released(worst)), Ok(Outcome::Released(outcome))) => *worst = outcome.max(*worst),
            (Ok(Outcome::Extended { valid_until: first }), Ok(Outcome::Extended { valid_until })) => {
                *first = valid_until.min(*first);
            }
            (Ok(Outcome::Verified(false)) | Err(_), _) | (_, Ok(_)) => {}
            (worst, error) => *worst = error,
        }
    }
}
