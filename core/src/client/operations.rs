//! Users' calls: checks them and passes them to the name that they are about.

use alloc::sync::Arc;

use super::Client;
use super::multi::{AcquireAll, HoldAll, PartCall, not_several};
use crate::error::{Error, Failure, LossReason};
use crate::event::Outcome;
use crate::ids::{Caller, Channel, LeaseId, LeaseToken, LockId};
use crate::lock::only_adoptable;
use crate::options::{AcquireOptions, Family, Kind, Mode, Wait, check_result, check_ttl, not_counted, not_detached};
use crate::session::{Lease, Leased, OpKind, Timer, ToStore};
use crate::time::{Duration, Instant};
use crate::wire::Name;

impl Client {
    pub(super) fn acquire(&mut self, op: Caller, name: &str, options: &AcquireOptions) {
        if let Err(error) = self.begin_acquire(op, name, options) {
            self.cx.refuse(op, error);
        }
    }

    /// Fails for a call that can't begin.
    fn begin_acquire(&mut self, op: Caller, name: &str, options: &AcquireOptions) -> Result<(), Error> {
        if self.cx.draining && !self.is_owner(name, options.kind) {
            return Err(Error::Closed);
        }
        options.check()?;
        if options.linger.is_some() {
            self.cx.can_linger()?;
        }
        if options.max_waiters.is_some() && self.cx.config.mixed_fleet {
            return Err(not_counted());
        }
        let patience = self.cx.patience_of(options);
        if options.kind.family() == Family::Semaphore {
            let key = self.semaphore_of(name)?;
            self.cx.open_acquire(op, OpKind::Semaphore { key: key.clone() }, patience, options);
            self.push_to_semaphore(&key, op, *options);
            return Ok(());
        }
        let lock = self.locks.of(&self.cx, name, options.kind.family())?;
        let tries = options.wait == Wait::No;
        self.cx.open_acquire(op, OpKind::Acquire { lock, tries }, patience, options);
        self.with(lock, |lock, cx| {
            if let Some(lease) = lock.owned(cx, options.kind) {
                cx.close_op(op);
                return lock.hold_again(cx, op, lease);
            }
            if tries && lock.is_busy_for(cx, options) && !lock.is_unsure(cx, op) {
                let error = lock.busy(cx, op);
                return cx.fail(op, error);
            }
            lock.queue.push(op, *options);
            lock.settle(cx, None);
        });
        Ok(())
    }

    /// Whether the owner of a reentrant lock holds it. More holds need no other lease.
    fn is_owner(&self, name: &str, kind: Kind) -> bool {
        let lock = self.locks.find(kind.family(), &Name::key(&self.cx.config.prefix, name));
        lock.and_then(|lock| self.locks.get(lock)?.owned(&self.cx, kind)).is_some()
    }

    /// Takes over a lease, in a state machine of its own, because callers of this client may want another lease of the name.
    pub(super) fn adopt(&mut self, op: Caller, name: &str, token: LeaseToken, options: &AcquireOptions) {
        let options = AcquireOptions { wait: Wait::No, linger: None, max_waiters: None, ..*options };
        let lock = match self.adoptable(name, token, &options) {
            Ok(name) => {
                let used_fence = self.locks.last_use_of(&self.cx, token);
                self.locks.add_adopted(name, token, used_fence)
            }
            Err(error) => return self.cx.refuse(op, error),
        };
        self.cx.open_acquire(op, OpKind::Acquire { lock, tries: true }, self.cx.patience_of(&options), &options);
        self.with(lock, |lock, cx| {
            lock.queue.push(op, options);
            lock.settle(cx, None);
        });
    }

    fn adoptable(&self, name: &str, token: LeaseToken, options: &AcquireOptions) -> Result<Arc<Name>, Error> {
        if self.cx.draining {
            return Err(Error::Closed);
        }
        options.check()?;
        if !options.kind.family().moves() || options.per.is_some() {
            return Err(only_adoptable());
        }
        let key = Name::check(&self.cx.config.prefix, name)?;
        let Self { locks, cx, .. } = self;
        let waits = |token| locks.iter().any(|lock| lock.wants_to_ask(token));
        if token.client.text() == cx.client && (waits(token.token) || cx.is_given_up_or_new(token.token)) {
            // The server would leave a tombstone for this client's token, which waits for the lock, or will.
            return Err(Error::NotHeld);
        }
        Ok(Name::new(key, options.kind.family()))
    }

