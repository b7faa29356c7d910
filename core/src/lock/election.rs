//! What the observers of an election know, and when they ask. Campaigning, leading and resigning are acquiring, renewing and
//! releasing an exclusive lock. Its acquires carry the client's value, so the script that grants the lock also publishes who
//! leads.
//!
//! ```text
//!       subscribed, or no messages       answered              the leader's TTL is over, or subscribed again
//! new ---------------------------> asks ---------> knows -----------------------------------------------> asks
//!                                   ^  |            ^ | a message of a later term
//!                                   '--' failed     '-'
//! ```
//!
//! Terms have an order: by their fences, and each is over after it has begun. A message tells a later term, and so does an
//! answer. An answer to a question that was asked after the last news counts whatever it tells: after a failover, the server may
//! have lost the last terms. Anything else may be late. If it differs from what is known, the observers ask again.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::LockState;
use super::observed::Observed;
use super::reentrant::channel;
use crate::error::Error;
use crate::event::Leader;
use crate::ids::{Caller, Channel};
use crate::session::{Body, Context, Purpose, Timer, needed};
use crate::time::{Duration, Instant};
use crate::wire::{Failed, FailureClass, Term};

impl LockState {
    /// A call observes the election from now on.
    pub(crate) fn observe(&mut self, cx: &mut Context, op: Caller) {
        let observed = self.observed.get_or_insert_with(|| {
            Box::new(Observed {
                observers: Vec::new(),
                known: false,
                leader: None,
                last: (0, false),
                learned: cx.now,
                ttl: UNTOLD,
                longest: Duration::ZERO,
                failures: 0,
                timer: None,
            })
        });
        observed.observers.push(op);
        if observed.known {
            observed.tell(cx, op);
        }
        self.subscription.want(cx, Channel::Of(self.id), &channel(&self.name));
    }

    /// A call has ended, or all of them have.
    pub(crate) fn stop_observing(&mut self, cx: &mut Context, op: Option<Caller>) {
        let Some(observed) = &mut self.observed else { return };
        observed.observers.retain(|observer| op.is_some_and(|op| *observer != op));
        if observed.observers.is_empty() {
            cx.timers.set(Timer::Observe(self.id), &mut observed.timer, None);
            self.subscription.unsubscribe(cx, Channel::Of(self.id), &channel(&self.name));
            self.observed = None;
        }
    }

    /// The server refuses the question, or the client is closed.
    pub(crate) fn end_observers(&mut self, cx: &mut Context, error: &Error) {
        let Some(observed) = &mut self.observed else { return };
        for op in core::mem::take(&mut observed.observers) {
            cx.fail(op, error.clone());
        }
        self.stop_observing(cx, None);
    }

    /// The subscription has changed. Messages may have been missed before it, or there are none.
    pub(crate) fn observes_anew(&mut self, cx: &mut Context) {
        if !self.subscription.is_polling() || self.subscription.is_refused() {
            self.ask_who_leads(cx);
        } else {
            self.ask_again_after(cx, cx.claim_window);
        }
    }

    /// The timer of the next question fired.
    pub(crate) fn question_due(&mut self, cx: &mut Context) {
        if let Some(observed) = &mut self.observed {
            observed.timer = None;
        }
        self.ask_who_leads(cx);
    }

    /// The observers ask who leads.
    pub(crate) fn ask_who_leads(&mut self, cx: &mut Context) {
        let Some(observed) = &mut self.observed else { return };
        cx.timers.set(Timer::Observe(self.id), &mut observed.timer, None);
        let (purpose, request) = (Purpose::Observe { lock: self.id }, self.request(Body::Leader));
        cx.send(needed::CALL, purpose, request);
    }

    /// Asks again after this time, or when it was going to, if that is sooner.
    fn ask_again_after(&mut self, cx: &mut Context, wait: Duration) {
        let Some(observed) = &mut self.observed else { return };
        let at = cx.now + wait;
        let at = observed.timer.map_or(at, |set| set.at.min(at));
        cx.timers.set(Timer::Observe(self.id), &mut observed.timer, Some(at));
    }

    /// A question was sent and failed.
    pub(crate) fn not_told(&mut self, cx: &mut Context, failed: Failed) {
        let Some(observed) = &mut self.observed else { return };
        match failed.class {
            FailureClass::Retry(_) => {
                let mut wait = cx.backoff(observed.failures, cx.claim_window);
                observed.failures = observed.failures.saturating_add(1);
                if observed.leader.is_some() {
                    let ends = observed.learned + observed.longest + cx.claim_window;
                    wait = wait.min(ends.time_since(cx.now));
                    if wait.is_zero() {
                        observed.leader = None;
                        observed.change(cx);
                    }
                }
                self.ask_again_after(cx, wait);
            }
            FailureClass::Fatal(error) => self.end_observers(cx, &error),
        }
    }

    /// The server has said who leads: by a message, or in answer to a question that was sent at this time.
    pub(crate) fn told_who_leads(&mut self, cx: &mut Context, asked: Option<Instant>, term: Option<Term<'_>>) {
        let Some(observed) = &mut self.observed else { return };
        observed.failures = 0;
        let last = term.as_ref().map_or((0, false), Term::place).max(observed.last);
        let leader = term.filter(|term| !term.is_over());
        let left = leader.as_ref().map_or(UNTOLD, |term| term.left);
        if leader.is_some() {
            observed.longest = observed.longest.max(left);
        }
        let leader =
            leader.map(|Term { fence, led, value, .. }| Leader { value: value.into(), fence, led: led.into() });
        let fence = |leader: &Option<Leader>| leader.as_ref().map(|leader| leader.fence);
        let is_same = fence(&leader) == fence(&observed.leader);
        let is_late = asked.is_none_or(|asked| asked <= observed.learned);
        if observed.known && last == observed.last && is_late && (asked.is_none() || !is_same) {
            // A clock may be coarse: what was asked in the moment of a message may be older, and the TTL decides.
            if asked != Some(observed.learned) {
                // A question that is under way has no timer.
                if !is_same && observed.timer.is_some() {
                    self.ask_who_leads(cx);
                }
                return;
            }
        } else {
            (observed.last, observed.leader, observed.learned) = (last, leader, cx.now);
            observed.ttl = if is_same { observed.ttl.max(left) } else { left };
            if !is_same || !observed.known {
                observed.known = true;
                observed.change(cx);
            }
        }
        // A lost message must not hide a leader for longer than that.
        let most = if self.subscription.is_polling() { cx.claim_window } else { Duration::MAX };
        let at = (asked.unwrap_or(cx.now) + observed.ttl).min(cx.now + most);
        cx.timers.set(Timer::Observe(self.id), &mut observed.timer, Some(at));
    }
}

/// When to ask again while nobody leads. A message tells of the next leader before, unless it is lost.
const UNTOLD: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::super::observed::observed_key;
    use super::*;
    use crate::options::Family;
    use crate::wire::Name;

    #[test]
    fn a_channel_leads_to_its_election() {
        for key in ["job", "{job}", "a{b}c", "a:b", "x{y}"] {
            let name = Name::new(key.into(), Family::Election);
            assert_eq!(observed_key(&channel(&name)), Some(key));
        }
        assert_eq!(observed_key("leasehold:07070707-0707-0707-0707-070707070707"), None);
    }
}
