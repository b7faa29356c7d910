//! Keeping a lease: renewals, fence refills, and the users' extend and verify.

use core::time::Duration;

use crate::answer::{Answer, Status};
use crate::calls::{Call, Purpose};
use crate::context::Context;
use crate::error::{Error, LossReason};
use crate::event::{OpId, Outcome};
use crate::flow::within;
use crate::lease::covering;
use crate::op::OpKind;
use crate::resource::Resource;
use crate::script::{Acquire, Form, How};
use crate::tenure::Validity;
use crate::timers::Timer;
use crate::token::Token;
use crate::trouble::{Failed, Trouble};

/// The shortest pause before a renewal is retried.
const RETRY: Duration = Duration::from_millis(10);
/// The most fences to ask for at once. The server limits how far they may run ahead of its clock.
const MOST_FENCES: u64 = 1024;

impl Resource {
    /// The renewal's timer fired: a renewal, or another attempt, is due.
    pub(crate) fn renewal_due(&mut self, cx: &mut Context) {
        let Some(tenure) = &mut self.tenure else { return };
        tenure.timers.renewal = None;
        // A lock that is held for long may be taken by force. The client subscribes to be notified of that at once.
        cx.listen();
        if let Some(ttl) = tenure.wants(cx).max(tenure.passing) {
            self.send_renewal(cx, ttl);
        }
    }

    fn send_renewal(&mut self, cx: &mut Context, ttl: Duration) {
        let Some(tenure) = &mut self.tenure else { return };
        let left = tenure.validity.until.since(cx.now);
        // The answer to the convert brings the new token. Until then no renewal is possible.
        if tenure.converting.is_none() {
            let soon = if tenure.passing.is_some() { within::CALL } else { left / 8 };
            let command = cx.renew_command(Form::Digest, &self.name, tenure.token, tenure.mode, ttl);
            let purpose = Purpose::Renew { resource: self.id, token: tenure.token, op: None };
            if !cx.send(soon, purpose, command) {
                return;
            }
        }
        self.renewal_sent(cx);
    }

    /// The renewal has left. It is retried after a quarter of the remaining time.
    pub(crate) fn renewal_sent(&mut self, cx: &mut Context) {
        let Some(tenure) = &mut self.tenure else { return };
        let left = tenure.validity.until.since(cx.now);
        let again = cx.now + (left / 4).max(RETRY);
        cx.timers.set(Timer::Renewal(self.id), &mut tenure.timers.renewal, Some(again));
    }

    /// The next local caller needs more time than is left.
    pub(crate) fn renew_to_pass(&mut self, cx: &mut Context, ttl: Duration) {
        let Some(tenure) = &mut self.tenure else { return };
        if tenure.passing.is_none_or(|sent| sent < ttl) {
            tenure.passing = Some(ttl);
            self.send_renewal(cx, ttl);
        }
    }

    pub(crate) fn renew_answered(
        &mut self,
        cx: &mut Context,
        call: &Call,
        (token, op): (Token, Option<OpId>),
        answer: &Answer,
    ) {
        let id = self.id;
        let Some(tenure) = self.tenure.as_mut().filter(|tenure| tenure.token == token) else {
            return ask_by_new_token(cx, op);
        };
        match answer.status {
            Status::Renewed => {
                let left = answer.left.unwrap_or_default();
                if tenure.converting.is_none() {
                    let told = Validity::new(cx, call.sent, left);
                    // If the command set nothing, its answer doesn't postpone the next renewal.
                    let until = told.until.max(tenure.validity.until);
                    let confirmed = told.confirmed.max(tenure.validity.confirmed);
                    let validity =
                        if sets(cx, op, left) { told } else { Validity { until, confirmed, ..tenure.validity } };
                    tenure.extend(cx, id, validity);
                }
                match op {
                    Some(op) if tenure.converting.is_none() => self.lease_call_answered(cx, op),
                    op => ask_by_new_token(cx, op),
                }
                self.settle(cx, None);
            }
            // While a convert is unanswered, the old token may be gone for a good reason.
            _ if tenure.converting.is_some() => ask_by_new_token(cx, op),
            Status::Taken => self.renew_found_nothing(cx, op, LossReason::Taken),
            _ => self.renew_found_nothing(cx, op, LossReason::Gone),
        }
    }

    /// The server says that we don't hold the lease. That is the answer to a verify.
    fn renew_found_nothing(&mut self, cx: &mut Context, op: Option<OpId>, reason: LossReason) {
        if let Some(op) = op
            && matches!(cx.ops.get(&op).map(|op| &op.kind), Some(OpKind::Verify { .. }))
        {
            cx.complete(op, Ok(Outcome::Verified(false)));
        }
        self.lose_tenure(cx, reason, false);
    }

