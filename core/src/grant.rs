//! Becoming the holder: by an answer, or by a message that another client's script published.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::time::Duration;

use crate::answer::Answer;
use crate::context::Context;
use crate::error::LossReason;
use crate::fences::Fences;
use crate::message::Granted;
use crate::options::Mode;
use crate::releases::Parting;
use crate::reply::Failure;
use crate::request::{Base, Request};
use crate::resource::Resource;
use crate::tenure::{Refill, Tenure, TenureTimers, Validity};
use crate::time::Instant;
use crate::token::Token;

impl Resource {
    /// The waiting token is granted, according to an answer.
    pub(crate) fn granted(&mut self, cx: &mut Context, validity: Validity, answer: &Answer) {
        if self.waits_for_convert(cx) {
            return;
        }
        let fences = Fences::new(answer.value, answer.block);
        // The number counts the listeners on a reentrant lock's channel, and this client is one of them.
        let ourselves = u64::from(!self.subscription.is_polling());
        let waiting = answer.waiting.map(|waiting| waiting.saturating_sub(ourselves));
        self.begin_tenure(cx, validity, answer.server, fences, waiting);
    }

    /// A message says that one of our tokens was granted. It may be late, a duplicate, or for a token that was given up.
    pub(crate) fn grant_received(&mut self, cx: &mut Context, grant: &Granted<'_>) {
        let asks = self.request.as_ref().is_some_and(|request| request.token == grant.token);
        if asks && self.waits_for_convert(cx) {
            return;
        }
        if let Some(request) = self.request.as_mut().filter(|_| asks) {
            let Some(since) = granted_since(cx, request, grant) else { return };
            let mut validity = Validity::new(cx, since, grant.ttl);
            validity.answered = None;
            if validity.until <= cx.now {
                // The message is too old to rely on, so ask the server.
                return request.send_by(cx, self.id, cx.now);
            }
            let fences = Fences::new(grant.fence, grant.block);
            return self.begin_tenure(cx, validity, grant.server, fences, Some(grant.waiting));
        }
        let id = self.id;
        let Some(tenure) = self.tenure.as_mut().filter(|tenure| tenure.token == grant.token) else { return };
        if grant.server > tenure.server {
            // The server granted the token anew, so the lease was lost in between.
            return self.lose_tenure(cx, LossReason::Gone, true);
        }
        // An answer came first, but this message may be the first to say that others wait.
        tenure.heard(cx, id, Some(grant.waiting));
        self.settle(cx, None);
    }

    /// Handles a reader's grant while a convert is unanswered. The convert itself may have made the grant possible. The
    /// token keeps its grant on the server. It is asked for again once the fate of the held lease is known.
    fn waits_for_convert(&mut self, cx: &mut Context) -> bool {
        let converting = self.tenure.as_ref().is_some_and(|tenure| tenure.converting.is_some());
        match &mut self.request {
            Some(request) if converting && request.mode == Mode::Shared => {
                request.send_by(cx, self.id, cx.now + Duration::from_millis(20));
                true
            }
            _ => false,
        }
    }

    fn begin_tenure(
        &mut self,
        cx: &mut Context,
        validity: Validity,
        server: u64,
        fences: Fences,
        waiting: Option<u64>,
    ) {
        let Some(mut request) = self.request.take() else { return };
        request.clear_timer(cx, self.id);
        self.stop_listening(cx);
        if validity.until <= cx.now {
            // The grant came too late to be useful. Gives the token back; the callers ask with a new one.
            let attempts = request.attempts.saturating_add(1);
            self.request = Some(Request { joined: true, ..request });
            self.give_up_request(cx);
            let wait = cx.backoff(attempts, cx.config.claim_window / 3);
            self.ask_after(cx, wait);
            if let Some(request) = &mut self.request {
                request.attempts = attempts;
                request.trouble = Some(Failure::TimedOut);
            }
            return self.settle(cx, None);
        }
        let block = fences.left();
        let holders = self.keep_readers(cx, request.mode);
        let mut tenure = Tenure {
            token: request.token,
            kind: request.kind,
            mode: request.mode,
            validity,
            server,
            fences,
            heard: cx.now,
            budget: None,
            holders,
            // No local caller has held this token yet.
            used: false,
            tainted: false,
            strays: request.strays,
            passing: None,
            refill: Refill { size: block, ..Refill::default() },
            converting: None,
            upgrading: None,
            timers: TenureTimers::default(),
        };
        // Clients of other libraries don't announce that they wait.
        tenure.heard(cx, self.id, if cx.config.mixed_fleet { Some(1) } else { waiting });
        tenure.watch(cx, self.id);
        self.tenure = Some(tenure);
        self.settle(cx, None);
    }