    /// Ends a wait.
    pub(super) fn cancel(&mut self, op: Caller, error: Error) {
        let lock = match self.cx.ops.get(&op).map(|op| &op.kind) {
            Some(OpKind::Acquire { lock, .. }) => *lock,
            Some(OpKind::Semaphore { key }) => {
                let key = key.clone();
                return self.cancel_queued(&key, op, error);
            }
            Some(OpKind::AcquireAll { group }) => return self.fail_all(*group, None, error),
            Some(OpKind::Observe { lock }) => {
                let lock = *lock;
                self.cx.fail(op, error);
                return self.with(lock, |lock, cx| lock.stop_observing(cx, Some(op)));
            }
            _ => return,
        };
        if let Some(lock) = self.locks.get_mut(lock) {
            lock.end_caller(&mut self.cx, op, error);
        }
        self.move_up(lock);
        self.settle(lock, None);
    }

    pub(crate) fn release(&mut self, op: Caller, id: LeaseId) {
        let lock = match self.cx.unnest(op, id) {
            None => return,
            Some(Leased::Lock(lock)) => lock,
            Some(Leased::Parts(parts)) => return self.scatter(op, &parts, PartCall::Release),
        };
        self.left(id, lock, Some(op));
    }

    /// A lease has ended, by this call.
    pub(super) fn left(&mut self, id: LeaseId, lock: LockId, op: Option<Caller>) {
        if let Some(lock) = self.locks.get_mut(lock) {
            lock.leave(id);
        }
        self.move_up(lock);
        self.settle(lock, op);
    }

    /// Gives a lease back and stores its result. If that is not possible, the caller gets the reason, and the lease is given
    /// back as if it had no result.
    pub(super) fn store(&mut self, op: Caller, id: LeaseId, value: &[u8]) {
        if let Some(lease) = self.cx.leases.get_mut(&id) {
            lease.holds = 1;
            let checked = match lease.kind {
                Kind::Once { keep } => check_result(value).map(|()| keep),
                _ => Err(Error::unsupported("only a once stores a result")),
            };
            let lock = lease.lock();
            match checked {
                Ok(keep) => {
                    if let Some(hold) = lock.and_then(|lock| self.locks.get_mut(lock)?.hold.as_mut()) {
                        hold.result = Some(ToStore { keep: keep.into(), value: value.into() });
                    }
                }
                Err(error) => {
                    if let Some(Leased::Lock(lock)) = self.cx.end_lease(id, &Error::NotHeld).map(|lease| lease.of) {
                        self.left(id, lock, None);
                    }
                    return self.cx.refuse(op, error);
                }
            }
        }
        self.release(op, id);
    }

    pub(super) fn extend(&mut self, op: Caller, lease: LeaseId, ttl: Duration) {
        if let Err(error) = check_ttl(ttl) {
            return self.cx.refuse(op, error);
        }
        self.lease_call(op, lease, OpKind::Extend { lease, ttl });
    }

    pub(super) fn verify(&mut self, op: Caller, lease: LeaseId) {
        self.lease_call(op, lease, OpKind::Verify { lease, raise: 0 });
    }

    /// Makes the server remember at least this fence, for a quorum. Ends like a verify.
    #[cfg(feature = "quorum")]
    pub(crate) fn raise(&mut self, op: Caller, lease: LeaseId, fence: u64) {
        self.lease_call(op, lease, OpKind::Verify { lease, raise: fence });
    }

    fn lease_call(&mut self, op: Caller, id: LeaseId, kind: OpKind) {
        let Some(lease) = self.cx.leases.get_mut(&id) else { return self.cx.refuse(op, Error::NotHeld) };
        let Some(lock) = lease.lock() else {
            let call = if let OpKind::Extend { ttl, .. } = kind { PartCall::Extend(ttl) } else { PartCall::Verify };
            return self.call_all(op, id, call);
        };
        lease.pending.push(op);
        self.cx.open(op, kind, Some(self.cx.patience()));
        self.with(lock, |lock, cx| lock.send_lease_call(cx, op));
    }

    pub(super) fn convert(&mut self, op: Caller, id: LeaseId, mode: Mode) {
        let Some(lease) = self.cx.leases.get(&id) else { return self.cx.refuse(op, Error::NotHeld) };
        let Some(lock) = lease.lock() else { return self.cx.refuse(op, not_several()) };
        self.cx.open(op, OpKind::Convert { lease: id }, None);
        self.with(lock, |lock, cx| lock.convert(cx, op, id, mode));
    }

