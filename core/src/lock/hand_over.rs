//! Who of the local callers is granted now, what this client gives back, and what it asks the server for.

use alloc::vec::Vec;

use super::change::Change;
use super::convert::WRITERS_LEASE;
use super::hold::Admission;
use super::{LockState, is_try, only_adoptable};
use crate::error::Error;
use crate::event::{Grant, Outcome, ReleaseOutcome};
use crate::ids::{Caller, LeaseId, LeaseToken};
use crate::options::{AcquireOptions, Family, Mode, Wait};
use crate::session::{Context, Lease, Leased, ReleaseParams, Timer, has_fast_path};
use crate::time::{Duration, Instant};

impl LockState {
    /// Reconciles the state after every event. `leaver` is the call that gave back the last hold of a lease.
    pub(crate) fn settle(&mut self, cx: &mut Context, leaver: Option<Caller>) {
        let mut leaver = leaver;
        self.finish_upgrade(cx);
        while let Some((op, options)) = self.queue.head() {
            let Some(hold) = &mut self.hold else {
                self.ask(cx);
                break;
            };
            let admission = hold.admits(cx, options);
            if admission != Admission::NeedsRenewal {
                hold.end_extra_renewal();
            }
            match admission {
                Admission::Now => {
                    let options = *options;
                    self.hand_over(cx, op, &options);
                    continue;
                }
                Admission::NeedsRenewal => {
                    let ttl = options.ttl.into();
                    self.renew_to(cx, ttl);
                }
                Admission::NeedsFences => self.refill(cx),
                Admission::Blocked => self.refill_if_low(cx),
                Admission::Incompatible if hold.in_use(cx.now) => self.ask_beside(cx),
                Admission::Incompatible => {
                    self.let_go(cx, leaver.take());
                    self.ask_anew(cx);
                }
            }
            break;
        }
        if self.queue.is_empty() {
            if self.hold.as_ref().is_some_and(|hold| !hold.in_use(cx.now)) && !self.lingers(cx) {
                self.let_go(cx, leaver.take());
            }
            self.give_up_claim(cx);
        }
        self.await_convert(cx, &mut leaver);
        self.end_tries(cx);
        self.end_excess(cx);
        if let Some(op) = leaver {
            cx.answer(op, Ok(Outcome::Released(ReleaseOutcome::Released)));
        }
    }

    /// Whether a caller that comes now gets what this client holds, and waits for nobody. If the server has to be asked first, its
    /// answer can be that others wait: then only a caller that may ask gets it.
    pub(crate) fn gives(&self, cx: &Context, options: &AcquireOptions, may_ask: bool) -> bool {
        let given = |admission| match admission {
            Admission::Now => true,
            Admission::NeedsRenewal | Admission::NeedsFences => may_ask,
            _ => false,
        };
        self.queue.is_empty() && self.hold.as_ref().is_some_and(|hold| given(hold.admits(cx, options)))
    }

    /// Makes the first local caller a holder, without a round trip.
    fn hand_over(&mut self, cx: &mut Context, op: Caller, options: &AcquireOptions) {
        let Some(hold) = &mut self.hold else { return };
        let local = hold.served;
        let Some(fence) = hold.fences.take() else { return };
        if local {
            hold.handed_over(cx, self.id);
        }
        let id = cx.new_lease();
        let end = if options.renew { options.max_hold } else { Some(options.ttl) };
        let mut lease = Lease::new(Leased::Lock(self.id), op, options, fence, hold.validity.until);
        if let Some(end) = end {
            cx.timers.set(Timer::LeaseEnds(id), &mut lease.ends, Some(cx.now + end));
        }
        let valid_until = lease.ends.map_or(lease.known_end, |ends| ends.at.min(lease.known_end));
        lease.known_end = valid_until;
        cx.leases.insert(id, lease);
        hold.holders.push(id);
        hold.served = true;
        // Another caller asks the server, which may have the result then.
        hold.tainted |= self.name.family == Family::Once;
        hold.linger = options.linger.map(Duration::from);
        // A caller that waits for replicas may never get the lease.
        let least = options.at_least.filter(|_| options.replicas.is_none());
        hold.keep = hold.keep.max(least.map(|least| cx.now + least));
        cx.timers.set(Timer::LingerEnds(self.id), &mut hold.timers.linger, None);
        if options.renew && hold.timers.renewal.is_none() {
            hold.schedule_renewal(cx, self.id);
        }
        let grant = Grant { lease: id, mode: options.mode, fence, valid_until, local };
        cx.complete(op, Ok(Outcome::Acquired(grant)));
        self.queue.ended(options.wait == Wait::No, &cx.ops);
        if !local {
            self.queue.free_room();
        }
        self.reenter(cx, options.kind, id);
        if (local || options.linger.is_some()) && !cx.is_mixed(self.name.family) {
            // Other clients may want to say that they wait for a lock that is handed over here.
            cx.listen();
        }
        if local {
            self.ask_whether_wanted(cx);
        }
    }

    /// The lock stays taken until then, even if no caller holds it.
    pub(crate) fn stays(&mut self, until: Instant) {
        if let Some(hold) = &mut self.hold {
            hold.keep = hold.keep.max(Some(until));
        }
    }

