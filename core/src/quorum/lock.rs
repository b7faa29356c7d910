//! A name in use: its local callers, and what each server answered. Each reader has one of its own.
//!
//! ```text
//!           ask every server           a majority agrees          a majority has the fence, most often at once
//!   Idle   ------------------> Asking -------------------> Raising -----------------------------------> Held
//!    ^                           |                            |                                           |
//!    '----- random pause --------+---- no majority: give all back       released, or majority lost -------'
//! ```

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use core::mem;

use super::members::{CallKind, Member, Members, Task};
use crate::error::{Error, Failure, LossReason, Vote, Votes};
use crate::event::Input;
use crate::ids::{Caller, LeaseId, LockId, OpId};
use crate::lock::LocalQueue;
use crate::options::{AcquireOptions, Wait};
use crate::session::{Context, Slot, Timer, ttl_of};
use crate::time::{Duration, Instant};

/// The longest pause between two attempts.
pub(super) const LAST_RETRY: Duration = Duration::from_millis(200);

#[derive(Clone, Hash)]
pub(crate) struct QuorumLock {
    pub(super) id: LockId,
    pub(super) name: Arc<str>,
    /// The name with its prefix.
    pub(crate) key: String,
    pub(super) queue: LocalQueue,
    pub(super) stage: Stage,
    pub(super) states: Vec<MemberState>,
    /// The options of the current caller or holder.
    pub(super) options: AcquireOptions,
    /// The options of the last question to the servers.
    pub(super) asked: AcquireOptions,
    /// When a renewed lease ends at the latest.
    pub(crate) until: Option<Instant>,
    /// The result of the last attempt, if nothing has been granted since.
    pub(super) votes: Votes,
    /// Whether other clients are known to want the lock: the last attempt failed, or they waited at the last release.
    pub(super) is_contended: bool,
    /// How many attempts have failed in a row.
    pub(crate) attempts: u32,
    /// Since when callers of this client have taken turns.
    pub(super) turns_since: Option<Instant>,
    /// The next attempt, or the next question to the servers that a held lease lacks.
    pub(crate) timer: Slot,
    /// Calls to the servers where we hold the lock. Those that have ended are removed with the next one.
    pub(super) calls: Vec<(Caller, CallKind)>,
}

#[derive(Clone, Copy, Hash)]
pub(super) enum Stage {
    /// The client neither asks for the lock nor holds it.
    Idle,
    /// The client asks all servers, on behalf of this caller.
    Asking(Caller),
    /// A majority agreed. It must now remember the fence.
    Raising(Caller, u64),
    /// The lock is held, with this fence.
    Held(LeaseId, u64),
}

/// What is known about one server.
#[derive(Clone, Default, Hash)]
pub(super) enum MemberState {
    #[default]
    Empty,
    /// The server was asked for the lock.
    Asked(OpId),
    /// The server has not answered yet, but the lease has already ended, because a majority was faster. The next caller
    /// may use the answer. Without one, the client gives the server's lease back.
    Late(OpId),
    /// This client waits in the server's queue. Only the first server has a queue.
    Queued(OpId),
    /// We hold the lock there. The server drew the fence `drawn` for us, and remembers all fences up to `fence`.
    Ours { lease: LeaseId, drawn: u64, fence: u64, raise: Raise },
    /// We don't hold the lock there, for this reason.
    Denied(Error),
    /// The server was not asked, because it has not confirmed a release yet. It is asked once it has.
    Owes,
}

/// Whether a server remembers the quorum's fence.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Raise {
    No,
    /// The server was asked to remember at least this fence.
    Asked(OpId, u64),
    Done,
}

impl MemberState {
    /// The fence that the server drew for us. 0 if we don't hold the lock there.
    pub(super) const fn drawn(&self) -> u64 {
        if let Self::Ours { drawn, .. } = self { *drawn } else { 0 }
    }

    /// Our lease on the server.
    pub(super) const fn ours(&self) -> Option<LeaseId> {
        if let Self::Ours { lease, .. } = self { Some(*lease) } else { None }
    }

    /// Whether the server may have the lease, or grant it later, although it has not said so. One that expired by this client's
    /// clock may have been renewed.
    pub(super) const fn may_grant(&self) -> bool {
        !matches!(
            self,
            Self::Ours { .. }
                | Self::Denied(
                    Error::Busy { .. } | Error::Lost(LossReason::Gone | LossReason::Taken | LossReason::Revoked)
                )
        )
    }

