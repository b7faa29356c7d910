//! Keeping a lease: renewals, fence refills, and the users' extend and verify.

use super::LockState;
use super::change::Change;
use super::hold::{GiveBack, Validity};
use crate::error::{Error, LossReason};
use crate::event::Outcome;
use crate::ids::{Caller, Token};
use crate::options::MOST_FENCES;
use crate::session::{
    Acquire, AcquireMode, Body, Context, OpKind, Purpose, Renew, SentCommand, Timer, covering, needed,
};
use crate::time::{Duration, Instant};
use crate::wire::{Answer, Failed, FailureClass, Status};

/// The shortest pause before a renewal is retried.
const RETRY: Duration = Duration::from_millis(10);
/// The pause before the next renewal is that after so many failures, if a local caller waits for the renewal.
const AS_FAILURES: u32 = 2;

impl LockState {
    /// The renewal's timer fired: a renewal, or another attempt, is due.
    pub(crate) fn renewal_due(&mut self, cx: &mut Context) {
        let Some(hold) = &mut self.hold else { return };
        hold.timers.renewal = None;
        // A lock that is held for long may be taken by force. The client subscribes to be notified of that at once.
        cx.listen();
        self.send_renewal(cx);
    }

    /// The renewal that the holders need now.
    pub(crate) fn renewal(&self, cx: &Context) -> Option<Renew> {
        let hold = self.hold.as_ref()?;
        let ttl = hold.wants(cx).max(hold.extra_renewal())?;
        Some(Renew { token: hold.token, mode: hold.mode, ttl: Some(ttl) })
    }

    fn send_renewal(&mut self, cx: &mut Context) {
        let Some(what) = self.renewal(cx) else { return };
        let Some(hold) = &mut self.hold else { return };
        let left = hold.validity.until.time_since(cx.now);
        // The answer to the convert brings the new token. Until then no renewal is possible.
        if !hold.is_converting() {
            let soon = if hold.extra_renewal().is_some() { needed::CALL.min(left / 8) } else { left / 8 };
            let purpose = Purpose::Renew { lock: self.id, token: hold.token, op: None };
            if !cx.send_fast(soon, purpose, self.request(Body::Renew(what))) {
                return;
            }
        }
        self.renewal_sent(cx);
    }

    /// The renewal has left. It is retried after a quarter of the remaining time.
    pub(crate) fn renewal_sent(&mut self, cx: &mut Context) {
        let Some(hold) = &mut self.hold else { return };
        let left = hold.validity.until.time_since(cx.now);
        let again = cx.now + (left / 4).max(RETRY);
        cx.timers.set(Timer::Renewal(self.id), &mut hold.timers.renewal, Some(again));
    }

    /// The next local caller needs more time than is left, or the client asks whether the server still has the lease.
    pub(crate) fn renew_to(&mut self, cx: &mut Context, ttl: Duration) {
        let Some(hold) = self.hold.as_mut().filter(|hold| !hold.is_in_transition()) else { return };
        if hold.extra_renewal().is_none_or(|sent| sent < ttl) {
            hold.change = Change::Renewal(ttl);
            self.send_renewal(cx);
        }
    }

    pub(crate) fn renew_answered(
        &mut self,
        cx: &mut Context,
        sent: &SentCommand,
        token: Token,
        op: Option<Caller>,
        answer: &Answer,
    ) {
        let id = self.id;
        let Some(hold) = self.hold.as_mut().filter(|hold| hold.token == token) else {
            return ask_by_new_token(cx, op);
        };
        match answer.status {
            Status::Renewed => {
                let left = answer.left.unwrap_or_default();
                if hold.extra_renewal() <= Some(left) {
                    hold.end_extra_renewal();
                }
                if !hold.is_converting() {
                    let answered = Validity::new(cx, sent.at, left);
                    // If the command set nothing, its answer doesn't postpone the next renewal.
                    let until = answered.until.max(hold.validity.until);
                    let confirmed = answered.confirmed.max(hold.validity.confirmed);
                    let validity =
                        if sets(cx, op, left) { answered } else { Validity { until, confirmed, ..hold.validity } };
                    hold.extend(cx, id, validity);
                }
                hold.note_waiting(cx, id, answer.waiting);
                match op {
                    Some(op) if !hold.is_converting() => self.lease_call_answered(cx, op),
                    op => ask_by_new_token(cx, op),
                }
                self.settle(cx, None);
            }
            // While a convert is unanswered, the old token may be gone for a good reason.
            _ if hold.is_converting() => ask_by_new_token(cx, op),
            Status::Taken => self.renew_found_nothing(cx, op, LossReason::Taken),
            _ => self.renew_found_nothing(cx, op, LossReason::Gone),
        }
    }

