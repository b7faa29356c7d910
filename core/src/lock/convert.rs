//! Downgrade and upgrade: the lease gets a new token in the other mode. A lease that is shortened gets a new token too.
//!
//! A downgraded lease counts as shared from the moment the command is sent. An upgraded lease counts as
//! exclusive once the answer arrives. Renewals pause until then, so a convert without an answer ends when the
//! lease expires, at the latest.

use core::time::Duration;

use super::LockState;
use super::fences::Fences;
use super::hold::{Converting, GiveBack, Hold, Validity};
use crate::error::{Error, LossReason};
use crate::event::{Grant, Outcome};
use crate::ids::{Caller, LeaseId, LockId, Token};
use crate::options::{Family, Mode};
use crate::session::{Ask, Context, Convert, InFlight, Old, Purpose, SentCommand, Timer, needed};
use crate::wire::{Answer, Failed, FailureClass, Status};

/// How soon to resend a convert. Renewals pause meanwhile, so the resends keep the lease alive, after a quarter of the time left.
fn retry_within(cx: &Context, validity: &Validity) -> Duration {
    (validity.until.since(cx.now) / 4).max(Duration::from_millis(10)).min(cx.config.claim_window / 3)
}

const OTHER_CALLERS: Error = Error::Conflict("other callers of this client hold the lease too");
const OTHER_READERS: Error = Error::Conflict("other readers hold the lock: only a sole reader can upgrade");
pub(super) const UNDER_WAY: Error = Error::Conflict("the lease is already being converted: wait for that call");

pub(crate) fn not_shortened() -> Error {
    Error::Unsupported("only a lease of one mutex or read-write lock, not of a quorum, can be shortened".into())
}

impl LockState {
    pub(crate) fn convert(&mut self, cx: &mut Context, op: Caller, id: LeaseId, to: Mode) {
        let (Some(hold), Some(lease)) = (&mut self.hold, cx.leases.get_mut(&id)) else {
            return cx.complete(op, Err(Error::NotHeld));
        };
        if hold.converting.is_some() || hold.upgrading.is_some() {
            return cx.complete(op, Err(UNDER_WAY));
        }
        if lease.mode == to {
            return self.converted(cx, op, id, ConvertedBy::Client);
        }
        if hold.holders.len() > 1 {
            return cx.complete(op, Err(OTHER_READERS));
        }
        if self.name.family != Family::Lock {
            return cx.complete(op, Err(Error::Unsupported("only a read-write lock has two modes".into())));
        }
        lease.pending.push(op);
        if to == Mode::Exclusive && hold.mode == Mode::Exclusive {
            // On the server the token is exclusive already. Only a fence above those of the past readers is missing.
            hold.upgrading = Some((op, id));
            cx.end_op_within(op, cx.config.response_timeout);
            return self.settle(cx, None);
        }
        if to == Mode::Shared {
            lease.mode = to;
        }
        hold.converting = Some(Converting::new(cx, op, id, to));
        self.send_convert(cx);
    }

    /// Makes a lease end after `ttl`. This is a conversion to the mode that the lease has.
    pub(crate) fn shorten(&mut self, cx: &mut Context, op: Caller, id: LeaseId, ttl: Duration) {
        let (Some(hold), Some(lease)) = (&mut self.hold, cx.leases.get_mut(&id)) else {
            return cx.complete(op, Err(Error::NotHeld));
        };
        if hold.converting.is_some() || hold.upgrading.is_some() {
            return cx.complete(op, Err(UNDER_WAY));
        }
        if hold.holders.len() > 1 {
            return cx.complete(op, Err(OTHER_CALLERS));
        }
        if self.name.family != Family::Lock {
            return cx.complete(op, Err(not_shortened()));
        }
        lease.pending.push(op);
        lease.stop_renewing();
        let end = lease.bounded(cx.now + ttl);
        lease.known_end = end;
        cx.timers.set(Timer::LeaseEnds(id), &mut lease.ends, Some(end));
        // It counts as short from now on, and the command is sent again in time.
        hold.validity.until = hold.validity.until.min(end);
        hold.converting = Some(Converting::new(cx, op, id, hold.mode));
        hold.watch(cx, self.id);
        self.send_convert(cx);
    }

