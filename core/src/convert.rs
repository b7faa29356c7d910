//! Downgrade and upgrade: the lease gets a new token in the other mode.
//!
//! A downgraded lease counts as shared from the moment the command is sent. An upgraded lease counts as
//! exclusive once the answer arrives. Renewals pause until then, so a convert without an answer ends when the
//! lease expires, at the latest.

use core::time::Duration;

use crate::answer::{Answer, Status};
use crate::calls::{Call, Purpose};
use crate::context::Context;
use crate::error::{Error, LossReason};
use crate::event::{Grant, LeaseId, OpId, Outcome};
use crate::fences::Fences;
use crate::flow::within;
use crate::options::{Family, Mode};
use crate::resource::Resource;
use crate::script::{Convert, Form};
use crate::tenure::{Converting, Strays, Validity};
use crate::timers::Timer;
use crate::token::Token;
use crate::trouble::{Failed, Trouble};

/// How soon to resend a convert. Renewals pause meanwhile, so the resends keep the lease alive, after a quarter of the time left.
fn retry_within(cx: &Context, validity: &Validity) -> Duration {
    (validity.until.since(cx.now) / 4).clamp(Duration::from_millis(10), cx.config.claim_window / 3)
}

const OTHER_READERS: Error = Error::Conflict("other readers hold the lock as well: only a sole reader can upgrade");
const UNDER_WAY: Error = Error::Conflict("the lease is being converted already: wait for that call to end");

impl Resource {
    pub(crate) fn convert(&mut self, cx: &mut Context, op: OpId, id: LeaseId, to: Mode) {
        let (Some(tenure), Some(lease)) = (&mut self.tenure, cx.leases.get_mut(&id)) else {
            return cx.complete(op, Err(Error::NotHeld));
        };
        if tenure.converting.is_some() || tenure.upgrading.is_some() {
            return cx.complete(op, Err(UNDER_WAY));
        }
        if lease.mode == to {
            return self.converted(cx, op, id, true);
        }
        if tenure.holders.len() > 1 {
            return cx.complete(op, Err(OTHER_READERS));
        }
        if self.name.family != Family::Lock {
            return cx.complete(op, Err(Error::Unsupported("only a read-write lock has two modes".into())));
        }
        lease.pending.push(op);
        if to == Mode::Exclusive && tenure.mode == Mode::Exclusive {
            // On the server the token is exclusive already. Only a fence above those of the past readers is missing.
            tenure.upgrading = Some((op, id));
            cx.end_op_within(op, cx.config.response_timeout);
            return self.settle(cx, None);
        }
        if to == Mode::Shared {
            lease.mode = to;
        }
        let new = cx.new_token();
        tenure.converting =
            Some(Converting { op, lease: id, new, to, strays: Strays::default(), failures: 0, timer: None });
        self.send_convert(cx, Form::Digest);
    }

    fn send_convert(&mut self, cx: &mut Context, form: Form) {
        let id = self.id;
        let Some(tenure) = &mut self.tenure else { return };
        let Some(converting) = &mut tenure.converting else { return };
        let ttl = cx.leases.get(&converting.lease).map(|lease| lease.wants(cx.now, cx.now).unwrap_or(lease.ttl));
        let what = Convert {
            old: tenure.token,
            new: converting.new,
            mode: converting.to,
            ttl: ttl.unwrap_or(tenure.validity.granted),
            block: u64::from(cx.config.local_handoffs).saturating_add(1),
            bury: tenure.strays.any(),
        };
        cx.timers.set(Timer::Convert(id), &mut converting.timer, None);
        let purpose = Purpose::Convert { resource: id, new: converting.new };
        let command = cx.convert_command(form, &self.name, &what);
        if cx.send(within::CALL, purpose, command) {
            self.convert_sent(cx);
        }
    }

    /// The convert has left. It is resent if no answer comes.
    pub(crate) fn convert_sent(&mut self, cx: &mut Context) {
        let id = self.id;
        let Some(tenure) = &mut self.tenure else { return };
        let Some(converting) = &mut tenure.converting else { return };
        let least = retry_within(cx, &tenure.validity);
        let again = cx.flows.resend_after(converting.strays.unanswered, least).min(least.saturating_mul(2));
        converting.strays.sent();
        cx.timers.set(Timer::Convert(id), &mut converting.timer, Some(cx.now + again));
    }

    /// The timer of an unanswered convert fired.
    pub(crate) fn convert_due(&mut self, cx: &mut Context) {
        if let Some(converting) = self.tenure.as_mut().and_then(|tenure| tenure.converting.as_mut()) {
            converting.timer = None;
            self.send_convert(cx, Form::Digest);
        }
    }

