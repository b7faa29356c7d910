//! Several names on a quorum: a lease of leases, as on one server (`client/multi`). Each name is a quorum's lock of its
//! own. The client takes the names in sorted order, so there is no deadlock. While it waits for a name, a majority of the
//! servers has the names before it.

use super::Quorum;
use crate::client::{AcquireAll, Group, Multi, PartCall, PartLocks};
use crate::error::Error;
use crate::ids::{Caller, LeaseId, LockId};
use crate::options::{AcquireOptions, Wait};
use crate::session::{Context, Lease};
use crate::time::{Duration, Instant};

impl PartLocks for Quorum {
    fn cx(&mut self) -> &mut Context {
        &mut self.cx
    }

    fn multi(&mut self) -> &mut Multi {
        &mut self.multi
    }

    /// A try ends with its attempts, because each of their commands has a time limit.
    fn patience(&self, options: &AcquireOptions) -> Option<Duration> {
        match options.wait {
            Wait::No => options.within.map(Duration::from),
            Wait::For(wait) => Some(wait.into()),
            Wait::Forever => None,
        }
    }

    fn begin(&mut self, id: LeaseId, group: Group) {
        self.multi.insert(id, group);
        self.next(id);
    }

    fn at_once(&mut self, _: LeaseId) {}

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

    fn stop_wanting(&mut self, op: Caller) {
        self.end_acquire(op, Error::Cancelled);
    }

    fn give_back_part(&mut self, lock: LockId, _: LeaseId) {
        self.with(lock, |lock, cx, members| lock.end_turn(cx, members, None));
    }

    fn empty_handed(&self, name: &str, _: Caller, part: Caller) -> Option<Error> {
        let lock = self.lock(self.by_name.get(name)?)?;
        Some(lock.empty_handed(&self.cx, &self.members, part))
    }

    fn keep_part(&mut self, part: LeaseId, until: Instant) {
        self.keep(part, until);
    }

    fn part_ends(&self, part: LeaseId) -> Option<Instant> {
        self.lock(self.cx.leases.get(&part).and_then(Lease::lock)?)?.until
    }

    fn valid_until(&self, lease: LeaseId) -> Option<Instant> {
        Quorum::valid_until(self, lease)
    }
}
