//! A lease that a majority holds: renewing, losing and releasing it.

use alloc::vec::Vec;

use super::Quorum;
use super::lock::{MemberState, Place, QuorumLock, Stage};
use super::members::{CallKind, Members, Task};
use crate::client::{AcquireAll, HoldAll, PartCall};
use crate::error::{Error, LossReason};
use crate::event::Input;
use crate::ids::{Caller, LeaseId, LockId};
use crate::options::check_ttl;
use crate::session::{Context, Leased};
use crate::time::{Duration, Instant};

impl Quorum {
    pub(crate) fn release(&mut self, op: Caller, id: LeaseId) {
        let lock = match self.cx.unnest(op, id) {
            None => return,
            Some(Leased::Lock(lock)) => lock,
            Some(Leased::Parts(parts)) => return self.scatter(op, &parts, PartCall::Release),
        };
        self.with(lock, |lock, cx, members| {
            lock.scatter(cx, op);
            let kind = CallKind::Release(lock.count(MemberState::may_grant));
            lock.end_turn(cx, members, Some(Task::Part(op, kind)));
        });
    }

    pub(super) fn extend(&mut self, op: Caller, id: LeaseId, ttl: Duration) {
        match check_ttl(ttl) {
            Err(error) => self.cx.answer(op, Err(error)),
            Ok(()) if self.parts(id).is_some() => self.call_all(op, id, PartCall::Extend(ttl)),
            Ok(()) => self.lease_call(op, id, CallKind::Extend(id, ttl)),
        }
    }

    pub(super) fn verify(&mut self, op: Caller, id: LeaseId) {
        if self.parts(id).is_some() {
            return self.call_all(op, id, PartCall::Verify);
        }
        self.lease_call(op, id, CallKind::Verify(id));
    }

    /// Asks the servers where we hold the lock whether it is still there, or asks them to extend the lease.
    fn lease_call(&mut self, op: Caller, id: LeaseId, kind: CallKind) {
        let Some(lease) = self.cx.leases.get_mut(&id) else { return self.cx.answer(op, Err(Error::NotHeld)) };
        lease.pending.push(op);
        let Some(lock) = lease.lock() else { return };
        self.with(lock, |lock, cx, members| {
            cx.scatter(op, lock.states.iter().map(|_| false));
            lock.calls.push((op, kind));
            lock.call_servers(cx, members);
        });
    }

    pub(super) fn keep(&mut self, id: LeaseId, until: Instant) {
        let Some(lease) = self.cx.leases.get(&id).filter(|lease| lease.renew) else { return };
        let lock = match &lease.of {
            Leased::Lock(lock) => *lock,
            Leased::Parts(parts) => return parts.clone().into_iter().for_each(|part| self.keep(part, until)),
        };
        self.with(lock, |lock, cx, members| lock.keep(cx, members, until));
    }

    pub(super) fn stop_renewing(&mut self, id: LeaseId) {
        let Some(lease) = self.cx.leases.get_mut(&id).filter(|lease| lease.renew) else { return };
        lease.renew = false;
        let lock = match &lease.of {
            Leased::Lock(lock) => *lock,
            Leased::Parts(parts) => return parts.clone().into_iter().for_each(|part| self.stop_renewing(part)),
        };
        self.with(lock, |lock, cx, members| {
            // The servers that the lease lacks are asked no more, because they would keep it alive.
            lock.clear_timer(cx);
            for (at, lease) in lock.ours() {
                members.tell(at, cx.now, Input::StopRenewing { lease });
            }
        });
    }

    /// Ends the waits, and lets the holders give their leases back. The servers' machines learn of it at the close.
    pub(super) fn drain(&mut self, op: Caller, grace: Duration) {
        if self.cx.begin_drain(op, grace) {
            self.end_calls();
            self.cx.end_drain();
        }
    }

    /// Closes the client: ends the waits and releases the leases.
    pub(super) fn close(&mut self, op: Caller) {
        self.cx.begin_close();
        self.end_calls();
        self.close_all();
        self.cx.end_drain();
        self.ask_all(op, CallKind::Close, |op| Input::Close { op });
    }

    /// Ends the waits. If the client is closed, also releases the leases.
    fn end_calls(&mut self) {
        let ids: Vec<LockId> = self.locks.iter().map(|lock| lock.id).collect();
        for id in ids {
            self.with(id, |lock, cx, members| {
                while let Some((op, _)) = lock.queue.head() {
                    lock.end_caller(cx, op, Error::Closed);
                }
                if !cx.closed {
                    return lock.settle(cx, members);
                }
                if let Stage::Held(lease, _) = lock.stage {
                    cx.end_lease(lease, &Error::Closed);
                }
                lock.give_back(cx, members, None, Place::Left);
            });
        }
    }
}

impl QuorumLock {
    /// Sends each call that has not ended to the servers that have not got it. At first, these are the servers where we
    /// hold the lock. Later, these are the servers that grant it within two response timeouts after the call began. They
    /// can take the place of a server of the majority that has died meanwhile. A server gets two response timeouts to
    /// answer, so a call ends after four.
    pub(super) fn call_servers(&mut self, cx: &mut Context, members: &mut Members) {
        let since = cx.now - cx.patience().saturating_mul(2);
        self.calls.retain(|(op, _)| cx.ops.get(op).is_some_and(|op| op.since >= since));
        for (call, kind) in &self.calls {
            for (at, state) in (0..).zip(&self.states) {
                // A server that may not count yet can't be one of the majority that extends the lease.
                let lease = if let CallKind::Verify(_) = kind { state.ours() } else { state.agreed() };
                if let Some(lease) = lease.filter(|_| cx.reopens(*call, at)) {
                    members.call(at, cx.now, Some(Task::Part(*call, *kind)), |op| match *kind {
                        CallKind::Extend(_, ttl) => Input::Extend { op, lease, ttl: ttl.into() },
                        _ => Input::Verify { op, lease },
                    });
                }
            }
        }
    }

    /// Every server's machine renews until then and no longer.
    pub(super) fn keep(&mut self, cx: &Context, members: &mut Members, until: Instant) {
        self.until = Some(until);
        for (at, lease) in self.ours() {
            members.tell(at, cx.now, Input::Keep { lease, until });
        }
    }

    /// The lease on one server has ended. Without a majority, the whole lease is lost. It also is if an operator has taken
    /// it, because only the first server says so.
    pub(super) fn lost(&mut self, cx: &mut Context, members: &mut Members, at: u16, reason: LossReason) {
        let Some(state) = self.states.get_mut(usize::from(at)) else { return };
        *state = MemberState::Denied(Error::Lost(reason));
        if let Stage::Held(lease, _) = self.stage
            && (self.agreed() < members.majority() || reason == LossReason::Revoked)
        {
            cx.lose_lease(lease, reason);
            self.turns_since = None;
            self.give_back(cx, members, None, Place::Left);
            self.settle(cx, members);
        }
    }
}