    /// The server has renewed this token by a command that another thread of this process sent at `sent`.
    pub(crate) fn renewed_elsewhere(&mut self, cx: &mut Context, token: Token, sent: Instant, left: Duration) {
        let Some(hold) = self.hold.as_mut().filter(|hold| hold.token == token && !hold.is_converting()) else { return };
        hold.extend(cx, self.id, Validity::new(cx, sent, left));
    }

    /// The server says that we don't hold the lease. That is the answer to a verify.
    fn renew_found_nothing(&mut self, cx: &mut Context, op: Option<Caller>, reason: LossReason) {
        if let Some(op) = op
            && matches!(cx.ops.get(&op).map(|op| &op.kind), Some(OpKind::Verify { .. }))
        {
            cx.complete(op, Ok(Outcome::Verified(false)));
        }
        self.lose_hold(cx, reason, GiveBack::IfInFlight);
    }

    /// Ends a user's extend or verify.
    pub(super) fn lease_call_answered(&mut self, cx: &mut Context, op: Caller) {
        let Some(hold) = &self.hold else { return };
        let (id, outcome) = match cx.ops.get(&op).map(|op| &op.kind) {
            Some(OpKind::Verify { lease, .. }) => (*lease, Outcome::Verified(true)),
            Some(OpKind::Extend { lease, .. }) => {
                let id = *lease;
                let Some(lease) = cx.leases.get_mut(&id) else { return };
                lease.known_end = lease.ends.map_or(hold.validity.until, |ends| ends.at.min(hold.validity.until));
                (id, Outcome::Extended { valid_until: lease.known_end })
            }
            _ => return,
        };
        if let Some(lease) = cx.leases.get_mut(&id) {
            lease.call_ended(op);
        }
        cx.complete(op, Ok(outcome));
    }

    pub(crate) fn renew_failed(&mut self, cx: &mut Context, token: Token, op: Option<Caller>, failed: Failed) {
        let Some(hold) = self.hold.as_mut().filter(|hold| hold.token == token) else {
            return ask_by_new_token(cx, op);
        };
        match (failed.class, op) {
            // The key was overwritten with another type.
            (FailureClass::Fatal(Error::WrongKind(_)), op) => self.renew_found_nothing(cx, op, LossReason::Taken),
            (FailureClass::Fatal(error), Some(op)) => cx.fail(op, error),
            (FailureClass::Retry(_), Some(op)) => cx.send_op_again(op),
            // A local caller waits. The pause is short, so that readers who hold the lease have time for several attempts.
            (FailureClass::Retry(_), None) if hold.extra_renewal().is_some() => {
                let at = cx.now + cx.backoff(AS_FAILURES, hold.validity.granted / 8);
                cx.timers.set(Timer::Renewal(self.id), &mut hold.timers.renewal, Some(at));
            }
            // The renewal's timer retries as long as the lease is valid.
            (FailureClass::Retry(_) | FailureClass::Fatal(_), None) => {}
        }
    }

