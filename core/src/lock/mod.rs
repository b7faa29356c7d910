//! The state machine of one name: its local callers, the token that it holds (the hold) and the token with which it
//! waits (the claim).
//!
//! ```text
//!           ask            granted            last holder gone, or lost
//! (nothing) ---> claim ----------------> hold ------------------------> (nothing)
//!                  ^                      |  local hand-overs, renewals
//!                  '----------------------'
//!                   a caller that the hold can't serve
//! ```
//!
//! [`LockState::settle`] runs after every event. It serves the local callers in order, as far as the hold allows. It
//! gives back what no caller needs any more, and asks the server for what is missing.
//!
//! | file | what it decides |
//! |---|---|
//! | `queue` | who is next in this client |
//! | `claim` | how the server is asked: the first try, heartbeats, polls and resends |
//! | `grant` | what an answer or a message grants, and what a loss ends |
//! | `hold` | who may hold the lock next without a round trip, and until when |
//! | `renew` | renewals, more fences, and the users' extend and verify |
//! | `convert` | upgrade and downgrade |
//! | `reentrant` | the owner and the channel of a reentrant lock |

mod claim;
mod convert;
mod grant;
mod hold;
mod queue;
mod reentrant;
mod renew;
mod table;

use core::time::Duration;

use self::hold::Hold;
use crate::error::{Error, Failure};
use crate::event::{Grant, Outcome, ReleaseOutcome};
use crate::ids::{Caller, LeaseId, LockId};
use crate::options::{AcquireOptions, Mode, Wait};
use crate::session::{Context, Lease, Leased, OpKind, ReleaseParams, Subscription, Timer};
use crate::wire::Name;

pub(crate) use claim::Claim;
pub(crate) use grant::GiveBack;
pub(crate) use hold::Admission;
pub(crate) use queue::LocalQueue;
pub(crate) use reentrant::keys_of;
pub(crate) use table::LockTable;

pub(crate) struct LockState {
    pub(crate) id: LockId,
    pub(crate) name: Name,
    pub(crate) queue: LocalQueue,
    pub(crate) hold: Option<Hold>,
    pub(crate) claim: Option<Claim>,
    /// The subscription to a reentrant lock's channel, while a caller waits.
    pub(crate) subscription: Subscription,
}

impl LockState {
    pub(crate) fn new(id: LockId, name: Name) -> Self {
        Self { id, name, queue: LocalQueue::default(), hold: None, claim: None, subscription: Subscription::new() }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.hold.is_none() && self.claim.is_none() && self.queue.is_empty()
    }

    /// Reconciles the state after every event. `leaver` is the call that gave back the last hold of a lease.
    pub(crate) fn settle(&mut self, cx: &mut Context, leaver: Option<Caller>) {
        let mut leaver = leaver;
        self.finish_upgrade(cx);
        while let Some((op, options)) = self.queue.head() {
            let Some(hold) = &mut self.hold else {
                self.ask(cx);
                break;
            };
            let admission = hold.admits(cx, &options);
            if admission != Admission::NeedsRenewal {
                hold.passing = None;
            }
            match admission {
                Admission::Now => {
                    self.hand_over(cx, op, options);
                    continue;
                }
                Admission::NeedsRenewal => self.renew_to_pass(cx, options.ttl),
                Admission::NeedsFences => self.refill(cx),
                Admission::Blocked => self.refill_if_low(cx),
                Admission::Incompatible if hold.in_use() => self.ask_beside(cx),
                Admission::Incompatible => {
                    self.give_back_hold(cx, leaver.take());
                    self.ask_anew(cx);
                }
            }
            break;
        }
        if self.queue.is_empty() {
            if self.hold.as_ref().is_some_and(|hold| !hold.in_use()) {
                self.give_back_hold(cx, leaver.take());
            }
            self.give_up_claim(cx);
        }
        self.end_tries(cx);
        if let Some(op) = leaver {
            cx.answer(op, Ok(Outcome::Released(ReleaseOutcome::Released)));
        }
    }

    /// Makes the first local caller a holder, without a round trip.
    fn hand_over(&mut self, cx: &mut Context, op: Caller, options: AcquireOptions) {
        let Some(hold) = &mut self.hold else { return };
        let local = hold.used;
        let Some(fence) = hold.fences.take() else { return };
        if local && let Some(budget) = &mut hold.budget {
            budget.left = budget.left.saturating_sub(1);
        }
        let id = cx.new_lease();
        let end = if options.renew { options.max_hold } else { Some(options.ttl) };
        let mut lease = Lease::new(Leased::Lock(self.id), op, &options, fence, hold.validity.until);
        if let Some(end) = end {
            cx.timers.set(Timer::LeaseEnds(id), &mut lease.ends, Some(cx.now + end));
        }
        let valid_until = lease.ends.map_or(lease.told, |ends| ends.at.min(lease.told));
        lease.told = valid_until;
        cx.leases.insert(id, lease);
        hold.holders.push(id);
        hold.used = true;
        if options.renew && hold.timers.renewal.is_none() {
            hold.schedule_renewal(cx, self.id);
        }
        let grant = Grant { lease: id, mode: options.mode, fence, valid_until, local };
        cx.complete(op, Ok(Outcome::Acquired(grant)));
        self.queue.ended(options.wait == Wait::No, |op| cx.ops.contains_key(&op));
        self.reenter(cx, options.kind, id);
        if local && !cx.is_mixed(self.name.family) {
            // Other clients may want to say that they wait for a lock that is handed over here.
            cx.listen();
        }
        if local {
            self.ask_whether_wanted(cx);
        }
    }