    /// Ends a user's extend or verify.
    fn lease_call_answered(&mut self, cx: &mut Context, op: OpId) {
        let Some(tenure) = &self.tenure else { return };
        let (id, outcome) = match cx.ops.get(&op).map(|op| &op.kind) {
            Some(OpKind::Verify { lease, .. }) => (*lease, Outcome::Verified(true)),
            Some(OpKind::Extend { lease, .. }) => {
                let id = *lease;
                let Some(lease) = cx.leases.get_mut(&id) else { return };
                lease.told = lease.ends.map_or(tenure.validity.until, |ends| ends.at.min(tenure.validity.until));
                (id, Outcome::Extended { valid_until: lease.told })
            }
            _ => return,
        };
        if let Some(lease) = cx.leases.get_mut(&id) {
            lease.pending.retain(|pending| *pending != op);
        }
        cx.complete(op, Ok(outcome));
    }

    pub(crate) fn renew_failed(&mut self, cx: &mut Context, (token, op): (Token, Option<OpId>), failed: Failed) {
        let Some(tenure) = self.tenure.as_mut().filter(|tenure| tenure.token == token) else {
            return ask_by_new_token(cx, op);
        };
        match (failed.trouble, op) {
            // Until a convert is answered, no renewal is possible.
            (Trouble::NoScript, None) if tenure.converting.is_some() => {}
            (Trouble::NoScript, None) => {
                let granted = tenure.validity.granted;
                let ttl = tenure.wants(cx).max(tenure.passing);
                let command = cx.renew_command(Form::Source, &self.name, token, tenure.mode, ttl.unwrap_or(granted));
                cx.send(within::CALL, Purpose::Renew { resource: self.id, token, op: None }, command);
            }
            (Trouble::NoScript, Some(op)) => self.send_lease_call(cx, op, Form::Source),
            // The key was overwritten with another type.
            (Trouble::Fatal(Error::WrongKind(_)), op) => self.renew_found_nothing(cx, op, LossReason::Taken),
            (Trouble::Fatal(error), Some(op)) => cx.complete(op, Err(error)),
            (Trouble::Retry(_), Some(op)) => cx.send_op_again(op),
            // The renewal's timer retries as long as the lease is valid.
            (Trouble::Retry(_) | Trouble::Fatal(_), None) => {}
        }
    }

    /// Sends a user's extend or verify. Both are renewals; a verify changes nothing.
    pub(crate) fn send_lease_call(&mut self, cx: &mut Context, op: OpId, form: Form) {
        let Some(tenure) = &mut self.tenure else { return };
        let (id, wanted, raise) = match cx.ops.get(&op).map(|op| &op.kind) {
            Some(OpKind::Extend { lease, ttl }) => (*lease, Some(*ttl), 0),
            Some(OpKind::Verify { lease, raise }) => (*lease, None, *raise),
            _ => return,
        };
        let Some(lease) = cx.leases.get_mut(&id) else { return };
        if tenure.converting.is_some() {
            return cx.send_op_again(op);
        }
        // At least the requested time, after drift is subtracted.
        let mut ttl = wanted.map(covering).unwrap_or_default();
        if let Some(wanted) = wanted {
            if lease.renew {
                ttl = lease.ends.map_or(ttl, |ends| ttl.min(covering(ends.at.since(cx.now))));
            } else {
                let ends = lease.ends.map(|ends| ends.at.max(cx.now + wanted));
                cx.timers.set(Timer::LeaseEnds(id), &mut lease.ends, ends);
            }
        }
        #[cfg(feature = "quorum")]
        let lasts = lease.ttl;
        let command = match raise {
            0 => cx.renew_command(form, &self.name, tenure.token, tenure.mode, ttl),
            #[cfg(feature = "quorum")]
            fence => cx.raise_command(form, &self.name, tenure.token, fence, lasts),
            #[cfg(not(feature = "quorum"))]
            _ => return,
        };
        if cx.send(within::CALL, Purpose::Renew { resource: self.id, token: tenure.token, op: Some(op) }, command) {
            cx.op_sent(op);
        }
    }

    /// Asks for more fences, so that local hand-overs can go on.
    pub(crate) fn refill(&mut self, cx: &mut Context) {
        self.send_refill(cx, Form::Digest);
    }

    /// Asks for fences and a confirmation early, so that local callers don't have to wait for them.
    pub(crate) fn refill_if_low(&mut self, cx: &mut Context) {
        let Some(tenure) = &self.tenure else { return };
        let untold = tenure.budget.is_none() && !tenure.tainted && !cx.config.mixed_fleet;
        let low = tenure.fences.left() <= tenure.refill.size / 2;
        if untold && (low || tenure.needs_confirming(cx)) {
            self.send_refill(cx, Form::Digest);
        }
    }

    /// A client that hands over locally without hearing from the server asks from time to time whether others wait.
    pub(crate) fn ask_whether_wanted(&mut self, cx: &mut Context, local: bool) {
        let Some(tenure) = &self.tenure else { return };
        let long_ago = cx.now.since(tenure.heard) >= cx.config.claim_window / 3;
        if local && tenure.budget.is_none() && long_ago {
            self.send_refill(cx, Form::Digest);
        }
    }

