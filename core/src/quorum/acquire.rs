//! Asks all servers at once, and decides as soon as the outcome is certain.

use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use super::lock::{LAST_RETRY, MemberState, Place, QuorumLock, Raise, Stage, clear, denied, of_one_server};
use super::members::{FIRST, Members, Task};
use super::{Quorum, no_such_kind};
use crate::client::{AcquireAll, PartLocks};
use crate::error::{Error, Failure, Votes};
use crate::event::{Grant, Input, Outcome};
use crate::ids::{Caller, OpId};
use crate::lock::{is_try, waited};
use crate::options::{AcquireOptions, Kind, Mode, Wait};
use crate::session::{Context, Lease, Leased, OpKind};
use crate::time::Duration;

/// The longest pause before the second attempt. It doubles with each attempt, up to `LAST_RETRY`.
const FIRST_RETRY: Duration = Duration::from_millis(25);

/// Which servers are asked.
const ALL: Range<u16> = 0..u16::MAX;
const ONLY_FIRST: Range<u16> = FIRST..1;
const THE_OTHERS: Range<u16> = 1..u16::MAX;

impl Quorum {
    pub(super) fn acquire(&mut self, op: Caller, name: &str, options: &AcquireOptions) {
        if self.cx.draining {
            return self.cx.answer(op, Err(Error::Closed));
        }
        if options.kind != Kind::Lock {
            return self.cx.answer(op, Err(no_such_kind()));
        }
        if options.linger.is_some() {
            return self.cx.answer(op, Err(Error::unsupported("locks of a quorum don't linger")));
        }
        if options.at_least.is_some() {
            return self.cx.answer(op, Err(crate::options::not_detached()));
        }
        if options.max_waiters.is_some() {
            return self.cx.answer(op, Err(crate::options::not_counted()));
        }
        let lock = match options.check().and_then(|()| self.lock_for(name, options.mode)) {
            Ok(lock) => lock,
            Err(error) => return self.cx.answer(op, Err(error)),
        };
        let tries = options.wait == Wait::No;
        let patience = self.patience(options);
        self.cx.open_acquire(op, OpKind::Acquire { lock, tries }, patience, options);
        self.with(lock, |lock, cx, members| {
            lock.ask_whether_held(cx, members);
            let behind = matches!(lock.stage, Stage::Held(..)) || lock.queue.len() > lock.queue.tries();
            if tries && behind {
                let error = lock.empty_handed(cx, members, op);
                return cx.complete(op, Err(error));
            }
            let last = matches!(lock.stage, Stage::Idle) && lock.queue.is_empty() && lock.timer.is_some();
            lock.queue.push(op, *options);
            if last {
                lock.goes_last(cx, members);
            }
            lock.settle(cx, members);
        });
    }

    /// A caller's wait has ended.
    pub(super) fn wait_ends(&mut self, op: Caller) {
        let Some(open) = self.cx.ops.get_mut(&op) else { return };
        open.ends = None;
        if self.cx.was_paused(op) {
            return;
        }
        let Some(open) = self.cx.ops.get(&op) else { return };
        match open.kind {
            OpKind::Acquire { lock, .. } => {
                let Some(lock) = self.lock(lock) else { return };
                let error = lock.empty_handed(&self.cx, &self.members, op);
                self.end_acquire(op, error);
            }
            OpKind::AcquireAll { group } => self.all_ends(group),
            OpKind::Drain => self.cx.complete(op, Ok(Outcome::Drained)),
            _ => {}
        }
    }

    /// Ends a wait with an error.
    pub(super) fn end_acquire(&mut self, op: Caller, error: Error) {
        let lock = match self.cx.ops.get(&op).map(|op| &op.kind) {
            Some(OpKind::Acquire { lock, .. }) => *lock,
            Some(OpKind::AcquireAll { group }) => return self.fail_all(*group, None, error),
            _ => return,
        };
        self.with(lock, |lock, cx, members| {
            lock.end_caller(cx, op, error);
            lock.settle(cx, members);
        });
    }
}