    pub(super) fn shorten(&mut self, op: Caller, id: LeaseId, ttl: Duration) {
        if let Err(error) = check_ttl(ttl) {
            return self.cx.refuse(op, error);
        }
        let Some(lease) = self.cx.leases.get(&id) else { return self.cx.refuse(op, Error::NotHeld) };
        let Some(lock) = lease.lock() else { return self.cx.refuse(op, crate::lock::not_shortened()) };
        self.cx.open(op, OpKind::Extend { lease: id, ttl }, Some(self.cx.patience()));
        self.with(lock, |lock, cx| lock.shorten(cx, op, id, ttl));
    }

    pub(super) fn detach(&mut self, op: Caller, id: LeaseId, time: Option<Duration>) {
        if let Err(error) = time.map_or(Ok(()), check_ttl) {
            return self.cx.refuse(op, error);
        }
        let Some(lease) = self.cx.leases.get(&id) else {
            let lost = self.cx.lease(id).and_then(|lease| lease.lost);
            return self.cx.refuse(op, lost.map_or(Error::NotHeld, Error::Lost));
        };
        let Some(lock) = lease.lock() else { return self.cx.refuse(op, not_detached()) };
        self.cx.open(op, OpKind::Convert { lease: id }, Some(self.cx.patience()));
        self.with(lock, |lock, cx| lock.detach(cx, op, id, time));
    }

    /// The lock of a lease stays taken until then, even if it is given back.
    pub(crate) fn stays(&mut self, id: LeaseId, until: Instant) {
        let lock = self.cx.leases.get(&id).and_then(Lease::lock);
        if let Some(lock) = lock.and_then(|lock| self.locks.get_mut(lock)) {
            lock.stays(until);
        }
    }

    /// Answers with a lease's token, so that another process can adopt the lease.
    pub(super) fn export(&mut self, op: Caller, id: LeaseId) {
        let lock = self.cx.leases.get(&id).map(|lease| lease.lock());
        let token = match lock {
            None => Err(Error::NotHeld),
            Some(None) => Err(not_several()),
            Some(Some(lock)) => self.locks.get_mut(lock).map_or(Err(Error::NotHeld), |lock| lock.export(&self.cx, id)),
        };
        if token.is_ok() {
            // The adopter's script notifies this client.
            self.cx.listen();
        }
        self.cx.answer(op, token.map(Outcome::Exported));
        if let Some(Some(lock)) = lock {
            self.settle(lock, None);
        }
    }

    /// Ends the waits, and lets the holders give their leases back.
    pub(super) fn drain(&mut self, op: Caller, grace: Duration) {
        if self.cx.begin_drain(op, grace) {
            self.end_calls();
            self.cx.end_drain();
        }
    }

    /// Closes the client: ends the waits and releases the leases.
    pub(super) fn close(&mut self, op: Caller) {
        self.cx.open(op, OpKind::Close, Some(self.cx.patience()));
        self.cx.begin_close();
        self.end_calls();
        self.close_all();
        self.cx.with_own(|own, cx, channel| own.unsubscribe(cx, Channel::Own, channel));
        self.cx.end_drain();
        self.cx.end_close();
    }

    /// Ends the waits. If the client is closed, also releases the leases.
    fn end_calls(&mut self) {
        self.close_semaphores();
        for id in self.locks.ids() {
            self.with(id, |lock, cx| {
                while let Some((op, _)) = lock.queue.head() {
                    lock.end_caller(cx, op, Error::Closed);
                }
                let holders = lock.hold.as_mut().filter(|_| cx.closed).map(|hold| core::mem::take(&mut hold.holders));
                for lease in holders.unwrap_or_default() {
                    cx.end_lease(lease, &Error::Closed);
                }
                if cx.closed {
                    lock.end_observers(cx, &Error::Closed);
                }
                lock.settle(cx, None);
            });
        }
    }

    /// A lease reaches its own end: that of a fixed lease, or `max_hold`. Its token is not handed over.
    pub(super) fn lease_ends(&mut self, id: LeaseId) {
        let Some(lease) = self.cx.leases.get_mut(&id) else { return };
        lease.ends = None;
        let is_max_hold = lease.renew || lease.most.is_some_and(|most| most <= self.cx.now);
        self.lose_one(id, if is_max_hold { LossReason::MaxHold } else { LossReason::Expired });
    }