    fn send_convert(&mut self, cx: &mut Context) {
        let id = self.id;
        let Some(hold) = &mut self.hold else { return };
        let Some(converting) = &mut hold.converting else { return };
        let ttl = cx.leases.get(&converting.lease).map(|lease| lease.wants(cx.now, cx.now).unwrap_or(lease.ttl));
        converting.buries |= hold.in_flight.any();
        let what = Convert {
            old: Old::Own(hold.token),
            new: converting.new,
            mode: converting.to,
            ttl: ttl.unwrap_or(hold.validity.granted),
            block: u64::from(cx.config.local_handoffs).saturating_add(1),
            bury: converting.buries,
            used: hold.fences.used(),
        };
        cx.timers.set(Timer::Convert(id), &mut converting.timer, None);
        let purpose = Purpose::Convert { lock: id, new: converting.new };
        if cx.send(needed::CALL, purpose, self.request(Ask::Convert(what))) {
            self.convert_sent(cx);
        }
    }

    /// The convert has left. It is resent if no answer comes.
    pub(crate) fn convert_sent(&mut self, cx: &mut Context) {
        let id = self.id;
        let Some(hold) = &mut self.hold else { return };
        let Some(converting) = &mut hold.converting else { return };
        let least = retry_within(cx, &hold.validity);
        let again = cx.flows.resend_after(converting.in_flight.unanswered, least).min(least.saturating_mul(2));
        converting.in_flight.sent();
        cx.timers.set(Timer::Convert(id), &mut converting.timer, Some(cx.now + again));
    }

    /// The timer of an unanswered convert fired.
    pub(crate) fn convert_due(&mut self, cx: &mut Context) {
        if let Some(converting) = self.hold.as_mut().and_then(|hold| hold.converting.as_mut()) {
            converting.timer = None;
            self.send_convert(cx);
        }
    }

    pub(crate) fn convert_answered(&mut self, cx: &mut Context, sent: &SentCommand, new: Token, answer: &Answer) {
        let id = self.id;
        let Some(hold) = &mut self.hold else { return };
        let Some(mut converting) = hold.converting.take_if(|converting| converting.new == new) else {
            if hold.token == new {
                hold.in_flight.answered();
            } else if hold.refused == Some(new) && matches!(answer.status, Status::Converted | Status::Again) {
                // The server had lost the buried token, and a delayed copy of the command has moved the lease to it. The
                // holders stay readers, as after a local hand-over from a writer.
                hold.moved(cx, id, new, Mode::Exclusive, answer);
                hold.in_flight = InFlight::default();
                self.settle(cx, None);
            }
            return;
        };
        cx.timers.set(Timer::Convert(id), &mut converting.timer, None);
        converting.in_flight.answered();
        match answer.status {
            Status::Converted | Status::Again => {
                let is_shortened = converting.to == hold.mode;
                hold.moved(cx, id, new, converting.to, answer);
                hold.in_flight = converting.in_flight;
                if is_shortened {
                    hold.validity = Validity::new(cx, sent.at, answer.left.unwrap_or_default());
                    hold.watch(cx, id);
                    self.lease_call_answered(cx, converting.op);
                    return self.settle(cx, None);
                }
                let fence = hold.fences.take();
                // The script only ever lengthens the TTL, so the earlier deadline still holds.
                let answered = Validity::new(cx, sent.at, answer.left.unwrap_or_default());
                hold.validity = Validity { until: answered.until.max(hold.validity.until), ..answered };
                hold.watch(cx, id);
                if let Some(lease) = cx.leases.get_mut(&converting.lease) {
                    lease.mode = converting.to;
                    lease.fence = fence.unwrap_or(lease.fence);
                }
                self.converted(cx, converting.op, converting.lease, ConvertedBy::Server);
                self.settle(cx, None);
            }
            Status::Conflict => {
                // The script has buried the new token. While the server has it there, no delayed copy of the command can
                // convert the lease.
                let op = converting.op;
                hold.refused = Some(new);
                hold.converting = Some(converting);
                self.unconvert(cx);
                cx.complete(op, Err(OTHER_READERS));
                self.settle(cx, None);
            }
            status => {
                // The lease had already been lost. The new token must be buried too.
                hold.converting = Some(converting);
                let reason = if status == Status::Taken { LossReason::Taken } else { LossReason::Gone };
                self.lose_hold(cx, reason, GiveBack::Always);
            }
        }
    }

