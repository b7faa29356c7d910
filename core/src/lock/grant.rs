//! Becoming the holder: by an answer, or by a message that another client's script published.

use alloc::vec::Vec;

use super::change::Change;
use super::claim_state::{Base, Claim};
use super::fences::Fences;
use super::hold::{GiveBack, Hold, HoldTimers, Refill, Validity, earliest};
use super::{LockState, waited};
use crate::error::{Error, Failure, LossReason};
use crate::event::{Grant, Outcome, ReleaseOutcome};
use crate::ids::{Caller, Token};
use crate::options::Mode;
use crate::session::{Context, ReleaseParams};
use crate::time::{Duration, Instant};
use crate::wire::{Answer, Granted, Status};

impl LockState {
    /// The waiting token is granted, according to an answer.
    pub(super) fn granted(&mut self, cx: &mut Context, validity: Validity, answer: &Answer) {
        if self.waits_for_convert(cx) {
            return;
        }
        let fences = Fences::new(answer.value, answer.block);
        // The number counts the listeners on a reentrant lock's channel, and this client is one of them.
        let ourselves = u64::from(!self.subscription.is_polling());
        let waiting = answer.waiting.map(|waiting| waiting.saturating_sub(ourselves));
        self.begin_hold(cx, validity, answer.server, fences, waiting);
        if answer.status == Status::Again
            && let Some(hold) = &mut self.hold
        {
            // The key has the fence of an answer that was lost.
            hold.stamp = None;
        }
    }

    /// A message says that one of our tokens was granted. It may be late, a duplicate, or for a token that was given up.
    pub(crate) fn grant_received(&mut self, cx: &mut Context, grant: &Granted<'_>) {
        let asks = self.claim.as_ref().is_some_and(|claim| claim.token == grant.token);
        if asks && self.waits_for_convert(cx) {
            return;
        }
        if let Some(claim) = self.claim.as_mut().filter(|_| asks) {
            let Some(since) = granted_since(cx, claim, grant) else { return };
            let mut validity = Validity::new(cx, since, grant.ttl);
            validity.answered = None;
            if validity.until <= cx.now && claim.per.is_none() {
                // The message is too old to rely on, so ask the server.
                return claim.send_by(cx, self.id, cx.now);
            }
            let fences = Fences::new(grant.fence, grant.block);
            return self.begin_hold(cx, validity, grant.server, fences, Some(grant.waiting));
        }
        let id = self.id;
        let Some(hold) = self.hold.as_mut().filter(|hold| hold.token == grant.token) else { return };
        if grant.fence > hold.fences.drawn {
            // The server granted the token anew, so the lease was lost in between. Only the fence shows this: after a
            // failover to a slower clock, the message of an old grant may have the later time.
            return self.lose_hold(cx, LossReason::Gone, GiveBack::Always);
        }
        // An answer came first, but this message may be the first to say that others wait.
        hold.note_waiting(cx, id, Some(grant.waiting));
        self.settle(cx, None);
    }

    /// Handles a reader's grant while a convert is unanswered. The convert itself may have made the grant possible. The
    /// token keeps its grant on the server. It is asked for again once the fate of the held lease is known.
    fn waits_for_convert(&mut self, cx: &mut Context) -> bool {
        let converting = self.hold.as_ref().is_some_and(|hold| hold.is_converting());
        match &mut self.claim {
            Some(claim) if converting && claim.mode == Mode::Shared => {
                claim.send_by(cx, self.id, cx.now + Duration::from_millis(20));
                true
            }
            _ => false,
        }
    }

    fn begin_hold(&mut self, cx: &mut Context, validity: Validity, server: u64, fences: Fences, waiting: Option<u64>) {
        let Some(mut claim) = self.claim.take() else { return };
        claim.clear_timer(cx, self.id);
        self.stop_listening(cx);
        if claim.per.is_some() {
            return self.started(cx, &claim, validity.until, fences);
        }
        if validity.until <= cx.now {
            // The grant came too late to be useful. Gives the token back; the callers ask with a new one.
            let attempts = claim.attempts.saturating_add(1);
            self.claim = Some(Claim { joined: true, ..claim });
            self.give_up_claim(cx);
            let wait = cx.backoff(attempts, cx.claim_window / 3);
            self.ask_after(cx, wait);
            if let Some(claim) = &mut self.claim {
                claim.attempts = attempts;
                claim.failure = Some(Failure::TimedOut);
            }
            return self.settle(cx, None);
        }
        let block = fences.left();
        let holders = self.keep_readers(cx, claim.mode);
        let mut hold = Hold {
            token: claim.token,
            kind: claim.kind,
            mode: claim.mode,
            validity,
            server,
            server_at: cx.now,
            stamp: fences.first(),
            fences,
            waiting_known_at: cx.now,
            waiting: 0,
            budget: None,
            holders,
            // No local caller has held this token yet.
            served: false,
            linger: None,
            keep: None,
            tainted: false,
            in_flight: claim.in_flight,
            refill: Refill { size: block, ..Refill::default() },
            change: Change::None,
            refused: None,
            result: None,
            timers: HoldTimers::default(),
        };
        // Clients of other libraries don't announce that they wait.
        hold.note_waiting(cx, self.id, if cx.config.mixed_fleet { Some(1) } else { waiting });
        hold.watch(cx, self.id);
        self.hold = Some(hold);
        self.settle(cx, None);
    }

