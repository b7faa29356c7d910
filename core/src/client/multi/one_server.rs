//! The names of one server: one script takes them, if none is in the way.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{AcquireAll, Entry, Group, Multi, PartCall, PartLocks};
use crate::client::Client;
use crate::error::Error;
use crate::event::Grant;
use crate::ids::{Caller, LeaseId, LockId, PartId};
use crate::lock::{Claim, LockState};
use crate::options::{AcquireOptions, Family, Kind, Wait};
use crate::session::{Context, OpKind};
use crate::time::{Duration, Instant};
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

    fn begin(&mut self, id: LeaseId, group: Group) {
        let (by_script, full) = (group.by_script, group.full);
        self.multi.open.insert(id, Entry::Group(Box::new(group)));
        match full.filter(|_| by_script) {
            Some(full) => self.acquire_at(id, full),
            None if by_script => self.at_once(id),
            None => self.next(id),
        }
    }

    /// Local callers come first. What this client can give, it gives before the script, so that no round is in vain.
    fn at_once(&mut self, id: LeaseId) {
        let Some(group) = self.multi.group(id) else { return };
        let (caller, mut missing) = (group.op, Vec::new());
        // It holds what it has while the client asks the server. With two such locks, a caller that never does that would give
        // back the one for the other without end.
        let may_ask = group.is_old() || group.options.wait == Wait::No;
        for (index, part) in group.missing() {
            missing.push((index, part.name.clone(), group.options_of(part)));
        }
        for (index, name, options) in &missing {
            match self.found_here(caller, name, options, may_ask) {
                Found::Nothing => {}
                Found::Busy(error) => return self.start_over(id, Some(*index), error),
                Found::Given => {
                    if let Some(group) = self.multi.group_mut(id) {
                        group.full = Some(*index);
                    }
                    return self.acquire_at(id, *index);
                }
            }
        }
        for (index, name, options) in missing {
            let Some(lock) = self.lock_for(&name, options.kind) else { return };
            let op = Caller::Part(PartId::new(id, index));
            self.cx.open(op, OpKind::Acquire { lock, tries: options.wait == Wait::No }, None);
            self.with(lock, |lock, cx| {
                lock.queue.push(op, options);
                let claim = Claim::new(cx.new_token(), &options);
                lock.claim = Some(Claim { first_sent: Some(cx.now), ..claim });
            });
        }
        self.send_multi(id);
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
    /// What other callers of this client have of a part, or wait for. They wait for a semaphore only if the server has not enough
    /// permits for them, as far as is known.
    fn found_here(&self, op: Caller, name: &str, options: &AcquireOptions, may_ask: bool) -> Found {
        let key = Name::key(&self.cx.config.prefix, name);
        if options.kind.family() == Family::Semaphore {
            return self.semaphore_is_full(&key, op).map_or(Found::Nothing, Found::Busy);
        }
        match self.locks.find(Family::Lock, &key).and_then(|lock| self.locks.get(lock)) {
            None => Found::Nothing,
            Some(lock) if lock.gives(&self.cx, options, may_ask) => Found::Given,
            // What this client holds may be gone from the server. A call for the part alone asks.
            Some(lock) if may_ask && lock.is_unsure(&self.cx, op) => Found::Given,
            Some(lock) => Found::Busy(lock.busy(&self.cx, op)),
        }
    }

    fn lock_for(&mut self, name: &str, kind: Kind) -> Option<LockId> {
        if kind.family() == Family::Semaphore {
            let key = self.semaphore_of(name).ok()?;
            return self.add_lane(&key);
        }
        self.locks.of(&self.cx, name, Family::Lock).ok()
    }

    /// Where a part of a group is held or wanted.
    pub(super) fn lock_of_part(&self, part: PartId, grant: Option<&Grant>) -> Option<&LockState> {
        let lock = match grant {
            Some(grant) => self.cx.leases.get(&grant.lease)?.lock()?,
            None => match self.cx.ops.get(&Caller::Part(part))?.kind {
                OpKind::Acquire { lock, .. } => lock,
                _ => return None,
            },
        };
        self.locks.get(lock)
    }
}

enum Found {
    Nothing,
    /// A share beside those of other callers, or a lock that nobody holds.
    Given,
    Busy(Error),
}