impl QuorumLock {
    /// Reconciles the state: gives back what no caller wants any more, and asks on behalf of the first caller.
    pub(super) fn settle(&mut self, cx: &mut Context, members: &mut Members) {
        match self.stage {
            Stage::Held(..) => return,
            Stage::Asking(op) | Stage::Raising(op, _) if cx.ops.contains_key(&op) => return,
            Stage::Asking(_) | Stage::Raising(..) => self.give_back(cx, members, None, Place::Kept),
            Stage::Idle => {}
        }
        match self.queue.head() {
            None => {
                self.clear_timer(cx);
                self.leave_queue(cx, members);
            }
            Some(_) if self.timer.is_some() => {}
            Some((op, options)) => {
                self.options = *options;
                self.stage = Stage::Asking(op);
                // The queue is on the first server only. If a reader asked all at once, the others would let in one reader
                // after the other while a writer waits there. A writer does not pass the readers of its client either.
                let first_only = !self.has_place() && (options.mode == Mode::Shared || self.is_first_busy(members));
                self.ask(cx, members, if first_only { ONLY_FIRST } else { ALL });
                self.decide(cx, members);
            }
        }
    }

    /// Asks the servers of these indexes that have not agreed yet.
    fn ask(&mut self, cx: &Context, members: &mut Members, servers: Range<u16>) {
        let options = of_one_server(&self.options);
        let same = mem::replace(&mut self.asked, options) == options;
        for (at, state) in (0..).zip(&mut self.states).filter(|(at, _)| servers.contains(at)) {
            match *state {
                MemberState::Late(op) if same => *state = MemberState::Asked(op),
                // It was for a caller with other options.
                MemberState::Late(_) | MemberState::Queued(_) | MemberState::Ours { .. } if !same => {
                    clear(cx, members, at, mem::take(state), None);
                }
                _ => {}
            }
            if let MemberState::Empty | MemberState::Denied(_) | MemberState::Owes = state {
                if members.owes(at, &self.key) {
                    *state = MemberState::Owes;
                    continue;
                }
                let task = Some(Task::Member(self.id));
                let op =
                    members.call(at, cx.now, task, |op| Input::Acquire { op, name: &self.name, options: &options });
                *state = MemberState::Asked(op);
            }
        }
    }

    /// Asks the servers that have confirmed a release meanwhile. Without that, the attempt would go on without them for as
    /// long as another server is silent.
    pub(super) fn ask_those_that_owed(&mut self, cx: &Context, members: &mut Members) {
        for at in 0..members.count() {
            let owed = matches!(self.states.get(usize::from(at)), Some(MemberState::Owes));
            if owed && !members.owes(at, &self.key) {
                self.ask(cx, members, at..at.saturating_add(1));
            }
        }
    }

    /// Another caller of this client wants the lock. In a mixed fleet, asks each server whether it still has the lease. A
    /// server that has not answered yet is not asked again.
    fn ask_whether_held(&self, cx: &Context, members: &mut Members) {
        if !cx.config.mixed_fleet || !matches!(self.stage, Stage::Held(..)) {
            return;
        }
        for (at, lease) in self.ours() {
            let known = members.get(at).and_then(|member| member.client.cx.leases.get(&lease));
            if known.is_some_and(|known| known.pending.is_empty()) {
                members.call(at, cx.now, None, |op| Input::Verify { op, lease });
            }
        }
    }

    /// Whether other callers of this client have the lock or wait for it on the first server.
    fn is_first_busy(&self, members: &Members) -> bool {
        let options = of_one_server(&self.options);
        members.list.first().is_some_and(|member| member.client.is_busy_for(&self.key, &options))
    }

    /// A caller that has asked only the first server asks the others when that one has let it in or can't answer. False
    /// while it waits for the answer, and if it has to queue.
    pub(super) fn asks_the_others(&mut self, cx: &mut Context, members: &mut Members) -> bool {
        let others = self.states.get(1..).unwrap_or_default();
        if !others.iter().all(|state| matches!(state, MemberState::Empty)) {
            return true;
        }
        match self.states.first() {
            Some(MemberState::Asked(_)) => false,
            Some(MemberState::Denied(Error::Busy { .. })) => {
                self.fail(cx, members);
                false
            }
            _ => {
                self.ask(cx, members, THE_OTHERS);
                true
            }
        }
    }

