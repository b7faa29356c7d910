//! A name in use: its local callers, the token that it holds (tenure) and the token that it waits with (request).
//!
//! ```text
//!           ask                 granted                last holder gone, or lost
//! (nothing) ---> request ------------------> tenure ------------------------------> (nothing)
//!                   ^                          |  local hand-overs, renewals
//!                   '--------------------------'
//!                     a caller that the tenure can't serve
//! ```
//!
//! [`Resource::settle`] runs after every event. It serves the local callers in order, as far as the tenure allows. It
//! gives back what no caller needs any more, and asks the server for what is missing.

use core::time::Duration;

use crate::context::{Context, ResourceId};
use crate::error::Error;
use crate::event::{Grant, LeaseId, OpId, Outcome, ReleaseOutcome};
use crate::lease::Lease;
use crate::name::Name;
use crate::op::OpKind;
use crate::options::{AcquireOptions, Mode, Wait};
use crate::queue::LocalQueue;
use crate::releases::Parting;
use crate::reply::Failure;
use crate::request::Request;
use crate::several::INNER;
use crate::subscription::Subscription;
use crate::tenure::{Admission, Tenure};
use crate::timers::Timer;
use crate::vote::Votes;

pub(crate) struct Resource {
    pub(crate) id: ResourceId,
    pub(crate) name: Name,
    pub(crate) queue: LocalQueue,
    pub(crate) tenure: Option<Tenure>,
    pub(crate) request: Option<Request>,
    /// The subscription to a reentrant lock's channel, while a caller waits.
    pub(crate) subscription: Subscription,
}

impl Resource {
    pub(crate) fn new(id: ResourceId, name: Name) -> Self {
        Self { id, name, queue: LocalQueue::default(), tenure: None, request: None, subscription: Subscription::new() }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.tenure.is_none() && self.request.is_none() && self.queue.is_empty()
    }

    /// Reconciles the state after every event. `leaver` is the call that gave back the last hold of a lease.
    pub(crate) fn settle(&mut self, cx: &mut Context, leaver: Option<OpId>) {
        let mut leaver = leaver;
        self.finish_upgrade(cx);
        while let Some((op, options)) = self.queue.head() {
            let Some(tenure) = &mut self.tenure else {
                self.ask(cx);
                break;
            };
            let admission = tenure.admits(cx, &options);
            if admission != Admission::AfterRenewal {
                tenure.passing = None;
            }
            match admission {
                Admission::Now => {
                    self.hand_over(cx, op, options);
                    continue;
                }
                Admission::AfterRenewal => self.renew_to_pass(cx, options.ttl),
                Admission::AfterRefill => self.refill(cx),
                Admission::Later => self.refill_if_low(cx),
                Admission::Never if tenure.in_use() => self.ask_beside(cx),
                Admission::Never => {
                    self.give_back_tenure(cx, leaver.take());
                    self.ask_anew(cx);
                }
            }
            break;
        }
        if self.queue.is_empty() {
            if self.tenure.as_ref().is_some_and(|tenure| !tenure.in_use()) {
                self.give_back_tenure(cx, leaver.take());
            }
            self.give_up_request(cx);
        }
        self.end_tries(cx);
        if let Some(op) = leaver {
            cx.answer(op, Ok(Outcome::Released(ReleaseOutcome::Released)));
        }
    }

    /// Makes the first local caller a holder, without a round trip.
    fn hand_over(&mut self, cx: &mut Context, op: OpId, options: AcquireOptions) {
        let Some(tenure) = &mut self.tenure else { return };
        let local = tenure.used;
        let Some(fence) = tenure.fences.take() else { return };
        if local && let Some(budget) = &mut tenure.budget {
            budget.left = budget.left.saturating_sub(1);
        }
        // If it is a part of several names, the lease has the number of its call.
        let id = if op.0 & INNER == 0 { cx.new_lease() } else { LeaseId(op.0) };
        let end = if options.renew { options.max_hold } else { Some(options.ttl) };
        let mut lease = Lease {
            resource: self.id,
            kind: options.kind,
            mode: options.mode,
            fence,
            ttl: options.ttl,
            renew: options.renew,
            ends: None,
            told: tenure.validity.until,
            holds: 1,
            pending: alloc::vec::Vec::new(),
        };
        if let Some(end) = end {
            cx.timers.set(Timer::LeaseEnds(id), &mut lease.ends, Some(cx.now + end));
        }
        let valid_until = lease.ends.map_or(lease.told, |ends| ends.at.min(lease.told));
        lease.told = valid_until;
        cx.leases.insert(id, lease);
        tenure.holders.push(id);
        tenure.used = true;
        if options.renew && tenure.timers.renewal.is_none() {
            tenure.schedule_renewal(cx, self.id);
        }
        let grant = Grant { lease: id, mode: options.mode, fence, valid_until, local };
        cx.complete(op, Ok(Outcome::Acquired(grant)));
        self.queue.ended(options.wait == Wait::No, |op| cx.ops.contains_key(&op));
        self.reenter(cx, options.kind, id);
        if local && !cx.is_mixed(self.name.family) {
            // Other clients may want to say that they wait for a lock that is handed over here.
            cx.listen();
        }
        self.ask_whether_wanted(cx, local);
    }