    pub(crate) fn convert_answered(&mut self, cx: &mut Context, call: &Call, new: Token, answer: &Answer) {
        let id = self.id;
        let Some(tenure) = &mut self.tenure else { return };
        let Some(mut converting) = tenure.converting.take_if(|converting| converting.new == new) else {
            if tenure.token == new {
                tenure.strays.ended(false);
            }
            return;
        };
        cx.timers.set(Timer::Convert(id), &mut converting.timer, None);
        converting.strays.ended(false);
        match answer.status {
            Status::Converted | Status::Again => {
                tenure.token = new;
                tenure.mode = converting.to;
                tenure.server = answer.server;
                tenure.fences = Fences::new(answer.value, answer.block);
                tenure.refill.unanswered = false;
                cx.timers.set(Timer::Refill(id), &mut tenure.refill.timer, None);
                tenure.strays = converting.strays;
                let fence = tenure.fences.take();
                // The script only ever lengthens the TTL, so the earlier deadline still holds.
                let told = Validity::new(cx, call.sent, answer.left.unwrap_or_default());
                tenure.validity = Validity { until: told.until.max(tenure.validity.until), ..told };
                tenure.watch(cx, id);
                tenure.heard(cx, id, answer.waiting);
                if let Some(lease) = cx.leases.get_mut(&converting.lease) {
                    lease.mode = converting.to;
                    lease.fence = fence.unwrap_or(lease.fence);
                }
                self.converted(cx, converting.op, converting.lease, false);
                self.settle(cx, None);
            }
            Status::Conflict => {
                // The script has buried the new token, so no delayed copy of the command can convert the lease any more.
                let op = converting.op;
                tenure.converting = Some(converting);
                self.unconvert(cx);
                cx.complete(op, Err(OTHER_READERS));
                self.settle(cx, None);
            }
            status => {
                // The lease had already been lost. The new token must be buried too.
                tenure.converting = Some(converting);
                let reason = if status == Status::Taken { LossReason::Taken } else { LossReason::Gone };
                self.lose_tenure(cx, reason, true);
            }
        }
    }

    pub(crate) fn convert_failed(&mut self, cx: &mut Context, new: Token, failed: Failed) {
        let id = self.id;
        let Some(tenure) = &mut self.tenure else { return };
        let Some(converting) = tenure.converting.as_mut().filter(|converting| converting.new == new) else {
            if tenure.token == new {
                tenure.strays.ended(failed.maybe_applied);
            }
            return;
        };
        converting.strays.ended(failed.maybe_applied);
        match failed.trouble {
            Trouble::NoScript => self.send_convert(cx, Form::Source),
            Trouble::Fatal(Error::WrongKind(_)) => self.lose_tenure(cx, LossReason::Taken, true),
            Trouble::Fatal(error) if !converting.strays.any() => {
                let op = converting.op;
                self.unconvert(cx);
                cx.complete(op, Err(error));
            }
            // A copy of the command may still be applied, so the outcome must be settled. This ends when the
            // lease expires, at the latest.
            Trouble::Retry(_) | Trouble::Fatal(_) => {
                let wait = cx.backoff(converting.failures, retry_within(cx, &tenure.validity));
                converting.failures = converting.failures.saturating_add(1);
                cx.timers.set(Timer::Convert(id), &mut converting.timer, Some(cx.now + wait));
            }
        }
    }

    /// The server has not converted the lease and never will: restores its state.
    fn unconvert(&mut self, cx: &mut Context) {
        let id = self.id;
        let Some(tenure) = &mut self.tenure else { return };
        let Some(mut converting) = tenure.converting.take() else { return };
        cx.timers.set(Timer::Convert(id), &mut converting.timer, None);
        if let Some(lease) = cx.leases.get_mut(&converting.lease) {
            lease.mode = tenure.mode;
            lease.pending.retain(|pending| *pending != converting.op);
        }
        tenure.schedule_renewal(cx, id);
    }

    /// Completes a local upgrade as soon as there is a fence for it.
    pub(crate) fn finish_upgrade(&mut self, cx: &mut Context) {
        let Some(tenure) = &mut self.tenure else { return };
        let Some((op, id)) = tenure.upgrading else { return };
        if !cx.ops.contains_key(&op) {
            tenure.upgrading = None;
            return;
        }
        let Some(fence) = tenure.fences.take() else { return self.refill(cx) };
        tenure.upgrading = None;
        if let Some(lease) = cx.leases.get_mut(&id) {
            lease.mode = Mode::Exclusive;
            lease.fence = fence;
        }
        self.converted(cx, op, id, true);
    }

    fn converted(&mut self, cx: &mut Context, op: OpId, id: LeaseId, local: bool) {
        let (Some(tenure), Some(lease)) = (&self.tenure, cx.leases.get_mut(&id)) else {
            return cx.complete(op, Err(Error::NotHeld));
        };
        lease.pending.retain(|pending| *pending != op);
        let until = tenure.validity.until;
        let valid_until = lease.ends.map_or(until, |ends| ends.at.min(until));
        let grant = Grant { lease: id, mode: lease.mode, fence: lease.fence, valid_until, local };
        cx.complete(op, Ok(Outcome::Converted(grant)));
    }
}
