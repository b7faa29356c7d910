//! How the server is asked for a name.
//!
//! The first try, the heartbeat, a poll and a resend are all the same command.

use super::LockState;
use super::claim_state::{Base, Claim};
use super::hold::{GiveBack, Validity, earliest};
use crate::error::Error;
use crate::event::Outcome;
use crate::ids::{Caller, LeaseToken, Token};
use crate::options::Family;
use crate::session::{
    Acquire, AcquireMode, Body, Context, Convert, Old, Purpose, Request, SentCommand, has_fast_path, needed, ttl_of,
};
use crate::time::{Duration, Instant};
use crate::wire::{Answer, Failed, FailureClass, Status};

/// The pause before a client that gave a reentrant lock back asks for it again, so that others get a chance.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest time between two polls in a mixed fleet.
const MIXED_POLL: Duration = Duration::from_millis(250);

/// Whether to try the fast path first, or the full script at once, because the lock is probably not free.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    Fast,
    Full,
}

const OTHER_MODE: Error = Error::Conflict(
    "the lease has another mode or number of permits: adopt it by a lock like the one that acquired it",
);

/// The conversion that gives another client's lease the claim's token.
fn adoption(old: LeaseToken, what: &Acquire) -> Convert {
    let Acquire { token: new, kind, mode, ttl, block, .. } = *what;
    // This client doesn't know which fences another one used. The script draws one above all that the other may use.
    Convert { old: Old::Adopted(old), new, kind, mode, ttl, block, tombstone: true, used_fence: 0 }
}

impl LockState {
    /// Makes sure that a claim is in progress for the first local caller.
    pub(super) fn ask(&mut self, cx: &mut Context) {
        self.ask_by(cx, Path::Fast);
    }

    fn ask_by(&mut self, cx: &mut Context, path: Path) {
        let Some((_, head)) = self.queue.head() else { return };
        let waits = self.queue.len() > self.queue.tries();
        match &mut self.claim {
            Some(claim) if claim.waits || !waits => return,
            Some(claim) => claim.waits = true,
            None => {
                let mut claim = Claim::new(cx.new_token(), head);
                claim.waits = waits;
                self.claim = Some(claim);
            }
        }
        self.send_by_path(cx, path);
    }

    /// Joins the server's queue although a token is held, because that token can't serve the next caller.
    pub(super) fn ask_beside(&mut self, cx: &mut Context) {
        if cx.is_mixed(self.name.family) {
            self.refill_if_low(cx);
        } else {
            self.ask_by(cx, Path::Full);
        }
    }

    /// Asks again after a token was given back. In a mixed fleet, other clients get a chance to poll first.
    pub(super) fn ask_anew(&mut self, cx: &mut Context) {
        if !cx.is_mixed(self.name.family) || self.claim.is_some() {
            return self.ask_by(cx, Path::Full);
        }
        // Waiters that listen on the lock's channel ask at once, so a short pause is enough for them.
        let wait = cx.random.jitter(if cx.config.mixed_fleet { MIXED_POLL } else { PAUSE });
        self.ask_after(cx, wait);
    }

    /// Asks with a new token after a pause.
    pub(super) fn ask_after(&mut self, cx: &mut Context, wait: Duration) {
        let Some((_, head)) = self.queue.head() else { return };
        let mut claim = Claim::new(cx.new_token(), head);
        claim.waits = self.queue.len() > self.queue.tries();
        claim.send_by(cx, self.id, cx.now + wait);
        self.claim = Some(claim);
    }

    fn send_acquire(&mut self, cx: &mut Context) {
        self.send_by_path(cx, Path::Full);
    }

