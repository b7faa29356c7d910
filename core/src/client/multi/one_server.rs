//! The names of one server: one script takes them, if none is in the way.

use alloc::boxed::Box;
use core::time::Duration;

use super::{AcquireAll, Entry, Group, Multi, PartCall, PartLocks};
use crate::client::Client;
use crate::error::Error;
use crate::ids::{Caller, LeaseId, LockId};
use crate::lock::LockState;
use crate::options::{AcquireOptions, Family};
use crate::session::{Context, OpKind};
use crate::time::Instant;
use crate::wire::Name;

impl PartLocks for Client {
    fn cx(&mut self) -> &mut Context {
        &mut self.cx
    }

    fn multi(&mut self) -> &mut Multi {
        &mut self.multi
    }

    fn patience(&self, options: &AcquireOptions) -> Option<Duration> {
        self.cx.patience_of(options)
    }

    fn begin(&mut self, id: LeaseId, mut group: Group) {
        // The script would find a lease that lingers here in its way.
        group.by_script &= !group.wanted.iter().filter_map(|part| self.in_use(&part.name)).any(LockState::is_lingering);
        let by_script = group.by_script;
        self.multi.open.insert(id, Entry::Group(Box::new(group)));
        if by_script { self.at_once(id) } else { self.next(id) }
    }

    fn acquire_part(&mut self, op: Caller, name: &str, options: &AcquireOptions) {
        self.acquire(op, name, options);
    }

    fn call_part(&mut self, op: Caller, part: LeaseId, call: PartCall) {
        match call {
            PartCall::Release => self.release(op, part),
            PartCall::Extend(ttl) => self.extend(op, part, ttl),
            PartCall::Verify => self.verify(op, part),
        }
    }

    /// The callers behind it relied on the script, so they now ask for themselves.
    fn stop_wanting(&mut self, op: Caller) {
        let lock = match self.cx.ops.get(&op).map(|op| &op.kind) {
            Some(OpKind::Acquire { lock, .. }) => *lock,
            _ => return self.cancel(op, Error::Cancelled),
        };
        self.cancel(op, Error::Cancelled);
        self.with(lock, |lock, cx| {
            if lock.claim.as_ref().is_some_and(|claim| claim.timer.is_none()) {
                lock.heartbeat_due(cx);
            }
        });
    }

    fn give_back_part(&mut self, lock: LockId, part: LeaseId) {
        self.left(part, lock, None);
    }

    fn empty_handed(&self, _: &str, whole: Caller, part: Caller) -> Option<Error> {
        match &self.cx.ops.get(&part)?.kind {
            OpKind::Acquire { lock, .. } => Some(self.locks.get(*lock)?.empty_handed(&self.cx, whole)),
            OpKind::Semaphore { key } => self.queued_empty_handed(key, whole),
            _ => None,
        }
    }

    fn keep_part(&mut self, part: LeaseId, until: Instant) {
        self.keep(part, until);
    }

    fn part_ends(&self, part: LeaseId) -> Option<Instant> {
        Some(self.cx.leases.get(&part)?.ends?.at)
    }

    fn valid_until(&self, lease: LeaseId) -> Option<Instant> {
        self.valid_until(lease)
    }
}

impl Client {
    /// The lock of this name, if it is in use.
    pub(super) fn in_use(&self, name: &str) -> Option<&LockState> {
        self.locks.get(self.locks.find(Family::Lock, &Name::key(&self.cx.config.prefix, name))?)
    }
}
