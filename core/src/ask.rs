//! Asking the server for a lock. The first try, the heartbeat, a poll and a resend are all the same command.

use alloc::format;
use core::time::Duration;

use crate::answer::{Answer, Status};
use crate::calls::{Call, Purpose};
use crate::context::Context;
use crate::error::Error;
use crate::flow::within;
use crate::lease::covering;
use crate::options::Family;
use crate::request::{Base, Request};
use crate::resource::Resource;
use crate::script::{Acquire, Form, How};
use crate::tenure::Validity;
use crate::time::Instant;
use crate::token::Token;
use crate::trouble::{Failed, Trouble};

/// The pause before a client that gave a reentrant lock back asks for it again, so that others get a chance.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest time between two polls in a mixed fleet.
const MIXED_POLL: Duration = Duration::from_millis(250);

impl Resource {
    /// Makes sure that a request is in progress for the first local caller.
    pub(crate) fn ask(&mut self, cx: &mut Context) {
        let Some((_, head)) = self.queue.head() else { return };
        let waits = self.queue.len() > self.queue.tries();
        match &mut self.request {
            Some(request) if request.waits || !waits => return,
            Some(request) => request.waits = true,
            None => {
                let mut request = Request::new(cx.new_token(), &head);
                request.waits = waits;
                self.request = Some(request);
            }
        }
        self.send_acquire(cx, Form::Digest);
    }

    /// Joins the server's queue although a token is held, because that token can't serve the next caller.
    pub(crate) fn ask_beside(&mut self, cx: &mut Context) {
        if !cx.is_mixed(self.name.family) {
            self.ask(cx);
        }
    }

    /// Asks again after a token was given back. In a mixed fleet, other clients get a chance to poll first.
    pub(crate) fn ask_anew(&mut self, cx: &mut Context) {
        if !cx.is_mixed(self.name.family) || self.request.is_some() {
            return self.ask(cx);
        }
        // Waiters that listen on the lock's channel ask at once, so a short pause is enough for them.
        let wait = cx.random.jitter(if cx.config.mixed_fleet { MIXED_POLL } else { PAUSE });
        self.ask_after(cx, wait);
    }

    /// Asks with a new token after a pause.
    pub(crate) fn ask_after(&mut self, cx: &mut Context, wait: Duration) {
        let Some((_, head)) = self.queue.head() else { return };
        let mut request = Request::new(cx.new_token(), &head);
        request.waits = self.queue.len() > self.queue.tries();
        request.send_by(cx, self.id, cx.now + wait);
        self.request = Some(request);
    }

    pub(crate) fn send_acquire(&mut self, cx: &mut Context, form: Form) {
        let Some((_, head)) = self.queue.head() else { return };
        let callers = self.queue.len();
        let Some(request) = &mut self.request else { return };
        let joins = request.waits && !cx.is_mixed(self.name.family) && cx.subscription.is_settled();
        let many = joins || callers > 1 || self.name.family == Family::Semaphore;
        let block = if many { u64::from(cx.config.local_handoffs).saturating_add(1) } else { 1 };
        let what = Acquire {
            token: request.token,
            kind: request.kind,
            mode: request.mode,
            ttl: head.max_hold.map_or(head.ttl, |most| head.ttl.min(covering(most))),
            how: if joins { How::Wait } else { How::Try },
            block,
        };
        request.joining = joins;
        request.clear_timer(cx, self.id);
        let soon = if request.joined { within::HEARTBEAT } else { within::CALL };
        let purpose = Purpose::Acquire { resource: self.id, token: request.token };
        let command = cx.acquire_command(form, &self.name, &what);
        if form == Form::Source {
            // The server has answered the copy without the source.
            request.sent = None;
        }
        if cx.send(soon, purpose, command) {
            self.acquire_sent(cx);
        }
    }

    /// The command has left. The next one is a heartbeat.
    pub(crate) fn acquire_sent(&mut self, cx: &mut Context) {
        let Some(request) = &mut self.request else { return };
        request.joined |= request.joining;
        request.first_sent.get_or_insert(cx.now);
        request.sent.get_or_insert(cx.now);
        request.strays.sent();
        request.clear_timer(cx, self.id);
        request.send_by(cx, self.id, cx.now + cx.config.claim_window / 3);
    }

    /// Whether a queued acquire of this token is still needed.
    pub(crate) fn wants_to_ask(&self, token: Token) -> bool {
        self.request.as_ref().is_some_and(|request| request.token == token)
    }