    pub(super) fn send_by_path(&mut self, cx: &mut Context, path: Path) {
        let Some((_, head)) = self.queue.head() else { return };
        let callers = self.queue.len();
        let (waiters, most) = (self.queue.waiters(), self.queue.most_accepted(&cx.ops));
        let Some(claim) = &mut self.claim else { return };
        let joins = claim.waits && !cx.is_mixed(self.name.family) && cx.subscription.is_settled();
        let many = joins || callers > 1 || head.linger.is_some() || self.name.family == Family::Semaphore;
        let block = if many { cx.config.block() } else { cx.least_block };
        let what = Acquire {
            token: claim.token,
            kind: claim.kind,
            mode: claim.mode,
            per: claim.per,
            ttl: claim.per.unwrap_or_else(|| ttl_of(head)),
            how: match (joins, cx.config.ahead) {
                (true, _) => AcquireMode::Wait { callers: waiters.saturating_add(self.behind), most },
                (false, false) => AcquireMode::Try,
                (false, true) => AcquireMode::TryAhead,
            },
            block,
        };
        claim.joining = joins;
        claim.counts |= joins && most.is_some();
        claim.clear_timer(cx, self.id);
        let soon = if claim.joined { needed::HEARTBEAT } else { needed::CALL };
        let purpose = Purpose::Acquire { lock: self.id, token: claim.token };
        let body = match self.adopts {
            None => Body::Acquire(what),
            Some(old) => Body::Convert(Convert { used_fence: self.used_fence, ..adoption(old, &what) }),
        };
        let request = Request::new(&self.name, body);
        let is_fast = self.adopts.is_none() && what.per.is_none() && has_fast_path(self.name.family);
        let sent = if path == Path::Fast && is_fast {
            cx.send_fast(soon, purpose, request)
        } else {
            cx.send(soon, purpose, request)
        };
        if sent {
            self.acquire_sent(cx);
        }
    }

    /// The command has left. The next one is a heartbeat.
    pub(crate) fn acquire_sent(&mut self, cx: &mut Context) {
        let Some(claim) = &mut self.claim else { return };
        claim.joined |= claim.joining;
        claim.first_sent.get_or_insert(cx.now);
        claim.sent.get_or_insert(cx.now);
        claim.in_flight.sent();
        claim.clear_timer(cx, self.id);
        claim.send_by(cx, self.id, cx.now + cx.claim_window / 3);
    }