    /// Permits of a rate count for their time, whatever their caller does and however late it hears of them. So nothing is
    /// held here.
    fn started(&mut self, cx: &mut Context, claim: &Claim, valid_until: Instant, mut fences: Fences) {
        if claim.in_flight.any() {
            // A late copy of an acquire must not take more.
            cx.give_back(&self.name, ReleaseParams::of(claim.token, true));
        }
        if let Some(((op, options), fence)) = self.queue.head().zip(fences.take()) {
            let grant = Grant { lease: cx.new_lease(), mode: options.mode, fence, valid_until, local: false };
            self.answer_caller(cx, op, Ok(Outcome::Acquired(grant)));
        }
        self.settle(cx, None);
    }

    /// Handles the token that was held until now. Readers go on under the new shared token. In any other case the
    /// server has lost the old token, because otherwise it could not have granted the new one.
    fn keep_readers(&mut self, cx: &mut Context, granted: Mode) -> Vec<crate::ids::LeaseId> {
        let both_shared = granted == Mode::Shared && self.hold.as_ref().is_some_and(|old| old.mode == Mode::Shared);
        if !both_shared {
            if self.hold.is_some() {
                self.lose_hold_quietly(cx, LossReason::Gone, GiveBack::Always);
            }
            return Vec::new();
        }
        let Some(mut old) = self.hold.take() else { return Vec::new() };
        old.clear_timers(cx, self.id);
        let valid_until = Some(old.validity.until);
        let params = ReleaseParams::of(old.token, old.in_flight.any());
        let used_fence = old.used_fence(cx);
        cx.give_back(&self.name, ReleaseParams { valid_until, used_fence, heirs: old.holders.clone(), ..params });
        old.holders
    }

    /// An operator took one of our tokens by force. Its grant may be known, or still on its way: the
    /// message can overtake the reply.
    pub(crate) fn revoked(&mut self, cx: &mut Context, token: Token) {
        if self.hold.as_ref().is_some_and(|hold| hold.has(token)) {
            return self.lose_hold(cx, LossReason::Revoked, GiveBack::IfInFlight);
        }
        let asks = self.claim.as_ref().is_some_and(|claim| claim.token == token);
        if asks {
            self.ask_by_another_token(cx);
        }
    }

    /// The server has a tombstone for the claim's token. Waiting callers go on with a new one.
    pub(super) fn ask_by_another_token(&mut self, cx: &mut Context) {
        if let Some(mut claim) = self.claim.take() {
            claim.clear_timer(cx, self.id);
            self.stop_listening(cx);
        }
        self.settle(cx, None);
    }

    /// The lease has ended, by the clock or according to the server.
    pub(crate) fn lose_hold(&mut self, cx: &mut Context, reason: LossReason, give_back: GiveBack) {
        self.lose_hold_quietly(cx, reason, give_back);
        self.settle(cx, None);
    }

    fn lose_hold_quietly(&mut self, cx: &mut Context, reason: LossReason, give_back: GiveBack) {
        let Some(hold) = &mut self.hold else { return };
        let in_flight = hold.in_flight.any() || hold.is_converting();
        if let Some(refused) = hold.refused {
            // A delayed copy of the refused command may have moved the lease to it, and its answer may have been lost.
            cx.give_back(&self.name, ReleaseParams::of(refused, true));
        }
        for lease in core::mem::take(&mut hold.holders) {
            cx.lose_lease(lease, reason);
        }
        let is_detaching = hold.is_detaching();
        if is_detaching {
            cx.end_detaching();
        }
        if let Some(converting) = hold.converting_mut() {
            let op = if is_detaching { converting.op.take() } else { converting.leaver.take() };
            not_detached_by(cx, op, reason);
        }
        if give_back == GiveBack::Always || in_flight {
            self.give_back_hold(cx, None);
        } else if let Some(mut hold) = self.hold.take() {
            hold.clear_timers(cx, self.id);
        }
    }
}

/// A lease was lost before it was detached. If the call is a release, the lease was valid when it was given back.
fn not_detached_by(cx: &mut Context, op: Option<Caller>, reason: LossReason) {
    let Some(op) = op else { return };
    let result = match reason {
        _ if !cx.is_release(op) => Err(Error::Lost(reason)),
        LossReason::Expired => Err(Error::unreachable(waited(cx, op), Some(Failure::TimedOut))),
        LossReason::Taken => Ok(Outcome::Released(ReleaseOutcome::NotOwner)),
        _ => Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired)),
    };
    cx.complete(op, result);
}

/// The earliest local time at which the grant can have happened. None if the grant is older than an answer that has arrived.
fn granted_since(cx: &Context, claim: &Claim, grant: &Granted<'_>) -> Option<Instant> {
    let Some(Base { sent, server }) = claim.base else { return claim.first_sent };
    if grant.server < earliest(server) {
        return None;
    }
    let elapsed = Duration::from_micros(grant.server.saturating_sub(server));
    // Assumes that the client's clock is slower than the server's, by as much as drift allows.
    Some((sent + elapsed.saturating_sub(elapsed / 100)).min(cx.now))
}