    /// Our lease on a server that has agreed.
    pub(super) const fn agreed(&self) -> Option<LeaseId> {
        if let Self::Ours { lease, raise: Raise::Done, .. } = self { Some(*lease) } else { None }
    }
}

impl Raise {
    pub(crate) const fn asked(self) -> Option<OpId> {
        if let Self::Asked(op, _) = self { Some(op) } else { None }
    }
}

/// Whether a client that gives a lock back keeps its place in the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Kept,
    Left,
}

/// What the client asks of one server, for a caller with these options.
pub(super) fn of_one_server(options: &AcquireOptions) -> AcquireOptions {
    let ttl = ttl_of(options).into();
    AcquireOptions { wait: Wait::No, within: None, ttl, max_hold: None, ..*options }
}

impl QuorumLock {
    pub(crate) fn new(id: LockId, name: Arc<str>, key: String, servers: usize) -> Self {
        Self {
            id,
            name,
            key,
            queue: LocalQueue::default(),
            stage: Stage::Idle,
            states: (0..servers).map(|_| MemberState::Empty).collect(),
            options: AcquireOptions::default(),
            asked: AcquireOptions::default(),
            until: None,
            votes: Votes::default(),
            is_contended: false,
            attempts: 0,
            turns_since: None,
            timer: None,
            calls: Vec::new(),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        let late = self.states.iter().any(|state| matches!(state, MemberState::Late(_) | MemberState::Queued(_)));
        matches!(self.stage, Stage::Idle) && self.queue.is_empty() && self.timer.is_none() && !late
    }

    pub(super) fn count(&self, which: impl Fn(&MemberState) -> bool) -> usize {
        self.states.iter().filter(|state| which(state)).count()
    }

    /// Whether a server was not asked, because it owes the confirmation of a release.
    pub(super) fn is_owed(&self) -> bool {
        self.states.iter().any(|state| matches!(state, MemberState::Owes))
    }

    /// The servers where we hold the lock, with our leases there.
    pub(super) fn ours(&self) -> impl Iterator<Item = (u16, LeaseId)> {
        (0..).zip(&self.states).filter_map(|(at, state)| Some((at, state.ours()?)))
    }

    /// Opens a user's call to the servers where we hold the lock.
    pub(super) fn scatter(&self, cx: &mut Context, op: Caller) {
        cx.scatter(op, self.states.iter().map(|state| matches!(state, MemberState::Ours { .. })));
    }

    /// How many servers have agreed: we hold the lock there, and they remember the quorum's fence.
    pub(super) fn agreed(&self) -> usize {
        self.count(|state| state.agreed().is_some())
    }

    /// How many servers may still agree.
    pub(super) fn open(&self, members: &Members) -> usize {
        let asked =
            || self.states.iter().zip(&members.list).filter(|(state, _)| matches!(state, MemberState::Asked(_)));
        let waits = !self.is_split() || asked().any(|(_, member)| self.silence(member).is_none());
        let raising =
            self.count(|state| matches!(state, MemberState::Ours { raise: Raise::No | Raise::Asked(..), .. }));
        if waits { asked().count().saturating_add(raising) } else { raising }
    }

    /// Whether another client has the lock on a server, and the caller waits. Then the attempt doesn't wait for servers whose
    /// last command failed, once all others have answered: the other client may need what this one has meanwhile.
    pub(super) fn is_split(&self) -> bool {
        let is_busy = |state: &MemberState| matches!(state, MemberState::Denied(Error::Busy { .. }));
        self.options.wait != Wait::No && self.states.iter().any(is_busy)
    }

    /// Why a server that was asked is silent, if its last command failed.
    pub(super) fn silence(&self, member: &Member) -> Option<Failure> {
        member.client.claim(&self.key)?.failure.clone()
    }

    /// Until when we hold the lock on a majority of the servers.
    pub(crate) fn valid_until(&self, members: &Members) -> Option<Instant> {
        let ends = self
            .states
            .iter()
            .zip(&members.list)
            .filter_map(|(state, member)| member.client.valid_until(state.agreed()?));
        let majority = members.majority();
        ends.clone().filter(|end| ends.clone().filter(|other| other >= end).count() >= majority).max()
    }

    /// What each server has answered so far.
    pub(super) fn votes(&self, members: &Members) -> Votes {
        let votes = self.states.iter().zip(&members.list).map(|(state, member)| {
            let answer = match state {
                MemberState::Asked(_) => {
                    self.silence(member).map(|cause| Err(Error::unreachable(Duration::ZERO, Some(cause))))
                }
                MemberState::Empty | MemberState::Late(_) | MemberState::Queued(_) => None,
                MemberState::Ours { .. } => Some(Ok(())),
                MemberState::Denied(error) => Some(Err(error.clone())),
                MemberState::Owes => {
                    let cause = Some(Failure::Unavailable("it has not confirmed a release yet".into()));
                    Some(Err(Error::unreachable(Duration::ZERO, cause)))
                }
            };
            Vote::new(member.server.clone(), answer)
        });
        votes.collect()
    }

    /// Records whether other clients are known to want the lock.
    pub(super) const fn set_contended(&mut self, members: &mut Members, is: bool) {
        self.is_contended = is;
        members.is_contended = is;
    }

    /// Gives back everything that the servers may have for us. With a `task`, the lease was released, and the task
    /// waits for the servers where we hold the lock. Servers that have not answered yet then keep the token. A
    /// tombstone would cost them more than to give a lease back later.
    pub(super) fn give_back(&mut self, cx: &mut Context, members: &mut Members, task: Option<Task>, place: Place) {
        self.clear_timer(cx);
        self.stage = Stage::Idle;
        self.until = None;
        let keeps = place == Place::Kept && self.has_place();
        if keeps {
            self.doubt_first();
        }
        for (at, state) in (0..).zip(&mut self.states).skip(keeps.into()) {
            match *state {
                MemberState::Asked(op) if task.is_some() => *state = MemberState::Late(op),
                _ => clear(cx, members, at, mem::take(state), task),
            }
        }
    }

    pub(super) fn clear_timer(&mut self, cx: &mut Context) {
        cx.timers.set(Timer::Heartbeat(self.id), &mut self.timer, None);
    }

    /// Schedules the next attempt after a random pause.
    pub(super) fn ask_after(&mut self, cx: &mut Context, most: Duration) {
        let at = cx.now + cx.random.jitter(most);
        cx.timers.set(Timer::Heartbeat(self.id), &mut self.timer, Some(at));
    }
}

/// Gives back everything that one server may have for us.
pub(super) fn clear(cx: &Context, members: &mut Members, at: u16, state: MemberState, task: Option<Task>) {
    match state {
        MemberState::Asked(op) | MemberState::Late(op) | MemberState::Queued(op) => {
            members.tasks.remove(&op);
            members.tell(at, cx.now, Input::Cancel { op });
        }
        // The answer to an unanswered raise is ignored when it comes.
        MemberState::Ours { lease, .. } => members.release(at, cx.now, lease, task),
        MemberState::Empty | MemberState::Denied(_) | MemberState::Owes => {}
    }
}

/// The error for these votes, which it includes.
pub(super) fn denied(votes: Votes, waited: Duration, members: &Members) -> Error {
    let hopeless = || votes.errors().filter(|error| is_final(error));
    if hopeless().count() >= members.majority()
        && let Some(error) = hopeless().next()
    {
        let mut error = error.clone();
        if let Error::Auth(text) | Error::Server(text) | Error::Protocol(text) | Error::WrongKind(text) = &mut error {
            let _ = write!(text, ": {votes}");
        }
        return error;
    }
    let busy = votes.errors().filter_map(|error| match error {
        Error::Busy { holder_remaining, .. } => Some(*holder_remaining),
        _ => None,
    });
    let holder = busy.max();
    let failed = votes.iter().filter(|vote| vote.failed()).count();
    if failed < members.majority()
        && let Some(holder_remaining) = holder
    {
        return Error::busy_with(votes, waited, holder_remaining);
    }
    let cause = votes.errors().find_map(|error| match error {
        Error::Unreachable { cause, .. } => cause.clone(),
        _ => None,
    });
    Error::Unreachable { waited: waited.into(), cause, votes }
}

/// Whether asking again would give the same answer.
const fn is_final(error: &Error) -> bool {
    !(error.is_retryable() || matches!(error, Error::NotHeld | Error::Cancelled))
}