    /// Whether a queued acquire of this token is still needed.
    pub(crate) fn wants_to_ask(&self, token: Token) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.token == token)
    }

    pub(crate) fn acquire_answered(
        &mut self,
        cx: &mut Context,
        sent: &SentCommand,
        token: Token,
        answer: &Answer,
        result: &[u8],
    ) {
        if let Some(claim) = self.claim.as_mut().filter(|claim| claim.token == token) {
            claim.in_flight.answered();
            claim.sent = None;
            let recovered = claim.failure.take().is_some();
            if recovered && matches!(answer.status, Status::Waiting | Status::Busy) {
                claim.attempts = 0;
            }
            if answer.status == Status::Done {
                return self.stored(cx, sent.at, answer, result);
            }
            return self.claim_answered(cx, sent.at, answer);
        }
        let id = self.id;
        let Some(hold) = self.hold.as_mut().filter(|hold| hold.token == token) else { return };
        hold.in_flight.answered();
        // A convert in flight may have overtaken it and left a tombstone for this token.
        if hold.is_converting() {
            return;
        }
        if earliest(answer.server) <= hold.server {
            if matches!(answer.status, Status::Again | Status::Entered) {
                hold.note_waiting(cx, id, answer.waiting);
                self.settle(cx, None);
            }
            return;
        }
        match answer.status {
            Status::Again => {
                hold.confirmed_at(cx, answer.server);
                hold.fences.add(answer.value, answer.block);
                let validity = Validity::new(cx, sent.at, answer.left.unwrap_or_default());
                hold.extend(cx, id, validity);
                hold.note_waiting(cx, id, answer.waiting);
                self.settle(cx, None);
            }
            // The command took the lock or joined the queue anew, so the lease was lost in between.
            _ => self.lose_hold(cx, crate::error::LossReason::Gone, GiveBack::Always),
        }
    }

    fn claim_answered(&mut self, cx: &mut Context, sent: Instant, answer: &Answer) {
        let newest = self.claim.as_ref().and_then(|claim| claim.base.as_ref());
        let is_old = newest.is_some_and(|base| answer.server < base.server);
        match answer.status {
            // The server has said since that another client holds the lock, so it has lost this grant.
            Status::Entered | Status::Again if is_old => {}
            Status::Entered | Status::Again | Status::Converted => {
                let validity = Validity::new(cx, sent, answer.left.unwrap_or_default());
                self.granted(cx, validity, answer);
            }
            Status::Waiting | Status::Busy => {
                self.still_busy(cx, sent, answer);
                if answer.block == 0 {
                    self.settle(cx, None);
                }
            }
            Status::Conflict if self.adopts.is_some() => self.refuse_all(cx, &OTHER_MODE),
            _ if self.adopts.is_some() => self.refuse_all(cx, &Error::NotHeld),
            // The token has a tombstone although this client did not give it up: an operator took the lock before
            // the grant was known here.
            Status::Gone => self.ask_by_another_token(cx),
            _ => {
                let error = Error::Protocol("acquire answered what no waiter gets".into());
                self.refuse_all(cx, &error);
            }
        }
    }

    /// A once has a result, and it is the answer to every local caller. The server has removed the token from its queue. The
    /// result may be forgotten by now, so a caller that came after the command was sent asks again.
    fn stored(&mut self, cx: &mut Context, sent: Instant, answer: &Answer, value: &[u8]) {
        let fence = answer.value;
        if let Some(claim) = &mut self.claim {
            // If the result was forgotten, an earlier command may have joined the queue anew.
            claim.joined &= claim.base.is_some_and(|base| base.server >= answer.server);
        }
        let came = |cx: &Context, op: Caller| cx.ops.get(&op).is_some_and(|op| op.since <= sent);
        while let Some((op, _)) = self.queue.head().filter(|(op, _)| came(cx, *op)) {
            self.answer_caller(cx, op, Ok(Outcome::Stored { fence, value: value.into() }));
        }
        if !self.queue.is_empty() {
            self.send_acquire(cx);
        }
        self.settle(cx, None);
    }

    /// Another client holds the lock. Stores what the answer says and schedules the next command.
    fn still_busy(&mut self, cx: &mut Context, sent: Instant, answer: &Answer) {
        let id = self.id;
        let Some(claim) = &mut self.claim else { return };
        if claim.base.is_none_or(|base| base.server < answer.server) {
            claim.base = Some(Base { sent, server: answer.server });
            claim.holder_ends = answer.left.map(|left| cx.now + left);
        }
        if answer.block > 0 {
            // Perhaps only dead waiters are ahead. Each command drops some of them.
            return self.send_acquire(cx);
        }
        if answer.elsewhere.is_some() && self.counted(cx, answer) {
            return;
        }
        let Some(claim) = &mut self.claim else { return };
        if self.name.family == Family::Reentrant {
            return self.listen(cx, answer.left);
        }
        if cx.config.mixed_fleet {
            let wait = cx.random.jitter(MIXED_POLL);
            claim.clear_timer(cx, id);
            return claim.send_by(cx, id, cx.now + wait);
        }
        if claim.waits && !claim.joined {
            // It was only a try, because no caller waited yet or the subscription was not confirmed.
            cx.listen();
            if cx.subscription.is_settled() {
                self.send_acquire(cx);
            }
            return;
        }
        let is_head = answer.status == Status::Waiting && answer.value == 1;
        #[cfg(feature = "quorum")]
        {
            claim.is_head = is_head;
        }
        if !is_head {
            return;
        }
        if answer.foreign || cx.subscription.is_polling() {
            claim.poll(cx, id);
        }
        claim.send_when_free(cx, id, answer.left);
    }

    pub(crate) fn acquire_failed(&mut self, cx: &mut Context, token: Token, failed: Failed) {
        let id = self.id;
        if let Some(hold) = self.hold.as_mut().filter(|hold| hold.token == token) {
            hold.in_flight.failed(&failed);
            return;
        }
        let Some(claim) = self.claim.as_mut().filter(|claim| claim.token == token) else { return };
        claim.in_flight.failed(&failed);
        match failed.class {
            FailureClass::Retry(failure) => {
                let most = cx.claim_window / 3;
                let wait = cx.backoff(claim.attempts, most);
                claim.attempts = claim.attempts.saturating_add(1);
                claim.failure = Some(failure);
                claim.send_by(cx, id, cx.now + wait);
            }
            FailureClass::Fatal(error) => self.refuse_all(cx, &error),
        }
    }

    /// The server refuses this name: fails every local caller.
    fn refuse_all(&mut self, cx: &mut Context, error: &Error) {
        while let Some((op, _)) = self.queue.head() {
            self.end_caller(cx, op, error.clone());
        }
        self.settle(cx, None);
    }

    /// The claim's timer fired.
    pub(crate) fn heartbeat_due(&mut self, cx: &mut Context) {
        let Some(claim) = &mut self.claim else { return };
        // If the subscription has changed, the timer was not due yet and must not fire again.
        claim.clear_timer(cx, self.id);
        self.send_acquire(cx);
    }
}