    /// Sends a user's extend or verify. Both are renewals; a verify changes nothing.
    pub(crate) fn send_lease_call(&mut self, cx: &mut Context, op: Caller) {
        let Some(hold) = &mut self.hold else { return };
        let (id, wanted, raise) = match cx.ops.get(&op).map(|op| &op.kind) {
            Some(OpKind::Extend { lease, ttl }) => (*lease, Some(*ttl), 0),
            Some(OpKind::Verify { lease, raise }) => (*lease, None, *raise),
            _ => return,
        };
        let Some(lease) = cx.leases.get_mut(&id) else { return };
        if hold.is_converting() {
            return cx.send_op_again(op);
        }
        // At least the requested time, after drift is subtracted.
        let mut ttl = wanted.map(covering).unwrap_or_default();
        if let Some(wanted) = wanted {
            if lease.renew {
                ttl = lease.ends.map_or(ttl, |ends| ttl.min(covering(ends.at.time_since(cx.now))));
            } else {
                let end = lease.bounded(cx.now + wanted);
                ttl = ttl.min(covering(end.time_since(cx.now)));
                let ends = lease.ends.map(|ends| ends.at.max(end));
                cx.timers.set(Timer::LeaseEnds(id), &mut lease.ends, ends);
            }
        }
        let (token, mode) = (hold.token, hold.mode);
        let body = match raise {
            0 => Body::Renew(Renew { token, mode, ttl: Some(ttl) }),
            #[cfg(feature = "quorum")]
            fence => Body::Raise { token, mode, fence },
            #[cfg(not(feature = "quorum"))]
            _ => return,
        };
        let purpose = Purpose::Renew { lock: self.id, token, op: Some(op) };
        if cx.send(needed::CALL, purpose, self.request(body)) {
            cx.op_sent(op);
        }
    }

    /// Asks for fences and a confirmation early, so that local callers don't have to wait for them. In a mixed fleet, also
    /// asks whether the lease is still there, if the server has not confirmed it since the last caller came.
    pub(super) fn refill_if_low(&mut self, cx: &mut Context) {
        let Some(hold) = &self.hold else { return };
        let none_wait = hold.budget.is_none() && !hold.tainted;
        let low = hold.fences.left() <= hold.refill.size / 2;
        let last = || self.queue.iter().map(|(op, _)| op).rfind(|op| cx.ops.contains_key(op));
        let unsure = cx.config.mixed_fleet && last().is_some_and(|op| self.is_unsure(cx, op));
        if unsure || none_wait && (low || hold.needs_confirming(cx)) {
            self.refill(cx);
        }
    }

    /// A client that hands over locally without hearing from the server asks from time to time whether others wait.
    pub(super) fn ask_whether_wanted(&mut self, cx: &mut Context) {
        let Some(hold) = &self.hold else { return };
        let long_ago = cx.now.time_since(hold.waiting_known_at) >= cx.claim_window / 3;
        if hold.budget.is_none() && long_ago {
            self.refill(cx);
        }
    }

    /// Asks for more fences, so that local hand-overs can go on.
    pub(crate) fn refill(&mut self, cx: &mut Context) {
        let id = self.id;
        let callers = u64::try_from(self.queue.len()).unwrap_or(MOST_FENCES);
        let Some(hold) = &mut self.hold else { return };
        if hold.refill.unanswered || hold.is_converting() {
            return;
        }
        // As many as the callers could use, or more if the last block was used quickly.
        let last = hold.refill.size;
        let grown = if hold.fences.left() <= last / 2 { last.saturating_mul(2) } else { last };
        let size = callers.saturating_add(1).max(grown).max(cx.config.counted_block()).min(MOST_FENCES);
        // A question leaves a lease its time. 0 would not do, because it deletes a key without a TTL.
        let rest = if cx.config.mixed_fleet { hold.validity.until.time_since(cx.now) } else { hold.validity.granted };
        let what = Acquire {
            token: hold.token,
            kind: hold.kind,
            mode: hold.mode,
            per: None,
            ttl: hold.wants(cx).unwrap_or(rest),
            how: AcquireMode::Refill,
            block: size,
        };
        hold.refill.unanswered = true;
        hold.refill.asked = size;
        cx.timers.set(Timer::Refill(id), &mut hold.refill.timer, None);
        let purpose = Purpose::Refill { lock: id, token: hold.token };
        if cx.send(needed::CALL, purpose, self.request(Body::Acquire(what))) {
            self.refill_sent(cx);
        }
    }

