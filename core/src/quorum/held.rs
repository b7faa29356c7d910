//! A lease that a majority holds: renewing, losing and releasing it.

use core::mem;
use core::time::Duration;

use super::Quorum;
use super::lock::{MemberState, QuorumLock, Raise, Stage};
use super::members::{Members, Task};
use crate::error::{Error, LossReason};
use crate::event::{Input, Outcome, ReleaseOutcome};
use crate::ids::{LeaseId, OpId};
use crate::options::check_ttl;
use crate::session::{Context, Tally, TallyKind};
use crate::time::Instant;

impl Quorum {
    pub(crate) fn release(&mut self, op: OpId, id: LeaseId) {
        let Some(lease) = self.cx.leases.get_mut(&id) else {
            return self.cx.release_ended(op, id);
        };
        if lease.holds > 1 {
            lease.holds = lease.holds.saturating_sub(1);
            return self.cx.answer(op, Ok(Outcome::Released(ReleaseOutcome::StillHeld)));
        }
        let lock = lease.lock;
        self.cx.end_lease(id, &Error::NotHeld);
        let mut tally = Tally::new(TallyKind::Release, self.members.list.len());
        self.with(lock, |lock, cx, members| {
            for (at, state) in lock.states.iter().enumerate() {
                if matches!(state, MemberState::Ours { .. }) {
                    tally.asks(at);
                }
            }
            cx.open_tally(op, tally);
            lock.give_back(cx, members, Some(op));
            lock.next_turn(cx, members);
        });
    }

    pub(crate) fn extend(&mut self, op: OpId, id: LeaseId, ttl: Duration) {
        match check_ttl(ttl) {
            Err(error) => self.cx.answer(op, Err(error)),
            Ok(()) => self.lease_call(op, id, TallyKind::Extend(id), Some(ttl)),
        }
    }

    pub(crate) fn verify(&mut self, op: OpId, id: LeaseId) {
        self.lease_call(op, id, TallyKind::Verify(id), None);
    }

    /// Asks every server where we hold the lock: to extend the lease, or whether it is still there.
    fn lease_call(&mut self, op: OpId, id: LeaseId, kind: TallyKind, ttl: Option<Duration>) {
        let Some(lease) = self.cx.leases.get_mut(&id) else { return self.cx.answer(op, Err(Error::NotHeld)) };
        lease.pending.push(op);
        let lock = lease.lock;
        let mut tally = Tally::new(kind, self.members.list.len());
        self.with(lock, |lock, cx, members| {
            for (at, state) in lock.states.iter().enumerate() {
                if matches!(state, MemberState::Ours { .. }) {
                    tally.asks(at);
                }
            }
            cx.open_tally(op, tally);
            for (at, state) in (0..).zip(&lock.states) {
                let MemberState::Ours { lease, .. } = *state else { continue };
                let op = members.new_op(Some(Task::Part(op)));
                let input = match ttl {
                    Some(ttl) => Input::Extend { op, lease, ttl },
                    None => Input::Verify { op, lease },
                };
                members.tell(at, cx.now, input);
            }
        });
    }

    pub(crate) fn nest(&mut self, op: OpId, id: LeaseId) {
        let Some(lease) = self.cx.leases.get_mut(&id) else { return self.cx.answer(op, Err(Error::NotHeld)) };
        lease.holds = lease.holds.saturating_add(1);
        let held = Outcome::Held(lease.holds);
        self.cx.answer(op, Ok(held));
    }

    pub(crate) fn keep(&mut self, id: LeaseId, until: Instant) {
        let Some(lease) = self.cx.leases.get(&id).filter(|lease| lease.renew) else { return };
        self.with(lease.lock, |lock, cx, members| lock.keep(cx, members, until));
    }

    /// Closes the client: ends the waits and releases the leases.
    pub(crate) fn close(&mut self, op: OpId) {
        self.cx.closed = true;
        for id in (0..self.locks.len()).filter_map(|id| u32::try_from(id).ok()) {
            self.with(crate::ids::LockId(id), |lock, cx, members| {
                while let Some((op, _)) = lock.queue.head() {
                    lock.end_caller(cx, op, Error::Closed);
                }
                if let Stage::Held(lease, _) = lock.stage {
                    cx.end_lease(lease, &Error::Closed);
                }
                lock.give_back(cx, members, None);
            });
        }
        self.ask_all(op, TallyKind::Close, |op| Input::Close { op });
    }
}

impl QuorumLock {
    /// Every server's machine renews until then and no longer.
    pub(crate) fn keep(&mut self, cx: &Context, members: &mut Members, until: Instant) {
        self.until = Some(until);
        for (at, state) in (0..).zip(&self.states) {
            if let MemberState::Ours { lease, .. } = *state {
                members.tell(at, cx.now, Input::Keep { lease, until });
            }
        }
    }

    /// The lease on one server has ended. Without a majority, the whole lease is lost.
    pub(crate) fn lost(&mut self, cx: &mut Context, members: &mut Members, at: u16, reason: LossReason) {
        let Some(state) = self.states.get_mut(usize::from(at)) else { return };
        let was = mem::replace(state, MemberState::Denied(Error::Lost(reason)));
        if let MemberState::Ours { raise: Raise::Asked(op, _), .. } = was {
            members.tasks.remove(&op);
        }
        if let Stage::Held(lease, _) = self.stage
            && self.agreed() < members.majority()
        {
            cx.lose_lease(lease, reason);
            self.turns_since = None;
            self.give_back(cx, members, None);
            self.settle(cx, members);
        }
    }
}
