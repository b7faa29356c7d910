//! Giving tokens back: a release is sent at once, and resent until it is answered or no longer matters.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Context;
use super::flow::needed;
use super::giving_back::{Release, ReleaseParams, ToStore};
use super::op::OpKind;
use super::request::{self, Body, Purpose, Request};
use super::timers::Timer;
use super::unanswered::InFlight;
use crate::error::{Error, Failure};
use crate::event::{Outcome, ReleaseOutcome};
use crate::ids::{Caller, LeaseId, Token};
use crate::options::Mode;
use crate::time::{Duration, Instant};
use crate::wire::{Failed, FailureClass, Name, Status};

/// The longest pause before a refused release is resent.
const SLOW_RETRY: Duration = Duration::from_secs(20);

/// In a quorum, a server with this many lost releases gets no new claims.
#[cfg(feature = "quorum")]
const MOST_OWED: usize = 32;

impl Context {
    pub(crate) fn give_back(&mut self, name: &Arc<Name>, params: ReleaseParams) {
        let ReleaseParams { token, tombstone, valid_until, op, heirs, moved, wanted, used_fence, fast, result } =
            params;
        let window = self.claim_window.saturating_mul(if tombstone { 20 } else { 1 });
        let give_up = (self.now + window).max(valid_until.unwrap_or_default());
        let held = valid_until.is_some_and(|until| until > self.now);
        let release = Release {
            name: name.clone(),
            tombstone,
            op,
            heirs,
            valid_until,
            held,
            moved,
            given_up: self.now,
            give_up,
            in_flight: InFlight { lost: moved, ..InFlight::default() },
            sends: 0,
            failures: 0,
            refused: false,
            moving: false,
            wanted,
            used_fence,
            result,
            timer: None,
        };
        self.unreleased = self.unreleased.saturating_add(u32::from(held));
        self.owed = self.owed.saturating_add(usize::from(moved));
        self.releases.insert(token, release);
        if let Some(op) = op {
            self.open(op, OpKind::Release { token }, Some(self.patience()));
        }
        self.send_release(token, fast.filter(|_| held && !tombstone));
    }

    /// The result that a token's release stores.
    pub(super) fn result_of(&self, token: Token) -> Option<&ToStore> {
        self.releases.get(&token)?.result.as_ref()
    }

    /// Whether a release is unconfirmed: of this name, or of too many names. Until it is confirmed, another token would
    /// only be one more to release again and again.
    #[cfg(feature = "quorum")]
    pub(crate) fn owes(&self, key: &str) -> bool {
        let same = |release: &Release| release.in_flight.lost && *release.name.key == *key;
        self.owed >= MOST_OWED || (self.owed > 0 && self.releases.values().any(same))
    }

    /// How many releases are unconfirmed.
    #[cfg(feature = "quorum")]
    pub(crate) const fn owed(&self) -> usize {
        self.owed
    }

    /// Sends a release, by the fast path first if it has one.
    #[inline(never)]
    fn send_release(&mut self, token: Token, fast: Option<(Mode, u64)>) {
        let Some(release) = self.releases.get(&token) else { return };
        let soon = if release.wanted { needed::NONE } else { needed::LEISURE };
        let (mode, stamp) = fast.unwrap_or((Mode::Exclusive, 0));
        let (tombstone, used_fence) = (release.tombstone, release.used_fence);
        let what = request::Release { token, tombstone, used_fence, mode, stamp };
        let request = Request::new(&release.name, Body::Release(what));
        let purpose = Purpose::Release { token };
        let sent = match fast {
            Some(_) => self.send_fast(soon, purpose, request),
            None => self.send(soon, purpose, request),
        };
        if sent {
            self.release_sent(token);
        }
    }

    /// The release has left. It is resent before a whole response timeout has passed, because other clients may wait for the lock.
    pub(crate) fn release_sent(&mut self, token: Token) {
        let most = self.response_timeout.max(self.claim_window / 3);
        let Some(release) = self.releases.get_mut(&token) else { return };
        release.in_flight.sent();
        let attempt = release.sends;
        release.sends = release.sends.saturating_add(1);
        let op = release.op;
        if let Some(op) = op {
            self.op_sent(op);
        }
        let again = self.now + self.flows.resend_after(attempt, self.claim_window / 3).min(most);
        self.release_again(token, again);
    }

    fn release_again(&mut self, token: Token, at: Instant) {
        if let Some(release) = self.releases.get_mut(&token) {
            self.timers.set(Timer::Release(token), &mut release.timer, Some(at));
        }
    }

    /// The timer of an unanswered release fired.
    pub(crate) fn release_due(&mut self, token: Token) {
        let Some(release) = self.releases.get_mut(&token) else { return };
        release.timer = None;
        if release.give_up <= self.now {
            // The server has forgotten the token by now. A call that still waits for the outcome ends at its own time limit.
            self.forget_release(token);
            return;
        }
        self.send_release(token, None);
    }