    /// The timer fired: looks at the attempt again, makes the next one, or asks again the servers that a held lease lacks.
    pub(super) fn due(&mut self, cx: &mut Context, members: &mut Members) {
        self.timer = None;
        if let Stage::Asking(_) = self.stage {
            return self.decide(cx, members);
        }
        if let Stage::Held(..) = self.stage {
            self.ask(cx, members, ALL);
            return self.ask_after(cx, Duration::from(self.options.ttl) / 3);
        }
        if self.waits_its_turn(members) && !self.asks_anyway(members) {
            return self.ask_after(cx, LAST_RETRY);
        }
        self.settle(cx, members);
    }

    /// A server's state machine has answered. [`Self::decide`] counts the answer.
    pub(super) fn answered(
        &mut self,
        cx: &mut Context,
        members: &mut Members,
        (at, op): (u16, OpId),
        result: Result<Outcome, Error>,
    ) {
        let Some(state) = self.states.get_mut(usize::from(at)) else { return };
        match (&mut *state, result) {
            (MemberState::Asked(asked) | MemberState::Queued(asked), Ok(Outcome::Acquired(grant))) if *asked == op => {
                let queued = matches!(state, MemberState::Queued(_));
                let (lease, mut drawn) = (grant.lease, grant.fence);
                let mut fence = drawn;
                if let Some(member) = members.get(at) {
                    member.leases.insert(lease, self.id);
                    if grant.local {
                        // The server knows nothing of this holder, so it counts after it has confirmed the fence.
                        drawn = member.client.above_given(lease, drawn).unwrap_or(drawn);
                        fence = 0;
                    } else {
                        fence = member.client.last_fence(lease).unwrap_or(drawn);
                    }
                }
                *state = MemberState::Ours { lease, drawn, fence, raise: Raise::No };
                if let Some(until) = self.until {
                    members.tell(at, cx.now, Input::Keep { lease: grant.lease, until });
                }
                if let Stage::Held(held, _) = self.stage
                    && cx.leases.get(&held).is_some_and(|lease| !lease.renew)
                {
                    members.tell(at, cx.now, Input::StopRenewing { lease: grant.lease });
                }
                if queued {
                    self.called(cx, &grant);
                }
            }
            (MemberState::Ours { lease, fence, raise, .. }, Ok(Outcome::Verified(held)))
                if raise.asked() == Some(op) && held =>
            {
                if let Raise::Asked(_, least) = *raise {
                    *fence = least.max(*fence);
                    if let Some(member) = members.get(at) {
                        member.client.gives_out(*lease, least);
                    }
                }
                *raise = Raise::Done;
            }
            // The end of a server's lease is reported separately. A server that failed to raise its fence no longer
            // counts.
            (MemberState::Ours { raise, .. }, Err(error)) if raise.asked() == Some(op) => {
                let given = mem::replace(state, MemberState::Denied(error));
                clear(cx, members, at, given, None);
            }
            (MemberState::Asked(asked) | MemberState::Queued(asked), Err(error)) if *asked == op => {
                *state = MemberState::Denied(error);
            }
            (MemberState::Late(asked), result) if *asked == op => {
                *state = MemberState::Empty;
                if let Ok(Outcome::Acquired(grant)) = result {
                    members.release(at, cx.now, grant.lease, None);
                }
            }
            _ => {}
        }
    }

