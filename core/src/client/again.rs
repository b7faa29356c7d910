//! Requests that are sent again, because the server has answered that it did nothing: it lacks the script, or it left out an
//! entry of the fast path. How long the server may stay silent is counted from the new request.

use super::Client;
use crate::session::{Body, Form, Purpose, Request, SentCommand};

impl Client {
    /// The server lacks the script, so it gets the same request with the source.
    #[inline(never)]
    pub(super) fn send_source(&mut self, sent: &SentCommand, request: Request) {
        let purpose = sent.purpose;
        if let Body::Batch(mut entries) = request.body {
            entries.retain(|entry| self.goes_on(entry.purpose));
            return self.cx.transmit_batch(sent.flow(), Form::Source, entries);
        }
        self.undone(purpose);
        let wanted = self.is_wanted(purpose);
        #[cfg(feature = "quorum")]
        let wanted = wanted || self.is_for_next_turn(purpose, &request);
        if !wanted {
            return self.dropped(purpose);
        }
        self.begins_anew(purpose);
        self.cx.transmit(sent.flow(), purpose, Form::Source, request);
        // The renewal's timer goes on.
        if !matches!(purpose, Purpose::Renew { op: None, .. }) {
            self.sent(purpose);
        }
    }

    /// Whether an entry that was left undone is still needed. The caller then sends it again.
    pub(super) fn goes_on(&mut self, purpose: Purpose) -> bool {
        let wanted = self.is_wanted(purpose);
        if wanted {
            self.begins_anew(purpose);
        } else {
            self.undone(purpose);
        }
        wanted
    }

    /// A request is not in flight any more, and has done nothing.
    fn undone(&mut self, purpose: Purpose) {
        let in_flight = match purpose {
            Purpose::Acquire { lock, token } | Purpose::Convert { lock, new: token } => {
                self.locks.get_mut(lock).and_then(|lock| lock.in_flight_of(token))
            }
            Purpose::Release { token } => self.cx.releases.get_mut(&token).map(|release| &mut release.in_flight),
            Purpose::Multi { script } => return self.multi_undone(script),
            _ => return,
        };
        if let Some(in_flight) = in_flight {
            in_flight.answered();
        }
    }

    /// It is sent again.
    fn begins_anew(&mut self, purpose: Purpose) {
        let now = Some(self.cx.now);
        if let Some(op) = self.cx.call_behind(purpose)
            && let Some(open) = self.cx.ops.get_mut(&op)
        {
            open.sent = now;
        }
        if let Purpose::Acquire { lock, .. } = purpose
            && let Some(claim) = self.locks.get_mut(lock).and_then(|lock| lock.claim.as_mut())
        {
            claim.sent = now;
        }
    }

    /// Whether the server gets the script although the call has ended, because the next turn of a quorum will need it.
    #[cfg(feature = "quorum")]
    fn is_for_next_turn(&self, purpose: Purpose, request: &Request) -> bool {
        let Purpose::Renew { lock, token, .. } = purpose else { return false };
        let hold = self.locks.hold(lock);
        matches!(request.body, Body::Raise { .. }) && hold.is_some_and(|hold| hold.token == token)
    }
}
