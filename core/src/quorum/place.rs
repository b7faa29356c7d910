//! A client's place in the queue of a quorum's lock. The queue is on the first server only. Queues on several servers
//! can block each other, because each client may wait for the turn of another one.
//!
//! ```text
//!            another client holds the lock            the first server grants
//! (no place) ------------------------------> Queued -------------------------> Ours: asks the other servers
//! ```
//!
//! A place decides only the order. The lock still takes a majority, so a client that can't reach the first server gets
//! the lock by polling the others.

use core::mem;

use super::lock::{LAST_RETRY, MemberState, Place, QuorumLock, Raise, Stage, clear, of_one_server};
use super::members::{FIRST, Members, Task};
use crate::error::Error;
use crate::event::{Grant, Input};
use crate::options::{AcquireOptions, Mode, Wait};
use crate::session::Context;
use crate::time::Duration;

/// How many attempts to win a majority belong to one turn. They take about a second.
const ATTEMPTS: u32 = 8;
/// After how many pauses the first client of the queue asks the other servers. They take about two seconds.
const PATIENCE: u32 = 16;
/// How long callers of one client may take turns before clients that poll get a chance.
const TURNS: Duration = Duration::from_secs(1);

impl QuorumLock {
    fn first(&mut self) -> Option<&mut MemberState> {
        self.states.first_mut()
    }

    fn is_queued(&self) -> bool {
        matches!(self.states.first(), Some(MemberState::Queued(_)))
    }

    /// Whether the client has a place in the queue, or has its turn.
    pub(super) fn has_place(&self) -> bool {
        matches!(self.states.first(), Some(MemberState::Queued(_) | MemberState::Ours { .. }))
    }

    /// Whether the first server was busy: another client has its turn or holds the lock.
    pub(super) fn is_behind(&self) -> bool {
        matches!(self.states.first(), Some(MemberState::Denied(Error::Busy { .. })))
    }

    /// Whether a local caller waits and may join the queue.
    // Called from four places, and the size of the WebAssembly counts.
    #[inline(never)]
    pub(super) fn may_join(&self, members: &Members) -> bool {
        self.queue.len() > self.queue.tries()
            && members.list.first().is_some_and(|member| !member.client.cx.subscription.is_refused())
    }

    /// Joins the queue for the first local caller.
    pub(super) fn join(&mut self, cx: &Context, members: &mut Members) {
        let Some((_, options)) = self.queue.head() else { return };
        self.asked = of_one_server(options);
        let waits = AcquireOptions { wait: Wait::Forever, ..self.asked };
        let task = Some(Task::Member(self.id));
        let op = members.call(FIRST, cx.now, task, |op| Input::Acquire { op, name: &self.name, options: &waits });
        if let Some(first) = self.first() {
            *first = MemberState::Queued(op);
        }
    }

    /// Leaves the queue, because no local caller wants the place any more.
    pub(super) fn leave_queue(&mut self, cx: &Context, members: &mut Members) {
        // An answer that is still on its way may serve the next caller.
        if self.has_place()
            && let Some(first) = self.first()
        {
            let first = mem::take(first);
            clear(cx, members, FIRST, first, None);
        }
    }

    /// Ends a holder's turn. If other clients wait, the holder passes its lease on the first server to the next local
    /// caller, as often as the state machine of that server allows local hand-overs. Then the next local caller queues
    /// behind the other clients.
    pub(super) fn end_turn(&mut self, cx: &mut Context, members: &mut Members, task: Option<Task>) {
        let long = self.turns_since.is_some_and(|since| cx.now.time_since(since) >= TURNS) && !self.queue.is_empty();
        let queues = self.may_join(members);
        let (wanted, behind) = (self.is_wanted(members), self.is_behind());
        self.set_contended(members, wanted || behind || self.is_queued());
        let passes = queues && !long && wanted;
        // A caller with other options gets a lease of its own.
        let same = || self.queue.head().is_some_and(|(_, options)| of_one_server(options) == self.asked);
        let place = if queues && self.is_queued() {
            Place::Kept
        } else if passes && same() {
            // Joins before it leaves, so that the server's state machine can hand the lock over without a round trip.
            let left = self.first().map(mem::take).unwrap_or_default();
            self.join(cx, members);
            clear(cx, members, FIRST, left, task);
            Place::Kept
        } else {
            Place::Left
        };
        self.give_back(cx, members, task, place);
        if place == Place::Left && (passes || queues && behind) {
            self.join(cx, members);
        }
        if long {
            // Clients that can't reach the first server get a chance.
            self.turns_since = None;
        }
        if long || self.waits_its_turn(members) {
            self.ask_after(cx, LAST_RETRY);
        }
        self.settle(cx, members);
        if self.queue.is_empty() && (wanted || behind) && self.asked.mode == Mode::Exclusive {
            self.ask_after(cx, LAST_RETRY);
        }
    }

    /// A caller has come while the client lets others go first: they wait, and the client has just released the lock. If
    /// it asked all servers at once, it would always be faster than the client whose turn it is.
    pub(super) fn goes_last(&mut self, cx: &mut Context, members: &mut Members) {
        if self.may_join(members) {
            self.join(cx, members);
        } else if self.queue.tries() > 0 {
            self.clear_timer(cx);
        }
    }

    /// The first server has granted the lock from its queue. `states` has this grant already.
    pub(super) fn called(&mut self, cx: &mut Context, grant: &Grant) {
        self.attempts = 0;
        if !grant.local {
            self.turns_since = None;
        }
        if matches!(self.stage, Stage::Idle) {
            self.clear_timer(cx);
        }
    }

    /// Whether it is useless to ask the other servers now, because the first one will notify the client of its turn.
    pub(super) fn waits_its_turn(&self, members: &Members) -> bool {
        self.is_queued() && self.may_join(members) && !self.is_first_silent(members)
    }

    /// Whether the first server has reported that other clients wait for the lease there.
    fn is_wanted(&self, members: &Members) -> bool {
        let Some(MemberState::Ours { lease, .. }) = self.states.first() else { return false };
        members.list.first().is_some_and(|member| member.client.others_want(*lease))
    }

    /// Whether the first server has stopped answering while this client waits there.
    fn is_first_silent(&self, members: &Members) -> bool {
        members.list.first().is_some_and(|first| self.silence(first).is_some())
    }

    /// Whether to ask the other servers although the first one is not silent. A key may stay there for ever, so the first
    /// client in its queue asks them from time to time.
    pub(super) fn asks_anyway(&mut self, members: &Members) -> bool {
        self.attempts = self.attempts.saturating_add(1);
        let claim = members.list.first().and_then(|member| member.client.claim(&self.key));
        claim.is_some_and(|claim| claim.is_head && self.attempts.is_multiple_of(PATIENCE))
    }

    /// The first server stays for the next attempt. It may lose its data before, so it counts after it has confirmed the
    /// lease again.
    pub(super) fn doubt_first(&mut self) {
        if let Some(MemberState::Ours { fence, raise, .. }) = self.first() {
            (*fence, *raise) = (0, Raise::No);
        }
    }

    /// Whether a client that wins no majority keeps its place. It doesn't keep its turn for long, because another client
    /// may be able to win one.
    pub(super) fn keeps_place(&self) -> Place {
        if self.is_queued() || self.attempts < ATTEMPTS { Place::Kept } else { Place::Left }
    }
}