    pub(super) fn grant(&mut self, cx: &mut Context, members: &mut Members, op: Caller, fence: u64) {
        let AcquireOptions { mode, ttl, renew, max_hold, wait, .. } = self.options;
        let id = cx.new_lease();
        self.clear_timer(cx);
        self.stage = Stage::Held(id, fence);
        self.attempts = 0;
        self.votes = Votes::default();
        self.turns_since.get_or_insert(cx.now);
        if let Some(most) = max_hold {
            self.keep(cx, members, cx.now + most);
        }
        if renew {
            self.ask_after(cx, Duration::from(ttl) / 3);
        }
        // The state machines have already reported every lease that has ended, so a majority is valid at this moment.
        let valid_until = self.valid_until(members).unwrap_or(cx.now);
        cx.leases.insert(id, Lease::new(Leased::Lock(self.id), op, &self.options, fence, valid_until));
        let grant = Grant { lease: id, mode, fence, valid_until, local: false };
        cx.complete(op, Ok(Outcome::Acquired(grant)));
        self.queue.ended(wait == Wait::No, &cx.ops);
        self.end_callers(cx, members, Callers::Tries);
    }

    /// There is no majority: gives back everything but a place in the queue. Waiting callers queue, or the client asks
    /// again after a pause.
    pub(super) fn fail(&mut self, cx: &mut Context, members: &mut Members) {
        self.votes = self.votes(members);
        self.turns_since = None;
        let error = denied(self.votes.clone(), Duration::ZERO, members);
        let (busy, behind) = (matches!(error, Error::Busy { .. }), self.is_behind());
        // So what is given back leaves before the next attempt does.
        self.set_contended(members, true);
        self.give_back(cx, members, None, if busy { self.keeps_place() } else { Place::Left });
        self.end_callers(cx, members, if error.is_retryable() { Callers::Tries } else { Callers::All });
        if !self.may_join(members) {
            self.leave_queue(cx, members);
        } else if behind && busy {
            self.join(cx, members);
        }
        if self.waits_its_turn(members) {
            self.ask_after(cx, LAST_RETRY);
        } else if !self.queue.is_empty() {
            self.pause(cx);
        }
    }

    /// Schedules the next attempt after a pause, which grows.
    fn pause(&mut self, cx: &mut Context) {
        self.ask_after(cx, FIRST_RETRY.saturating_mul(1 << self.attempts.min(3)).min(LAST_RETRY));
        self.attempts = self.attempts.saturating_add(1);
    }

    fn end_callers(&mut self, cx: &mut Context, members: &Members, callers: Callers) {
        if callers == Callers::Tries && self.queue.tries() == 0 {
            return;
        }
        let ended = |op: &Caller| cx.ops.contains_key(op) && (callers == Callers::All || is_try(cx, *op));
        let ops: Vec<Caller> = self.queue.iter().map(|(op, _)| op).filter(ended).collect();
        for op in ops {
            let error = self.empty_handed(cx, members, op);
            self.end_caller(cx, op, error);
        }
    }

    pub(super) fn end_caller(&mut self, cx: &mut Context, op: Caller, error: Error) {
        let tries = is_try(cx, op);
        cx.complete(op, Err(error));
        self.queue.ended(tries, &cx.ops);
    }

    /// The error for a caller that ends without a lease: from the last attempt, or from the answers to the current one.
    pub(super) fn empty_handed(&self, cx: &Context, members: &Members, op: Caller) -> Error {
        let waited = waited(cx, op);
        let first = matches!(self.stage, Stage::Asking(first) | Stage::Raising(first, _) if first == op);
        let held = matches!(self.stage, Stage::Held(..));
        let votes = match self.votes.is_empty() {
            true if held => Votes::default(),
            // A server that has not answered yet counts as timed out.
            true => {
                let mut votes = self.votes(members);
                for vote in votes.0.iter_mut().filter(|vote| first && vote.answer.is_none()) {
                    vote.answer = Some(Err(Error::unreachable(waited, Some(Failure::TimedOut))));
                }
                votes
            }
            false => self.votes.clone(),
        };
        if held || !(first || votes.iter().any(|vote| matches!(vote.answer, Some(Err(_))))) {
            // Another caller of this client holds the lock, or comes first.
            let holder_remaining = self.valid_until(members).map(|until| until.since(cx.now));
            return Error::busy_with(votes, waited, holder_remaining);
        }
        denied(votes, waited, members)
    }
}

/// Which callers of a lock: those that don't wait, or all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Callers {
    Tries,
    All,
}