    /// The refill has left. If it is not answered, another one may be sent after a while.
    pub(crate) fn refill_sent(&mut self, cx: &mut Context) {
        let Some(hold) = &mut self.hold else { return };
        let again = cx.now + cx.flows.resend_after(hold.refill.failures, cx.claim_window / 3).min(cx.claim_window);
        cx.timers.set(Timer::Refill(self.id), &mut hold.refill.timer, Some(again));
    }

    /// The timer of an unanswered refill fired. Another one may be sent if it is still needed.
    pub(crate) fn refill_due(&mut self, cx: &mut Context) {
        let Some(hold) = &mut self.hold else { return };
        hold.refill.timer = None;
        if hold.refill.unanswered {
            hold.refill.failures = hold.refill.failures.saturating_add(1);
        }
        hold.refill.unanswered = false;
        self.settle(cx, None);
    }

    pub(crate) fn refill_answered(&mut self, cx: &mut Context, sent: &SentCommand, token: Token, answer: &Answer) {
        let id = self.id;
        let Some(hold) = self.hold.as_mut().filter(|hold| hold.token == token) else { return };
        hold.refill.unanswered = false;
        cx.timers.set(Timer::Refill(id), &mut hold.refill.timer, None);
        match answer.status {
            Status::Again => {
                hold.refill.failures = 0;
                hold.refill.size = hold.refill.asked;
                #[cfg(feature = "quorum")]
                if cx.is_of_quorum() {
                    // The counter of a quorum can be ahead of a server's clock for long. Then the server gives one fence at
                    // a time, and it would not help to ask again at once.
                    hold.refill.size = hold.refill.asked.min(answer.block);
                }
                hold.confirmed_at(cx, answer.server);
                hold.fences.add(answer.value, answer.block);
                let validity = Validity::new(cx, sent.at, answer.left.unwrap_or_default());
                if !hold.is_converting() {
                    hold.extend(cx, id, validity);
                }
                hold.note_waiting(cx, id, answer.waiting);
                self.settle(cx, None);
            }
            _ if hold.is_converting() => {}
            status => {
                let reason = if status == Status::Taken { LossReason::Taken } else { LossReason::Gone };
                self.lose_hold(cx, reason, GiveBack::IfInFlight);
            }
        }
    }

    pub(crate) fn refill_failed(&mut self, cx: &mut Context, token: Token, failed: Failed) {
        let id = self.id;
        let Some(hold) = self.hold.as_mut().filter(|hold| hold.token == token) else { return };
        match failed.class {
            FailureClass::Retry(_) => {
                let wait = cx.backoff(hold.refill.failures, cx.claim_window / 3);
                hold.refill.failures = hold.refill.failures.saturating_add(1);
                cx.timers.set(Timer::Refill(id), &mut hold.refill.timer, Some(cx.now + wait));
            }
            FailureClass::Fatal(Error::WrongKind(_)) => self.lose_hold(cx, LossReason::Taken, GiveBack::IfInFlight),
            // The next holder has to ask the server itself, and gets the error.
            FailureClass::Fatal(_) => {
                hold.tainted = true;
                self.settle(cx, None);
            }
        }
    }
}

/// Whether the answer reports what the command set. A verify sets nothing, and neither does an extend to less than the
/// remaining time. If their answers counted as new grants, frequent calls would postpone the renewal to the very end.
fn sets(cx: &Context, op: Option<Caller>, left: Duration) -> bool {
    let Some(op) = op else { return true };
    matches!(cx.ops.get(&op).map(|op| &op.kind), Some(OpKind::Extend { ttl, .. }) if left <= covering(*ttl))
}

/// A user's extend or verify is sent again with the new token, if its token was replaced or is being replaced.
fn ask_by_new_token(cx: &mut Context, op: Option<Caller>) {
    let Some(op) = op else { return };
    // The server has answered: if the next command waits in our own queue, that is not the server's silence.
    cx.sends_another(op);
    cx.send_op_again(op);
}