    pub(crate) fn acquire_answered(&mut self, cx: &mut Context, call: &Call, token: Token, answer: &Answer) {
        if let Some(request) = self.request.as_mut().filter(|request| request.token == token) {
            request.strays.ended(false);
            request.sent = None;
            let recovered = request.trouble.take().is_some();
            if recovered && matches!(answer.status, Status::Waiting | Status::Busy) {
                request.attempts = 0;
            }
            return self.request_answered(cx, call.sent, answer);
        }
        let id = self.id;
        let Some(tenure) = self.tenure.as_mut().filter(|tenure| tenure.token == token) else { return };
        tenure.strays.ended(false);
        // A convert in flight may have overtaken it and buried this token.
        if tenure.converting.is_some() {
            return;
        }
        if answer.server <= tenure.server {
            if matches!(answer.status, Status::Again | Status::Entered) {
                tenure.heard(cx, id, answer.waiting);
                self.settle(cx, None);
            }
            return;
        }
        match answer.status {
            Status::Again => {
                tenure.server = answer.server;
                tenure.fences.add(answer.value, answer.block);
                let validity = Validity::new(cx, call.sent, answer.left.unwrap_or_default());
                tenure.extend(cx, id, validity);
                tenure.heard(cx, id, answer.waiting);
                self.settle(cx, None);
            }
            // The command took the lock or joined the queue anew, so the lease was lost in between.
            _ => self.lose_tenure(cx, crate::LossReason::Gone, true),
        }
    }

    fn request_answered(&mut self, cx: &mut Context, sent: Instant, answer: &Answer) {
        match answer.status {
            Status::Entered | Status::Again => {
                let validity = Validity::new(cx, sent, answer.left.unwrap_or_default());
                self.granted(cx, validity, answer);
            }
            Status::Waiting | Status::Busy => {
                self.still_busy(cx, sent, answer);
                self.settle(cx, None);
            }
            // The token is buried although this client did not give it up: an operator took the lock before
            // the grant was known here.
            Status::Gone => self.ask_by_another_token(cx),
            status => {
                let error = Error::Protocol(format!("acquire answered {status:?} to a token that only waits"));
                self.refuse_all(cx, &error);
            }
        }
    }

    /// Another client holds the lock. Stores what the answer says and schedules the next command.
    fn still_busy(&mut self, cx: &mut Context, sent: Instant, answer: &Answer) {
        let id = self.id;
        let Some(request) = &mut self.request else { return };
        if request.base.is_none_or(|base| base.server < answer.server) {
            request.base = Some(Base { sent, server: answer.server });
            request.holder_ends = answer.left.map(|left| cx.now + left);
        }
        if self.name.family == Family::Reentrant {
            return self.listen(cx, answer.left);
        }
        if cx.config.mixed_fleet {
            let wait = cx.random.jitter(MIXED_POLL);
            request.clear_timer(cx, id);
            return request.send_by(cx, id, cx.now + wait);
        }
        if request.waits && !request.joined {
            // It was only a try, because no caller waited yet or the subscription was not confirmed.
            cx.listen();
            if cx.subscription.is_settled() {
                self.send_acquire(cx, Form::Digest);
            }
            return;
        }
        let is_head = answer.status == Status::Waiting && answer.value == 1;
        if !is_head {
            return;
        }
        if answer.foreign || cx.subscription.is_polling() {
            request.poll(cx, id);
        }
        request.send_when_free(cx, id, answer.left);
    }

    pub(crate) fn acquire_failed(&mut self, cx: &mut Context, token: Token, failed: Failed) {
        let id = self.id;
        let maybe_applied = failed.maybe_applied;
        if let Some(tenure) = self.tenure.as_mut().filter(|tenure| tenure.token == token) {
            tenure.strays.ended(maybe_applied);
            return;
        }
        let Some(request) = self.request.as_mut().filter(|request| request.token == token) else { return };
        request.strays.ended(maybe_applied);
        match failed.trouble {
            Trouble::NoScript => self.send_acquire(cx, Form::Source),
            Trouble::Retry(failure) => {
                let most = cx.config.claim_window / 3;
                let wait = cx.backoff(request.attempts, most);
                request.attempts = request.attempts.saturating_add(1);
                request.trouble = Some(failure);
                request.send_by(cx, id, cx.now + wait);
            }
            Trouble::Fatal(error) => self.refuse_all(cx, &error),
        }
    }

    /// The server refuses this name: fails every local caller.
    pub(crate) fn refuse_all(&mut self, cx: &mut Context, error: &Error) {
        while let Some((op, _)) = self.queue.head() {
            self.end_caller(cx, op, error.clone());
        }
        self.settle(cx, None);
    }

    /// The request's timer fired.
    pub(crate) fn heartbeat_due(&mut self, cx: &mut Context) {
        let Some(request) = &mut self.request else { return };
        // If the subscription has changed, the timer was not due yet and must not fire again.
        request.clear_timer(cx, self.id);
        self.send_acquire(cx, Form::Digest);
    }
}