    pub(crate) fn release_failed(&mut self, token: Token, failed: Failed) {
        let Some(release) = self.releases.get_mut(&token) else { return };
        let owed = release.in_flight.lost;
        release.in_flight.failed(&failed);
        if release.in_flight.lost && !owed {
            self.owed = self.owed.saturating_add(1);
        }
        release.moving =
            matches!(&failed.class, FailureClass::Retry(Failure::Unavailable(text)) if text.starts_with("TRYAGAIN"));
        match failed.class {
            FailureClass::Retry(_) => {
                let failures = release.failures;
                release.failures = failures.saturating_add(1);
                let most = self.response_timeout.max(self.claim_window / 3);
                let wait = self.backoff(failures, most);
                let at = self.now + wait;
                self.release_again(token, at);
            }
            // The key was overwritten with another type, so it belongs to another program.
            FailureClass::Fatal(Error::WrongKind(_)) => {
                self.end_release(token, Ok(Outcome::Released(ReleaseOutcome::NotOwner)));
            }
            // The caller gets the error. But other clients wait for the lock, and a server that can't
            // write now may be able to soon.
            FailureClass::Fatal(error @ Error::Server(_)) => {
                let failures = release.failures;
                release.failures = failures.saturating_add(1);
                if let Some(op) = release.op.take() {
                    self.fail(op, error);
                }
                let at = self.now + self.backoff(failures, SLOW_RETRY);
                self.release_again(token, at);
            }
            FailureClass::Fatal(error) => self.refuse_release(token, error),
        }
    }

    /// The time limit of a release's call is over. Returns whether the call goes on: while a slot moves, as long as the
    /// lease may be held.
    pub(crate) fn waits_for_slot(&mut self, op: Caller) -> bool {
        let Some(OpKind::Release { token }) = self.ops.get(&op).map(|op| &op.kind) else { return false };
        let until = self.releases.get(token).filter(|release| release.moving).and_then(|release| release.valid_until);
        let left = until.unwrap_or_default().time_since(self.now);
        if left.is_zero() {
            return false;
        }
        self.limit_op(op, left.min(self.patience()));
        true
    }

    /// No retry can repair the failure. The server keeps the lease until its end, so a close counts it.
    fn refuse_release(&mut self, token: Token, error: Error) {
        let Some(release) = self.releases.get_mut(&token) else { return };
        let op = release.op.take();
        match release.valid_until.filter(|_| release.held) {
            None => _ = self.forget_release(token),
            // Another copy of the command may still succeed.
            Some(_) if release.in_flight.unanswered > 0 => {}
            Some(until) => {
                release.give_up = until;
                self.unreleased = self.unreleased.saturating_sub(u32::from(!release.refused));
                release.refused = true;
                self.release_again(token, until);
            }
        }
        if let Some(op) = op {
            self.fail(op, error);
        }
        self.end_close();
    }

    /// Handles the answer to a release. Returns the readers that went on under another token, if this token turns out
    /// to have been lost before.
    pub(crate) fn release_answered(&mut self, token: Token, status: Status) -> Vec<LeaseId> {
        let Some(release) = self.releases.get_mut(&token) else { return Vec::new() };
        self.last_released = self.now;
        release.in_flight.answered();
        let was_valid = release.valid_until.is_some_and(|until| release.given_up < until);
        let outcome = match status {
            Status::Released if was_valid => ReleaseOutcome::Released,
            // Another copy of the command released it, and its reply is lost or late. Or the release of the
            // token that it moved to does.
            // But that is not known if the release stores a result: the lease may have been lost before it arrived.
            Status::Gone | Status::Taken | Status::Left
                if was_valid && release.in_flight.any() && release.result.is_none() =>
            {
                ReleaseOutcome::Released
            }
            Status::Taken => ReleaseOutcome::NotOwner,
            _ => ReleaseOutcome::AlreadyExpired,
        };
        // After the token would have expired anyway, its absence says nothing about the time before.
        let tells = outcome != ReleaseOutcome::Released && release.valid_until.is_some_and(|until| self.now < until);
        let heirs = core::mem::take(&mut release.heirs);
        self.end_release(token, Ok(Outcome::Released(outcome)));
        if tells { heirs } else { Vec::new() }
    }

    fn end_release(&mut self, token: Token, result: Result<Outcome, Error>) {
        if let Some(op) = self.forget_release(token) {
            self.complete(op, result);
        }
    }

    fn forget_release(&mut self, token: Token) -> Option<Caller> {
        let mut release = self.releases.remove(&token)?;
        self.owed = self.owed.saturating_sub(usize::from(release.in_flight.lost));
        self.unreleased = self.unreleased.saturating_sub(u32::from(release.held && !release.refused));
        self.timers.set(Timer::Release(token), &mut release.timer, None);
        self.end_close();
        release.op
    }
}