    /// Handles the token that was held until now. Readers go on under the new shared token. In any other case the
    /// server has lost the old token, because otherwise it could not have granted the new one.
    fn keep_readers(&mut self, cx: &mut Context, granted: Mode) -> Vec<crate::LeaseId> {
        let both_shared = granted == Mode::Shared && self.tenure.as_ref().is_some_and(|old| old.mode == Mode::Shared);
        if !both_shared {
            if self.tenure.is_some() {
                self.lose_tenure_quietly(cx, LossReason::Gone, true);
            }
            return Vec::new();
        }
        let Some(mut old) = self.tenure.take() else { return Vec::new() };
        old.clear_timers(cx, self.id);
        let valid_until = Some(old.validity.until);
        let parting = Parting::of(old.token, old.strays.any());
        cx.give_back(&self.name, Parting { valid_until, heirs: old.holders.clone(), ..parting });
        old.holders
    }

    /// An operator took one of our tokens by force. Its grant may be known, or still on its way: the
    /// message can overtake the reply.
    pub(crate) fn revoked(&mut self, cx: &mut Context, token: Token) {
        let holds = |tenure: &Tenure| {
            let converting = tenure.converting.as_ref();
            tenure.token == token || converting.is_some_and(|converting| converting.new == token)
        };
        if self.tenure.as_ref().is_some_and(holds) {
            return self.lose_tenure(cx, LossReason::Revoked, false);
        }
        let asks = self.request.as_ref().is_some_and(|request| request.token == token);
        if asks {
            self.ask_by_another_token(cx);
        }
    }

    /// The server has buried the request's token. Waiting callers go on with a new one.
    pub(crate) fn ask_by_another_token(&mut self, cx: &mut Context) {
        if let Some(mut request) = self.request.take() {
            request.clear_timer(cx, self.id);
            self.stop_listening(cx);
        }
        self.settle(cx, None);
    }

    /// The lease has ended, by the clock or according to the server. With `clean`, the token is given back as well.
    pub(crate) fn lose_tenure(&mut self, cx: &mut Context, reason: LossReason, clean: bool) {
        self.lose_tenure_quietly(cx, reason, clean);
        self.settle(cx, None);
    }

    fn lose_tenure_quietly(&mut self, cx: &mut Context, reason: LossReason, clean: bool) {
        let Some(tenure) = &mut self.tenure else { return };
        let clean = clean || tenure.strays.any() || tenure.converting.is_some();
        // In the order in which the leases were granted. Sorting with a heap needs a tenth of the code,
        // which matters in WebAssembly.
        for lease in BinaryHeap::from(core::mem::take(&mut tenure.holders)).into_sorted_vec() {
            cx.lose_lease(lease, reason);
        }
        if clean {
            self.give_back_tenure(cx, None);
        } else if let Some(mut tenure) = self.tenure.take() {
            tenure.clear_timers(cx, self.id);
        }
    }
}

/// The earliest local time at which the grant can have happened. None if the grant is older than an answer that has arrived.
fn granted_since(cx: &Context, request: &Request, grant: &Granted<'_>) -> Option<Instant> {
    let Some(Base { sent, server }) = request.base else { return request.first_sent };
    if grant.server < server {
        return None;
    }
    let elapsed = Duration::from_micros(grant.server.saturating_sub(server));
    // Assumes that the client's clock is slower than the server's, by as much as drift allows.
    Some((sent + elapsed.saturating_sub(elapsed / 100)).min(cx.now))
}