    /// Removes a lease from its tenure. True if it was there.
    pub(crate) fn leave(&mut self, id: LeaseId) -> bool {
        let Some(tenure) = &mut self.tenure else { return false };
        let Some(at) = tenure.holders.iter().position(|holder| *holder == id) else { return false };
        tenure.holders.swap_remove(at);
        if tenure.upgrading.is_some_and(|(_, lease)| lease == id) {
            tenure.upgrading = None;
        }
        // A convert is still in flight, so neither token may be handed over.
        tenure.tainted |= tenure.converting.is_some();
        true
    }

    /// Gives the held token back to the server, together with the token of an unanswered convert.
    pub(crate) fn give_back_tenure(&mut self, cx: &mut Context, op: Option<OpId>) {
        let Some(mut tenure) = self.tenure.take() else { return };
        tenure.clear_timers(cx, self.id);
        let valid_until = Some(tenure.validity.until);
        let moved = tenure.converting.is_some();
        let bury = tenure.strays.any() || moved;
        if let Some(converting) = tenure.converting.take() {
            cx.complete(converting.op, Err(Error::NotHeld));
            let new = Parting { valid_until, ..Parting::of(converting.new, bury) };
            cx.give_back(&self.name, new);
        }
        let wanted = tenure.budget.is_some();
        cx.give_back(&self.name, Parting { valid_until, op, moved, wanted, ..Parting::of(tenure.token, bury) });
    }

    /// Removes the waiting token from the server's queue.
    pub(crate) fn give_up_request(&mut self, cx: &mut Context) {
        let Some(mut request) = self.request.take() else { return };
        request.clear_timer(cx, self.id);
        self.stop_listening(cx);
        let bury = request.strays.any();
        if bury || request.joined {
            cx.give_back(&self.name, Parting::of(request.token, bury));
        }
    }

    /// Ends the local callers that don't wait, once the lock is known to be busy.
    fn end_tries(&mut self, cx: &mut Context) {
        if self.queue.tries() == 0 {
            return;
        }
        let head = self.queue.head();
        if !head.is_some_and(|(_, options)| self.is_busy_for(cx, &options)) {
            return;
        }
        let tries: alloc::vec::Vec<OpId> = self.queue.iter().map(|(op, _)| op).filter(|op| is_try(cx, *op)).collect();
        for op in tries {
            let error = self.busy(cx, op);
            self.end_caller(cx, op, error);
        }
        if self.queue.is_empty() {
            self.give_up_request(cx);
        }
    }

    /// Ends a local caller that was not granted.
    pub(crate) fn end_caller(&mut self, cx: &mut Context, op: OpId, error: Error) {
        let tries = is_try(cx, op);
        cx.complete(op, Err(error));
        self.queue.ended(tries, |op| cx.ops.contains_key(&op));
    }

    /// The error for a caller whose wait has ended: another caller has the lock, or no server answered.
    pub(crate) fn empty_handed(&self, cx: &Context, op: OpId) -> Error {
        let trouble = self.request.as_ref().and_then(|request| request.trouble.clone());
        let told = trouble.is_none() && self.request.as_ref().is_some_and(Request::is_known_busy);
        if told || self.tenure.as_ref().is_some_and(Tenure::in_use) {
            return self.busy(cx, op);
        }
        let unanswered = self.request.as_ref().is_some_and(|request| request.strays.any());
        let cause =
            trouble.or_else(|| cx.flows.trouble(cx.ops.get(&op)?.since)).or(unanswered.then_some(Failure::TimedOut));
        Error::Unreachable { waited: waited(cx, op), cause, votes: Votes::default() }
    }

    /// The error for a lock that another caller holds or will get first.
    pub(crate) fn busy(&self, cx: &Context, op: OpId) -> Error {
        let here = self.tenure.as_ref().filter(|tenure| tenure.in_use()).map(|tenure| tenure.validity.until);
        let ends = here.or_else(|| self.request.as_ref()?.holder_ends);
        let holder_remaining = ends.map(|ends| ends.since(cx.now));
        Error::Busy { waited: waited(cx, op), holder_remaining, votes: Votes::default() }
    }

    /// Whether the lock is busy for a caller with these options, as far as is known without asking the server.
    pub(crate) fn is_busy_for(&self, cx: &Context, options: &AcquireOptions) -> bool {
        let told = self.request.as_ref().is_some_and(Request::is_known_busy);
        let head = self.queue.head().map_or(*options, |(_, head)| head);
        let shares = options.mode == Mode::Shared && head.mode == Mode::Shared;
        let behind = self.queue.len() > self.queue.tries() && !shares;
        let excludes = |tenure: &Tenure| tenure.excludes(cx, options) || tenure.excludes(cx, &head);
        told || behind || self.tenure.as_ref().is_some_and(excludes)
    }
}

pub(crate) fn waited(cx: &Context, op: OpId) -> Duration {
    cx.ops.get(&op).map(|op| cx.now.since(op.since)).unwrap_or_default()
}

pub(crate) fn is_try(cx: &Context, op: OpId) -> bool {
    matches!(cx.ops.get(&op).map(|op| &op.kind), Some(OpKind::Acquire { tries: true, .. }))
}