    /// One lease has ended. Other leases of its name may go on.
    pub(super) fn lose_one(&mut self, id: LeaseId, reason: LossReason) {
        let Some(lock) = self.cx.leases.get(&id).and_then(Lease::lock) else { return };
        self.cx.lose_lease(id, reason);
        self.with(lock, |lock, cx| {
            lock.leave(id);
            if let Some(hold) = &mut lock.hold {
                hold.tainted = true;
            }
            lock.settle(cx, None);
        });
    }

    /// A user's call has reached its time limit.
    pub(super) fn op_ends(&mut self, op: Caller) {
        let Some(open) = self.cx.ops.get_mut(&op) else { return };
        open.ends = None;
        let (since, waited) = (open.since, self.cx.now.time_since(open.since));
        if self.was_queued(op) || self.cx.was_paused(op) || self.cx.waits_for_slot(op) {
            return;
        }
        let cause = Some(self.cx.flows.failure_since(since).unwrap_or(Failure::TimedOut));
        let Some(open) = self.cx.ops.get_mut(&op) else { return };
        match open.kind {
            OpKind::Acquire { lock, .. } => {
                let error = self.locks.get(lock).map(|lock| lock.empty_handed(&self.cx, op));
                self.cancel(op, error.unwrap_or(Error::busy(waited, None)));
            }
            OpKind::Semaphore { ref key } => {
                let key = key.clone();
                let error = self.queued_empty_handed(&key, op);
                self.cancel(op, error.unwrap_or(Error::busy(waited, None)));
            }
            OpKind::AcquireAll { group } => self.all_ends(group),
            OpKind::Drain => self.cx.complete(op, Ok(Outcome::Drained)),
            OpKind::Close => {
                let since = open.since;
                self.cx.close_ends(op, since);
            }
            OpKind::Extend { lease, .. } | OpKind::Verify { lease, .. } | OpKind::Convert { lease } => {
                self.cx.fail(op, Error::unreachable(waited, cause));
                let Some(lease) = self.cx.leases.get_mut(&lease) else { return };
                lease.call_ended(op);
                if let Some(lock) = lease.lock() {
                    self.settle(lock, None);
                }
            }
            OpKind::Release { .. } | OpKind::Inspect { .. } | OpKind::Force { .. } | OpKind::Forget { .. } => {
                self.cx.fail(op, Error::unreachable(waited, cause));
            }
            OpKind::Observe { .. } | OpKind::Gather(_) => {}
        }
    }

    /// Extends the time limit of a call that waits only for the server, if its command waited in the client's
    /// own queue. True if it did.
    fn was_queued(&mut self, op: Caller) -> bool {
        let Some(open) = self.cx.ops.get(&op).filter(|open| !open.bounded) else { return false };
        let since = open.since;
        // The name that the call is about, and when the command that is not answered yet was first sent.
        let (name, sent) = match &open.kind {
            OpKind::Acquire { lock, .. } => {
                let lock = self.locks.get(*lock);
                let claim = lock.and_then(|lock| lock.claim.as_ref());
                (lock.map(|lock| &lock.name.key), claim.and_then(|claim| claim.sent))
            }
            OpKind::Semaphore { key } => (Some(key), None),
            OpKind::Extend { lease, .. } | OpKind::Verify { lease, .. } | OpKind::Convert { lease } => {
                let lock = self.cx.leases.get(lease).and_then(|lease| self.locks.get(lease.lock()?));
                (lock.map(|lock| &lock.name.key), open.sent)
            }
            OpKind::Inspect { name } | OpKind::Force { name, .. } | OpKind::Forget { name } => {
                (Some(&name.key), open.sent)
            }
            OpKind::AcquireAll { .. } | OpKind::Release { .. } => (None, open.sent),
            OpKind::Observe { .. } | OpKind::Drain | OpKind::Close | OpKind::Gather(_) => return false,
        };
        let flow = name.map(|key| self.cx.flows.place_of(key));
        if !self.cx.flows.was_full_since(flow, since) {
            return false;
        }
        // If the command has not left yet, the call waits for as long as the server answers other commands.
        let from = sent.or(self.cx.flows.answered(flow)).unwrap_or(since).max(since);
        let ends = from + self.cx.patience();
        let goes_on = ends > self.cx.now;
        if goes_on {
            self.cx.limit_op(op, ends.time_since(self.cx.now));
        }
        goes_on
    }

