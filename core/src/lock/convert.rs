//! Downgrade and upgrade: the lease gets a new token in the other mode. A lease that is shortened or detached gets a new
//! token too.
//!
//! A downgraded lease counts as shared from the moment the command is sent. An upgraded lease counts as
//! exclusive once the answer arrives. Renewals pause until then, so a convert without an answer ends when the
//! lease expires, at the latest.
//!
//! A lease that is detached ends for its caller when the command is sent. Its hold stays until the answer, so that the
//! command is sent again, and is then forgotten. Nothing gives it back.

use super::LockState;
use super::change::{Change, Converting};
use super::fences::Fences;
use super::hold::{GiveBack, Hold, Validity};
use crate::error::{Error, LossReason};
use crate::event::{Grant, Outcome, ReleaseOutcome};
use crate::ids::{Caller, LeaseId, LeaseToken, LockId, Token};
use crate::options::{Family, Mode, not_detached};
use crate::session::{
    Body, Context, Convert, InFlight, Lease, Old, OpKind, Purpose, SentCommand, Timer, covering, needed,
};
use crate::time::Duration;
use crate::wire::{Answer, Failed, FailureClass, Status};

/// How soon to resend a convert. Renewals pause meanwhile, so the resends keep the lease alive, after a quarter of the time left.
fn retry_after(cx: &Context, validity: &Validity) -> Duration {
    (validity.until.time_since(cx.now) / 4).max(Duration::from_millis(10)).min(cx.claim_window / 3)
}

const OTHER_CALLERS: Error = Error::Conflict("other callers of this client hold the lease too");
const OTHER_HOLDS: Error = Error::Conflict("other holds on the lease are not released yet");
pub(super) const WRITERS_LEASE: Error =
    Error::Conflict("this client's writers and readers share one lease now, so the reader has no token of its own");
const OTHER_READERS: Error = Error::Conflict("other readers hold the lock: only a sole reader can upgrade");
const UNDER_WAY: Error = Error::Conflict("the lease is already being converted: wait for that call");

pub(crate) fn not_shortened() -> Error {
    Error::unsupported("only a lease of one mutex or read-write lock, not of a quorum, can be shortened")
}

impl LockState {
    pub(crate) fn convert(&mut self, cx: &mut Context, op: Caller, id: LeaseId, to: Mode) {
        let (Some(hold), Some(lease)) = (&mut self.hold, cx.leases.get_mut(&id)) else {
            return cx.fail(op, Error::NotHeld);
        };
        if hold.is_in_transition() {
            return cx.fail(op, UNDER_WAY);
        }
        if lease.mode == to {
            return self.converted(cx, op, id, ConvertedBy::Client);
        }
        if hold.holders.len() > 1 {
            return cx.fail(op, OTHER_READERS);
        }
        if self.name.family != Family::Lock {
            return cx.fail(op, Error::unsupported("only a read-write lock has two modes"));
        }
        lease.pending.push(op);
        if to == Mode::Exclusive && hold.mode == Mode::Exclusive {
            // On the server the token is exclusive already. Only a fence above those of the past readers is missing.
            hold.change = Change::Upgrade { op, lease: id };
            cx.limit_op(op, cx.response_timeout);
            return self.settle(cx, None);
        }
        if to == Mode::Shared {
            lease.mode = to;
        }
        hold.change = Change::Convert(Converting::new(cx, Some(op), Some(id), to));
        self.send_convert(cx);
    }

    /// Makes a lease end after `ttl`. This is a conversion to the mode that the lease has.
    pub(crate) fn shorten(&mut self, cx: &mut Context, op: Caller, id: LeaseId, ttl: Duration) {
        let (lock, family) = (self.id, self.name.family);
        let hold = match self.sole(cx, id) {
            Ok(_) if family != Family::Lock => return cx.fail(op, not_shortened()),
            Ok((hold, _)) => hold,
            Err(error) => return cx.fail(op, error),
        };
        let Some(lease) = cx.leases.get_mut(&id) else { return };
        lease.pending.push(op);
        lease.stop_renewing();
        let end = lease.bounded(cx.now + ttl);
        lease.known_end = end;
        cx.timers.set(Timer::LeaseEnds(id), &mut lease.ends, Some(end));
        // It counts as short from now on, and the command is sent again in time.
        hold.validity.until = hold.validity.until.min(end);
        let converting = Converting::new(cx, Some(op), Some(id), hold.mode);
        hold.change = Change::Convert(Converting { shortens: true, ..converting });
        hold.watch(cx, lock);
        self.send_convert(cx);
    }