    /// Returns the token of a lease. From now on, the lease is not handed over locally, because another process may take it.
    pub(crate) fn export(&mut self, cx: &Context, id: LeaseId) -> Result<LeaseToken, Error> {
        if !self.name.family.moves() {
            return Err(only_adoptable());
        }
        let (hold, lease) = self.sole(cx, id)?;
        if lease.mode != hold.mode {
            return Err(WRITERS_LEASE);
        }
        hold.tainted = true;
        LeaseToken::of(&cx.client, hold.token).ok_or(Error::NotHeld)
    }

    /// Removes a lease from its hold. True if it was there.
    pub(crate) fn leave(&mut self, id: LeaseId) -> bool {
        let Some(hold) = &mut self.hold else { return false };
        let Some(at) = hold.holders.iter().position(|holder| *holder == id) else { return false };
        hold.holders.remove(at);
        if matches!(hold.change, Change::Upgrade { lease, .. } if lease == id) {
            hold.change = Change::None;
        }
        // A convert is still in flight, so neither token may be handed over.
        hold.tainted |= hold.is_converting();
        true
    }

    /// Gives the held token back to the server, or detaches it for the rest of the time for which the lock stays taken.
    fn let_go(&mut self, cx: &mut Context, op: Option<Caller>) {
        match self.hold.as_ref().filter(|hold| hold.is_kept(cx.now)).map(|hold| hold.mode) {
            Some(mode) => self.detach_hold(cx, op, mode),
            None => self.give_back_hold(cx, op),
        }
    }

    /// Gives the held token back to the server, together with the token of an unanswered convert. If the lease was being
    /// detached, the server may have it under that token, and keeps it.
    pub(super) fn give_back_hold(&mut self, cx: &mut Context, op: Option<Caller>) {
        let Some(mut hold) = self.hold.take() else { return };
        hold.clear_timers(cx, self.id);
        let valid_until = Some(hold.validity.until);
        let moved = hold.is_converting();
        let tombstone = hold.in_flight.any() || moved;
        let used_fence = if hold.result.is_some() { hold.fences.taken } else { hold.used_fence(cx) };
        let is_left = hold.converting().is_some_and(|converting| converting.is_left);
        let op = op.or_else(|| hold.converting_mut()?.take_leaver(cx));
        if let Some(converting) = hold.take_converting(|converting| converting.lease.is_some()) {
            converting.complete(cx, Err(Error::NotHeld));
            let new = ReleaseParams { valid_until, used_fence, ..ReleaseParams::of(converting.new, tombstone) };
            cx.give_back(&self.name, new);
        }
        // In a mixed fleet, a release grants nobody, because other clients poll. So nobody waits for it.
        let wanted = hold.budget.is_some() && !cx.config.mixed_fleet;
        let fast = match (self.name.family, hold.mode) {
            (family, _) if !has_fast_path(family) => None,
            _ if wanted || used_fence > 0 => None,
            // The key has the fence, which must be known.
            (Family::Lock, Mode::Exclusive) => hold.stamp.map(|stamp| (Mode::Exclusive, stamp)),
            (_, mode) => Some((mode, 0)),
        };
        let (params, result) = (ReleaseParams::of(hold.token, tombstone), hold.result.take());
        cx.give_back(&self.name, ReleaseParams { valid_until, op, moved, wanted, used_fence, fast, result, ..params });
        if is_left {
            cx.end_detaching();
        }
    }

    /// Removes the waiting token from the server's queue.
    pub(super) fn give_up_claim(&mut self, cx: &mut Context) {
        let Some(mut claim) = self.claim.take() else { return };
        claim.clear_timer(cx, self.id);
        self.stop_listening(cx);
        let tombstone = claim.in_flight.any();
        if tombstone || claim.joined {
            cx.give_back(&self.name, ReleaseParams::of(claim.token, tombstone));
        }
    }

    /// Ends the local callers that don't wait, once the lock is known to be busy.
    fn end_tries(&mut self, cx: &mut Context) {
        if self.queue.tries() == 0 {
            return;
        }
        let head = self.queue.head();
        if !head.is_some_and(|(_, options)| self.is_busy_for(cx, options)) {
            return;
        }
        let ends = |op: &Caller| is_try(cx, *op) && !self.is_unsure(cx, *op);
        let tries: Vec<Caller> = self.queue.iter().map(|(op, _)| op).filter(ends).collect();
        for op in tries {
            let error = self.busy(cx, op);
            self.end_caller(cx, op, error);
        }
        if self.queue.is_empty() {
            self.give_up_claim(cx);
        }
    }

    /// Ends a local caller that was not granted.
    pub(crate) fn end_caller(&mut self, cx: &mut Context, op: Caller, error: Error) {
        self.answer_caller(cx, op, Err(error));
    }

    /// Ends a local caller that gets no lease.
    pub(super) fn answer_caller(&mut self, cx: &mut Context, op: Caller, result: Result<Outcome, Error>) {
        let tries = is_try(cx, op);
        cx.complete(op, result);
        self.queue.ended(tries, &cx.ops);
    }
}