    /// A user's call is due to be sent again.
    pub(super) fn op_again(&mut self, op: Caller) {
        let Some(open) = self.cx.ops.get_mut(&op) else { return };
        open.again = None;
        match open.kind {
            OpKind::Extend { lease, .. } | OpKind::Verify { lease, .. } => {
                let Some(lock) = self.cx.leases.get(&lease).and_then(Lease::lock) else { return };
                self.with(lock, |lock, cx| lock.send_lease_call(cx, op));
            }
            OpKind::Inspect { .. } => self.send_inspect(op),
            OpKind::AcquireAll { group } => self.send_multi(group),
            OpKind::Force { .. } | OpKind::Forget { .. } => self.send_force(op),
            OpKind::Acquire { .. }
            | OpKind::Semaphore { .. }
            | OpKind::Convert { .. }
            | OpKind::Release { .. }
            | OpKind::Observe { .. }
            | OpKind::Drain
            | OpKind::Close
            | OpKind::Gather(_) => {}
        }
    }
}

impl crate::session::Context {
    /// Whether a client can keep leases that nobody holds: it must hear of others who want them.
    fn can_linger(&self) -> Result<(), Error> {
        if self.config.mixed_fleet {
            let problem = "would keep locks from other libraries while nobody uses them: leave it out";
            return Err(Error::invalid("linger", problem));
        }
        if self.subscription.is_refused() {
            let what = "`linger` needs messages, and this connection has none, or the user may not subscribe";
            return Err(Error::unsupported(what));
        }
        Ok(())
    }

    /// How long an acquire may take.
    pub(super) fn patience_of(&self, options: &AcquireOptions) -> Option<Duration> {
        match options.wait {
            Wait::No => Some(options.within.map_or(self.patience(), |within| self.patience().min(within.into()))),
            Wait::For(wait) => Some(wait.into()),
            Wait::Forever => None,
        }
    }

    /// Schedules a user's call to be sent again after a pause.
    pub(crate) fn send_op_again(&mut self, op: Caller) {
        let most = self.response_timeout / 2;
        let Some(failures) = self.ops.get(&op).map(|op| op.failures) else { return };
        let at = self.now + self.backoff(failures, most);
        if let Some(open) = self.ops.get_mut(&op) {
            open.failures = failures.saturating_add(1);
            self.timers.set(Timer::OpAgain(op), &mut open.again, Some(at));
        }
    }
}

impl Client {
    /// Makes a renewed lease a fixed one, which ends one TTL after the last renewal. A lease that came after a wait was granted
    /// for less, so it is renewed once more.
    pub(super) fn stop_renewing(&mut self, id: LeaseId) {
        let until = self.valid_until(id);
        let (Some(lease), Some(until)) = (self.cx.leases.get_mut(&id).filter(|lease| lease.renew), until) else {
            return;
        };
        lease.stop_renewing();
        let lock = match &lease.of {
            Leased::Lock(lock) => *lock,
            Leased::Parts(parts) => return parts.clone().into_iter().for_each(|part| self.stop_renewing(part)),
        };
        let hold = self.locks.hold(lock);
        lease.known_end = hold.map_or(until, |hold| lease.bounded(hold.validity.until_with(lease.ttl)).max(until));
        self.cx.timers.set(Timer::LeaseEnds(id), &mut lease.ends, Some(lease.known_end));
        self.with(lock, |lock, cx| {
            if let Some(hold) = &mut lock.hold {
                hold.schedule_renewal(cx, lock.id);
            }
        });
    }

    /// Moves the end of a renewed lease.
    pub(super) fn keep(&mut self, id: LeaseId, until: Instant) {
        let Some(lease) = self.cx.leases.get_mut(&id).filter(|lease| lease.renew) else { return };
        let lock = match &lease.of {
            Leased::Lock(lock) => *lock,
            Leased::Parts(parts) => return parts.clone().into_iter().for_each(|part| self.keep(part, until)),
        };
        self.cx.timers.set(Timer::LeaseEnds(id), &mut lease.ends, Some(until));
        self.with(lock, |lock, cx| {
            let Some(hold) = &mut lock.hold else { return };
            // A renewal in flight has its own timer for the next attempt.
            if hold.timers.renewal.is_none() {
                hold.schedule_renewal(cx, lock.id);
            }
        });
    }
}
