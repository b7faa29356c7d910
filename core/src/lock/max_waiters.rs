//! Which local callers are refused because enough others wait: `max_waiters`.
//!
//! The client decides once about a caller with this option: as soon as it is clear that the caller has to wait. The callers behind
//! one token count exactly. Those of all other tokens count as the server has them: each token tells it their number when it joins
//! the queue, and with each heartbeat. These are tokens of other clients, and those with which this client waits for more permits
//! of the same semaphore. The client that holds the lock counts each other client once, because it doesn't wait.

use super::LockState;
use super::claim::Path;
use crate::error::Error;
use crate::ids::Caller;
use crate::session::Context;
use crate::wire::{Answer, Status};

impl LockState {
    /// Ends the callers that find too many others waiting, once it is known that they have to wait. Asks the server for the
    /// callers of other tokens, unless it is asked anyway.
    pub(super) fn end_excess(&mut self, cx: &mut Context) {
        let Some((_, head)) = self.queue.head().filter(|_| self.queue.is_undecided()) else { return };
        let here = self.hold.as_ref().filter(|hold| hold.excludes(cx, head)).map(|hold| hold.waiting);
        let elsewhere = match &self.claim {
            Some(claim) if here.is_none() && !claim.is_known_busy() => return,
            Some(claim) => claim.elsewhere,
            None if here.is_none() => return,
            None => here,
        };
        self.refuse(cx, elsewhere.unwrap_or(0), elsewhere.is_some());
        if self.queue.is_empty() {
            return self.give_up_claim(cx);
        }
        if self.queue.is_undecided() {
            self.count(cx);
        }
    }

    /// Asks the server how many callers wait with other tokens, if it was not asked yet.
    pub(crate) fn count(&mut self, cx: &mut Context) {
        self.queue.counts = true;
        if let Some(claim) = self.claim.as_mut().filter(|claim| claim.joined && !claim.counts && claim.sent.is_none()) {
            claim.send_by(cx, self.id, cx.now);
        }
    }

    /// Another token of this client has stopped waiting. The server counted its callers, and they may be behind this one now.
    pub(crate) fn forget_count(&mut self) {
        if let Some(claim) = &mut self.claim {
            (claim.counts, claim.elsewhere) = (false, None);
        }
    }

    /// How many callers wait for a semaphore besides this lane's, if the server has said that.
    pub(crate) fn elsewhere(&self) -> Option<u32> {
        self.claim.as_ref()?.elsewhere
    }

    /// The server has said how many callers wait with other tokens. True if the token may not join the queue, and so isn't in it.
    pub(super) fn counted(&mut self, cx: &mut Context, answer: &Answer) -> bool {
        let Some(claim) = &mut self.claim else { return true };
        if claim.base.is_some_and(|base| base.server > answer.server) {
            return false;
        }
        claim.elsewhere = answer.elsewhere.filter(|_| answer.status == Status::Waiting && claim.counts);
        if answer.status == Status::Waiting {
            return false;
        }
        // A copy of the command can still be on its way.
        claim.joined &= claim.in_flight.any();
        let before = self.queue.len();
        self.refuse(cx, answer.elsewhere.unwrap_or(0), false);
        let left = self.queue.len();
        if left > self.queue.tries() && left < before {
            // A caller came meanwhile that may wait.
            self.send_by_path(cx, Path::Full);
        } else if let Some(claim) = &mut self.claim {
            // The caller that was refused has given up meanwhile.
            claim.poll(cx, self.id);
        }
        true
    }

    fn refuse(&mut self, cx: &mut Context, elsewhere: u32, counted: bool) {
        for (op, waiters) in self.queue.refuse(&cx.ops, elsewhere, counted) {
            let error = self.full(cx, op, waiters);
            self.end_caller(cx, op, error);
        }
    }

    /// The error for a caller that finds so many others waiting.
    pub(crate) fn full(&self, cx: &Context, op: Caller, found: u32) -> Error {
        let mut error = self.busy(cx, op);
        if let Error::Busy { waiters, .. } = &mut error {
            *waiters = Some(found);
        }
        error
    }
}