    pub(crate) fn convert_failed(&mut self, cx: &mut Context, new: Token, failed: Failed) {
        let id = self.id;
        let Some(hold) = &mut self.hold else { return };
        let Some(converting) = hold.converting.as_mut().filter(|converting| converting.new == new) else {
            if hold.token == new {
                hold.in_flight.failed(&failed);
            }
            return;
        };
        converting.in_flight.failed(&failed);
        match failed.class {
            FailureClass::Fatal(Error::WrongKind(_)) => self.lose_hold(cx, LossReason::Taken, GiveBack::Always),
            FailureClass::Fatal(error) if !converting.in_flight.any() => {
                let op = converting.op;
                self.unconvert(cx);
                cx.complete(op, Err(error));
            }
            // A copy of the command may still be applied, so the outcome must be settled. This ends when the
            // lease expires, at the latest.
            FailureClass::Retry(_) | FailureClass::Fatal(_) => {
                let wait = cx.backoff(converting.failures, retry_within(cx, &hold.validity));
                converting.failures = converting.failures.saturating_add(1);
                cx.timers.set(Timer::Convert(id), &mut converting.timer, Some(cx.now + wait));
            }
        }
    }

    /// The server has not converted the lease and never will: restores its state.
    fn unconvert(&mut self, cx: &mut Context) {
        let id = self.id;
        let Some(hold) = &mut self.hold else { return };
        let Some(mut converting) = hold.converting.take() else { return };
        cx.timers.set(Timer::Convert(id), &mut converting.timer, None);
        if let Some(lease) = cx.leases.get_mut(&converting.lease) {
            lease.mode = hold.mode;
            lease.ended(converting.op);
        }
        hold.schedule_renewal(cx, id);
    }

    /// Completes a local upgrade as soon as there is a fence for it.
    pub(super) fn finish_upgrade(&mut self, cx: &mut Context) {
        let Some(hold) = &mut self.hold else { return };
        let Some((op, id)) = hold.upgrading else { return };
        if !cx.ops.contains_key(&op) {
            hold.upgrading = None;
            return;
        }
        let Some(fence) = hold.fences.take() else { return self.refill(cx) };
        hold.upgrading = None;
        if let Some(lease) = cx.leases.get_mut(&id) {
            lease.mode = Mode::Exclusive;
            lease.fence = fence;
        }
        self.converted(cx, op, id, ConvertedBy::Client);
    }

    fn converted(&mut self, cx: &mut Context, op: Caller, id: LeaseId, by: ConvertedBy) {
        let (Some(hold), Some(lease)) = (&self.hold, cx.leases.get_mut(&id)) else {
            return cx.complete(op, Err(Error::NotHeld));
        };
        lease.ended(op);
        let until = hold.validity.until;
        let valid_until = lease.ends.map_or(until, |ends| ends.at.min(until));
        let local = by == ConvertedBy::Client;
        let grant = Grant { lease: id, mode: lease.mode, fence: lease.fence, valid_until, local };
        cx.complete(op, Ok(Outcome::Converted(grant)));
    }
}

impl Converting {
    fn new(cx: &mut Context, op: Caller, lease: LeaseId, to: Mode) -> Self {
        let new = cx.new_token();
        Self { op, lease, new, to, buries: false, in_flight: InFlight::default(), failures: 0, timer: None }
    }
}

impl Hold {
    /// The server has moved the lease to the token `new`.
    fn moved(&mut self, cx: &mut Context, id: LockId, new: Token, mode: Mode, answer: &Answer) {
        (self.token, self.mode) = (new, mode);
        self.confirmed_at(cx, answer.server);
        self.fences = Fences::new(answer.value, answer.block);
        self.stamp = if answer.status == Status::Converted { self.fences.first() } else { None };
        self.refill.unanswered = false;
        cx.timers.set(Timer::Refill(id), &mut self.refill.timer, None);
        self.heard(cx, id, answer.waiting);
    }
}

/// Who made a conversion: this client, if it has what the new mode needs, or the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConvertedBy {
    Client,
    Server,
}