    /// Removes a lease from its hold. True if it was there.
    pub(crate) fn leave(&mut self, id: LeaseId) -> bool {
        let Some(hold) = &mut self.hold else { return false };
        let Some(at) = hold.holders.iter().position(|holder| *holder == id) else { return false };
        hold.holders.remove(at);
        if hold.upgrading.is_some_and(|(_, lease)| lease == id) {
            hold.upgrading = None;
        }
        // A convert is still in flight, so neither token may be handed over.
        hold.tainted |= hold.converting.is_some();
        true
    }

    /// Gives the held token back to the server, together with the token of an unanswered convert.
    fn give_back_hold(&mut self, cx: &mut Context, op: Option<Caller>) {
        let Some(mut hold) = self.hold.take() else { return };
        hold.clear_timers(cx, self.id);
        let valid_until = Some(hold.validity.until);
        let moved = hold.converting.is_some();
        let bury = hold.in_flight.any() || moved;
        if let Some(converting) = hold.converting.take() {
            cx.complete(converting.op, Err(Error::NotHeld));
            let new = ReleaseParams { valid_until, ..ReleaseParams::of(converting.new, bury) };
            cx.give_back(&self.name, new);
        }
        let wanted = hold.budget.is_some();
        cx.give_back(
            &self.name,
            ReleaseParams { valid_until, op, moved, wanted, ..ReleaseParams::of(hold.token, bury) },
        );
    }

    /// Removes the waiting token from the server's queue.
    fn give_up_claim(&mut self, cx: &mut Context) {
        let Some(mut claim) = self.claim.take() else { return };
        claim.clear_timer(cx, self.id);
        self.stop_listening(cx);
        let bury = claim.in_flight.any();
        if bury || claim.joined {
            cx.give_back(&self.name, ReleaseParams::of(claim.token, bury));
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
        let tries: alloc::vec::Vec<Caller> = self.queue.iter().map(|(op, _)| op).filter(|op| is_try(cx, *op)).collect();
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
        let tries = is_try(cx, op);
        cx.complete(op, Err(error));
        self.queue.ended(tries, |op| cx.ops.contains_key(&op));
    }

    /// The error for a caller whose wait has ended: another caller has the lock, or no server answered.
    pub(crate) fn empty_handed(&self, cx: &Context, op: Caller) -> Error {
        let failure = self.claim.as_ref().and_then(|claim| claim.failure.clone());
        let told = failure.is_none() && self.claim.as_ref().is_some_and(Claim::is_known_busy);
        if told || self.hold.as_ref().is_some_and(Hold::in_use) {
            return self.busy(cx, op);
        }
        let unanswered = self.claim.as_ref().is_some_and(|claim| claim.in_flight.any());
        let cause = failure
            .or_else(|| cx.flows.failure_since(cx.ops.get(&op)?.since))
            .or(unanswered.then_some(Failure::TimedOut));
        Error::unreachable(waited(cx, op), cause)
    }

    /// The error for a lock that another caller holds or will get first.
    pub(crate) fn busy(&self, cx: &Context, op: Caller) -> Error {
        let here = self.hold.as_ref().filter(|hold| hold.in_use()).map(|hold| hold.validity.until);
        let ends = here.or_else(|| self.claim.as_ref()?.holder_ends);
        let holder_remaining = ends.map(|ends| ends.since(cx.now));
        Error::busy(waited(cx, op), holder_remaining)
    }

    /// Whether the lock is busy for a caller with these options, as far as is known without asking the server.
    pub(crate) fn is_busy_for(&self, cx: &Context, options: &AcquireOptions) -> bool {
        let told = self.claim.as_ref().is_some_and(Claim::is_known_busy);
        let head = self.queue.head().map_or(*options, |(_, head)| head);
        let shares = options.mode == Mode::Shared && head.mode == Mode::Shared;
        let behind = self.queue.len() > self.queue.tries() && !shares;
        let excludes = |hold: &Hold| hold.excludes(cx, options) || hold.excludes(cx, &head);
        told || behind || self.hold.as_ref().is_some_and(excludes)
    }
}

pub(crate) fn waited(cx: &Context, op: Caller) -> Duration {
    cx.ops.get(&op).map(|op| cx.now.since(op.since)).unwrap_or_default()
}

pub(crate) fn is_try(cx: &Context, op: Caller) -> bool {
    matches!(cx.ops.get(&op).map(|op| &op.kind), Some(OpKind::Acquire { tries: true, .. }))
}