    /// The hold of a lease that no other caller has, and that can get another token now.
    pub(super) fn sole<'a>(&mut self, cx: &'a Context, id: LeaseId) -> Result<(&mut Hold, &'a Lease), Error> {
        let (Some(hold), Some(lease)) = (&mut self.hold, cx.leases.get(&id)) else { return Err(Error::NotHeld) };
        if hold.is_in_transition() {
            return Err(UNDER_WAY);
        }
        if hold.holders.len() > 1 {
            return Err(OTHER_CALLERS);
        }
        Ok((hold, lease))
    }

    /// Ends a lease here. The server keeps the lock for this time, or for as long as without this call.
    pub(crate) fn detach(&mut self, cx: &mut Context, op: Caller, id: LeaseId, time: Option<Duration>) {
        let family = self.name.family;
        let mode = match self.sole(cx, id) {
            Ok(_) if !family.moves() => return cx.fail(op, not_detached()),
            Ok((_, lease)) if lease.holds > 1 => return cx.fail(op, OTHER_HOLDS),
            Ok((hold, lease)) => {
                hold.keep = Some(lease.end_after(cx.now, time));
                lease.mode
            }
            Err(error) => return cx.fail(op, error),
        };
        self.leave(id);
        cx.end_lease(id, &Error::NotHeld);
        self.detach_hold(cx, Some(op), mode);
        self.settle(cx, None);
    }

    /// No caller holds the lease any more, and the lock stays taken until `keep`. The call ends with a token, or as a release.
    pub(super) fn detach_hold(&mut self, cx: &mut Context, op: Option<Caller>, mode: Mode) {
        let Some(hold) = &mut self.hold else { return };
        let converting = Converting::new(cx, op, None, mode);
        if let Some(op) = op.filter(|op| !cx.ops.contains_key(op)) {
            cx.open(op, OpKind::Release { token: converting.new }, Some(cx.patience()));
        }
        // Local callers ask the server for a lease of their own.
        hold.tainted = true;
        hold.validity.until = hold.validity.until.min(hold.keep.unwrap_or(cx.now));
        hold.change = Change::Convert(converting);
        hold.watch(cx, self.id);
        cx.begin_detaching();
        self.send_convert(cx);
    }

    /// If no caller holds the lease any more, and the lock stays taken: a close and the lease's release wait for the convert,
    /// to detach the lease then.
    pub(super) fn await_convert(&mut self, cx: &mut Context, leaver: &mut Option<Caller>) {
        let Some(hold) = self.hold.as_mut().filter(|hold| hold.holders.is_empty() && hold.is_kept(cx.now)) else {
            return;
        };
        if let Some(converting) =
            hold.converting_mut().filter(|converting| converting.lease.is_some() && !converting.is_left)
        {
            converting.is_left = true;
            converting.leaver = leaver.take();
            if let Some(op) = converting.leaver {
                cx.open(op, OpKind::Release { token: converting.new }, Some(cx.patience()));
            }
            cx.begin_detaching();
        }
    }

    /// A convert was answered.
    fn settle_converted(&mut self, cx: &mut Context, mut converting: Converting) {
        let leaver = converting.take_leaver(cx);
        self.settle(cx, leaver);
        if converting.is_left {
            cx.end_detaching();
        }
    }

    fn send_convert(&mut self, cx: &mut Context) {
        let id = self.id;
        let Some(hold) = &mut self.hold else { return };
        let Change::Convert(converting) = &mut hold.change else { return };
        let ttl = match converting.lease {
            Some(id) => cx.leases.get(&id).map(|lease| lease.wants(cx.now, cx.now).unwrap_or(lease.ttl)),
            None => hold.keep.map(|keep| covering(keep.time_since(cx.now))),
        };
        // The fences of a lease that is detached are not used.
        let block = converting.lease.map_or(1, |_| cx.config.counted_block());
        converting.tombstone |= hold.in_flight.any();
        let what = Convert {
            old: Old::Own(hold.token),
            new: converting.new,
            kind: hold.kind,
            mode: converting.to,
            ttl: ttl.unwrap_or(hold.validity.granted),
            block,
            tombstone: converting.tombstone,
            used_fence: hold.fences.used_fence(),
        };
        cx.timers.set(Timer::Convert(id), &mut converting.timer, None);
        let purpose = Purpose::Convert { lock: id, new: converting.new };
        if cx.send(needed::CALL, purpose, self.request(Body::Convert(what))) {
            self.convert_sent(cx);
        }
    }

    /// The convert has left. It is resent if no answer comes.
    pub(crate) fn convert_sent(&mut self, cx: &mut Context) {
        let id = self.id;
        let Some(hold) = &mut self.hold else { return };
        let Change::Convert(converting) = &mut hold.change else { return };
        let least = retry_after(cx, &hold.validity);
        let again = cx.flows.resend_after(converting.in_flight.unanswered, least).min(least.saturating_mul(2));
        converting.in_flight.sent();
        if let Some(op) = converting.op.filter(|_| converting.lease.is_none()) {
            cx.op_sent(op);
        }
        cx.timers.set(Timer::Convert(id), &mut converting.timer, Some(cx.now + again));
    }

    /// The timer of an unanswered convert fired.
    pub(crate) fn convert_due(&mut self, cx: &mut Context) {
        if let Some(converting) = self.hold.as_mut().and_then(Hold::converting_mut) {
            converting.timer = None;
            self.send_convert(cx);
        }
    }

    pub(crate) fn convert_answered(&mut self, cx: &mut Context, sent: &SentCommand, new: Token, answer: &Answer) {
        let id = self.id;
        let Some(hold) = &mut self.hold else { return };
        let Some(mut converting) = hold.take_converting(|converting| converting.new == new) else {
            if hold.token == new {
                hold.in_flight.answered();
            } else if hold.refused == Some(new) && matches!(answer.status, Status::Converted | Status::Again) {
                // The server had lost the token's tombstone, and a delayed copy of the command has moved the lease to it. The
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
            Status::Converted | Status::Again if converting.lease.is_none() && converting.to != hold.mode => {
                // A reader had a writer's lease. What changes the mode shortens no TTL, so the next one does.
                hold.moved(cx, id, new, converting.to, answer);
                hold.in_flight = converting.in_flight;
                hold.change = Change::Convert(Converting::new(cx, converting.op, None, converting.to));
                self.send_convert(cx);
            }
            Status::Converted | Status::Again if converting.lease.is_none() => self.detached(cx, &converting),
            Status::Converted | Status::Again => {
                hold.moved(cx, id, new, converting.to, answer);
                hold.in_flight = converting.in_flight;
                if converting.shortens {
                    hold.validity = Validity::new(cx, sent.at, answer.left.unwrap_or_default());
                    hold.watch(cx, id);
                    converting.op.into_iter().for_each(|op| self.lease_call_answered(cx, op));
                    return self.settle_converted(cx, converting);
                }
                let fence = hold.fences.take();
                // The script only ever lengthens the TTL, so the earlier deadline still holds.
                let answered = Validity::new(cx, sent.at, answer.left.unwrap_or_default());
                hold.validity = Validity { until: answered.until.max(hold.validity.until), ..answered };
                hold.watch(cx, id);
                if let (Some(op), Some(id)) = (converting.op, converting.lease) {
                    if let Some(lease) = cx.leases.get_mut(&id) {
                        lease.mode = converting.to;
                        lease.fence = fence.unwrap_or(lease.fence);
                    }
                    self.converted(cx, op, id, ConvertedBy::Server);
                }
                self.settle_converted(cx, converting);
            }
            Status::Conflict if converting.lease.is_some() => {
                // The script has left a tombstone for the new token. While the server has that, no delayed copy of the
                // command can convert the lease.
                hold.refused = Some(new);
                hold.change = Change::Convert(converting);
                self.unconvert(cx, OTHER_READERS);
            }
            status => {
                // The lease had already been lost. The new token needs a tombstone too.
                hold.change = Change::Convert(converting);
                let reason = if status == Status::Taken { LossReason::Taken } else { LossReason::Gone };
                self.lose_hold(cx, reason, GiveBack::Always);
            }
        }
    }

    pub(crate) fn convert_failed(&mut self, cx: &mut Context, new: Token, failed: Failed) {
        let id = self.id;
        let Some(hold) = &mut self.hold else { return };
        let converting = match &mut hold.change {
            Change::Convert(converting) if converting.new == new => converting,
            _ if hold.token == new => return hold.in_flight.failed(&failed),
            _ => return,
        };
        converting.in_flight.failed(&failed);
        match failed.class {
            FailureClass::Fatal(Error::WrongKind(_)) => self.lose_hold(cx, LossReason::Taken, GiveBack::Always),
            FailureClass::Fatal(error) if !converting.in_flight.any() => self.unconvert(cx, error),
            // A copy of the command may still be applied, so the outcome must be settled. This ends when the
            // lease expires, at the latest.
            FailureClass::Retry(_) | FailureClass::Fatal(_) => {
                let wait = cx.backoff(converting.failures, retry_after(cx, &hold.validity));
                converting.failures = converting.failures.saturating_add(1);
                cx.timers.set(Timer::Convert(id), &mut converting.timer, Some(cx.now + wait));
            }
        }
    }

    /// The server has not converted the lease and never will: restores its state. A lease that was to be detached stays on
    /// the server for its time.
    fn unconvert(&mut self, cx: &mut Context, error: Error) {
        let id = self.id;
        let Some(hold) = &mut self.hold else { return };
        let Some(mut converting) = hold.take_converting(|_| true) else { return };
        cx.timers.set(Timer::Convert(id), &mut converting.timer, None);
        match converting.lease {
            None => self.forget_detached(cx),
            Some(lease) => {
                if let (Some(lease), Some(op)) = (cx.leases.get_mut(&lease), converting.op) {
                    lease.mode = hold.mode;
                    lease.call_ended(op);
                }
                hold.schedule_renewal(cx, id);
            }
        }
        converting.complete(cx, Err(error));
        self.settle_converted(cx, converting);
    }

    /// The server has the lease under its new token.
    fn detached(&mut self, cx: &mut Context, converting: &Converting) {
        let result = if converting.op.is_some_and(|op| cx.is_release(op)) {
            Ok(Outcome::Released(ReleaseOutcome::Detached))
        } else {
            LeaseToken::of(&cx.client, converting.new).map(Outcome::Exported).ok_or(Error::NotHeld)
        };
        converting.complete(cx, result);
        self.forget_detached(cx);
        self.settle(cx, None);
    }

    fn forget_detached(&mut self, cx: &mut Context) {
        if let Some(mut hold) = self.hold.take() {
            hold.clear_timers(cx, self.id);
            cx.end_detaching();
        }
    }

    /// Completes an upgrade without a convert as soon as there is a fence for it, and the server has confirmed the lease.
    pub(super) fn finish_upgrade(&mut self, cx: &mut Context) {
        let Some(hold) = &mut self.hold else { return };
        let Change::Upgrade { op, lease: id } = hold.change else { return };
        let Some(since) = cx.ops.get(&op).map(|open| open.since) else {
            hold.change = Change::None;
            return;
        };
        if !hold.is_confirmed_since(cx, since) {
            return self.refill(cx);
        }
        let Some(fence) = hold.fences.take() else { return self.refill(cx) };
        hold.change = Change::None;
        if let Some(lease) = cx.leases.get_mut(&id) {
            lease.mode = Mode::Exclusive;
            lease.fence = fence;
        }
        self.converted(cx, op, id, ConvertedBy::Client);
    }

    fn converted(&mut self, cx: &mut Context, op: Caller, id: LeaseId, by: ConvertedBy) {
        let (Some(hold), Some(lease)) = (&self.hold, cx.leases.get_mut(&id)) else {
            return cx.fail(op, Error::NotHeld);
        };
        lease.call_ended(op);
        let until = hold.validity.until;
        let valid_until = lease.ends.map_or(until, |ends| ends.at.min(until));
        let local = by == ConvertedBy::Client;
        let grant = Grant { lease: id, mode: lease.mode, fence: lease.fence, valid_until, local };
        cx.complete(op, Ok(Outcome::Converted(grant)));
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
        self.note_waiting(cx, id, answer.waiting);
    }
}

/// Who made a conversion: this client, if it has what the new mode needs, or the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConvertedBy {
    Client,
    Server,
}