    fn send_refill(&mut self, cx: &mut Context, form: Form) {
        let id = self.id;
        let callers = u64::try_from(self.queue.len()).unwrap_or(MOST_FENCES);
        let Some(tenure) = &mut self.tenure else { return };
        if (tenure.refill.unanswered && form == Form::Digest) || tenure.converting.is_some() {
            return;
        }
        // As many as the callers could use, or more if the last block was used quickly.
        let least = u64::from(cx.config.local_handoffs).saturating_add(1);
        let last = tenure.refill.size;
        let grown = if tenure.fences.left() <= last / 2 { last.saturating_mul(2) } else { last };
        let size = callers.saturating_add(1).max(grown).clamp(least, MOST_FENCES);
        let what = Acquire {
            token: tenure.token,
            kind: tenure.kind,
            mode: tenure.mode,
            ttl: tenure.wants(cx).unwrap_or(tenure.validity.granted),
            how: How::Refill,
            block: size,
        };
        tenure.refill.unanswered = true;
        tenure.refill.asked = size;
        cx.timers.set(Timer::Refill(id), &mut tenure.refill.timer, None);
        let command = cx.acquire_command(form, &self.name, &what);
        if cx.send(within::CALL, Purpose::Refill { resource: id, token: tenure.token }, command) {
            self.refill_sent(cx);
        }
    }

    /// The refill has left. If it is not answered, another one may be sent after a while.
    pub(crate) fn refill_sent(&mut self, cx: &mut Context) {
        let Some(tenure) = &mut self.tenure else { return };
        let again = cx.now
            + cx.flows.resend_after(tenure.refill.failures, cx.config.claim_window / 3).min(cx.config.claim_window);
        cx.timers.set(Timer::Refill(self.id), &mut tenure.refill.timer, Some(again));
    }

    /// The timer of an unanswered refill fired. Another one may be sent if it is still needed.
    pub(crate) fn refill_due(&mut self, cx: &mut Context) {
        let Some(tenure) = &mut self.tenure else { return };
        tenure.refill.timer = None;
        if tenure.refill.unanswered {
            tenure.refill.failures = tenure.refill.failures.saturating_add(1);
        }
        tenure.refill.unanswered = false;
        self.settle(cx, None);
    }

    pub(crate) fn refill_answered(&mut self, cx: &mut Context, call: &Call, token: Token, answer: &Answer) {
        let id = self.id;
        let Some(tenure) = self.tenure.as_mut().filter(|tenure| tenure.token == token) else { return };
        tenure.refill.unanswered = false;
        cx.timers.set(Timer::Refill(id), &mut tenure.refill.timer, None);
        match answer.status {
            Status::Again => {
                tenure.refill.failures = 0;
                tenure.refill.size = tenure.refill.asked;
                tenure.server = tenure.server.max(answer.server);
                tenure.fences.add(answer.value, answer.block);
                let validity = Validity::new(cx, call.sent, answer.left.unwrap_or_default());
                if tenure.converting.is_none() {
                    tenure.extend(cx, id, validity);
                }
                tenure.heard(cx, id, answer.waiting);
                self.settle(cx, None);
            }
            _ if tenure.converting.is_some() => {}
            status => {
                let reason = if status == Status::Taken { LossReason::Taken } else { LossReason::Gone };
                self.lose_tenure(cx, reason, false);
            }
        }
    }

    pub(crate) fn refill_failed(&mut self, cx: &mut Context, token: Token, failed: Failed) {
        let id = self.id;
        let Some(tenure) = self.tenure.as_mut().filter(|tenure| tenure.token == token) else { return };
        match failed.trouble {
            Trouble::NoScript => self.send_refill(cx, Form::Source),
            Trouble::Retry(_) => {
                let wait = cx.backoff(tenure.refill.failures, cx.config.claim_window / 3);
                tenure.refill.failures = tenure.refill.failures.saturating_add(1);
                cx.timers.set(Timer::Refill(id), &mut tenure.refill.timer, Some(cx.now + wait));
            }
            Trouble::Fatal(Error::WrongKind(_)) => self.lose_tenure(cx, LossReason::Taken, false),
            // The next holder has to ask the server itself, and gets the error.
            Trouble::Fatal(_) => {
                tenure.tainted = true;
                self.settle(cx, None);
            }
        }
    }
}

/// Whether the answer reports what the command set. A verify sets nothing, and neither does an extend to less than the
/// remaining time. If their answers counted as new grants, frequent calls would postpone the renewal to the very end.
fn sets(cx: &Context, op: Option<OpId>, left: Duration) -> bool {
    let Some(op) = op else { return true };
    matches!(cx.ops.get(&op).map(|op| &op.kind), Some(OpKind::Extend { ttl, .. }) if left <= covering(*ttl))
}

/// A user's extend or verify is sent again with the new token, if its token was replaced or is being replaced.
fn ask_by_new_token(cx: &mut Context, op: Option<OpId>) {
    let Some(op) = op else { return };
    // The server has answered: if the next command waits in our own queue, that is not the server's silence.
    cx.sends_another(op);
    cx.send_op_again(op);
}
