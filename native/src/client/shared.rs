//! The state that a client's calls, leases and driver share, behind one mutex.
//!
//! Every event locks the mutex once: it passes the input to the engine and sorts the engine's outputs. Tasks
//! are only woken after the mutex is unlocked. So a hand-over inside one client is one critical section,
//! without the driver and without I/O.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use leasehold_core::{
    Command, Engine, Error, Input, Instant, LeaseId, LossReason, Mode, OpId, Outcome, ReleaseOutcome,
};
use tokio::sync::{Notify, watch};

use super::clock;
use super::operation::Request;
use super::state::{After, CallResult, State, Waiting, Work, grant_of};

/// The shared part of a client.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The server's URL, for error messages.
    server: Option<String>,
    /// Notified when the driver has work to do.
    pub(super) bell: Notify,
}

impl Shared {
    pub(super) fn new(engine: Engine, server: Option<String>) -> Self {
        Self { state: Mutex::new(State::new(engine)), server, bell: Notify::new() }
    }

    /// Converts the engine's error for users. `name` is the lock, if the error is about one.
    pub(super) fn error(&self, error: Error, name: Option<&str>) -> crate::Error {
        crate::Error::from_engine(error, name, self.server.as_deref())
    }

    /// Begins a user's call. Returns its result if it ends at once. Otherwise `waker` is woken at its end, and
    /// [`fetch`](Self::fetch) returns the result.
    pub(super) fn begin(&self, request: &Request<'_>, waker: Option<&Waker>) -> Result<CallResult, OpId> {
        self.turn(|state, now, after| {
            if let Request::Release { lease } = request
                && let Some(reason) = state.drop_handle(*lease, after)
            {
                // The engine forgets a lost lease. Its loss is only known here.
                let taken = reason == LossReason::Taken;
                let outcome = if taken { ReleaseOutcome::NotOwner } else { ReleaseOutcome::AlreadyExpired };
                return Ok(Ok(Outcome::Released(outcome)));
            }
            if state.ended {
                return Ok(request.after_the_end(state.unreleased));
            }
            let op = state.next_op();
            state.calls.insert(op, Waiting { name: request.name(), waker: None, result: None });
            state.engine.handle(now, request.input(op));
            if matches!(request, Request::Close) {
                state.close_leases(after);
            }
            state.sort_outputs(now, after);
            match state.calls.get_mut(&op) {
                Some(waiting) if waiting.result.is_none() => {
                    waiting.waker = waker.cloned();
                    Err(op)
                }
                _ => Ok(state.calls.remove(&op).and_then(|waiting| waiting.result).unwrap_or(Err(Error::Closed))),
            }
        })
    }

    /// The result of a user's call if it has ended. Otherwise `waker` is woken at its end.
    pub(super) fn fetch(&self, op: OpId, waker: &Waker) -> Poll<CallResult> {
        let mut state = self.lock();
        let old = match state.calls.get_mut(&op) {
            Some(waiting) if waiting.result.is_none() => match &waiting.waker {
                Some(same) if same.will_wake(waker) => return Poll::Pending,
                _ => waiting.waker.replace(waker.clone()),
            },
            _ => {
                let ended = state.calls.remove(&op);
                drop(state);
                return Poll::Ready(ended.and_then(|waiting| waiting.result).unwrap_or(Err(Error::Closed)));
            }
        };
        // Dropping a waker may run foreign code, so drop it after unlocking.
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// The call's future was dropped: cancels an acquire, or gives back the lease that it has just got.
    pub(super) fn abandon(&self, op: OpId) {
        let abandoned = self.turn(|state, now, after| {
            let abandoned = state.calls.remove(&op);
            match &abandoned {
                Some(Waiting { result: Some(result), .. }) => {
                    if let Some(grant) = result.as_ref().ok().and_then(grant_of) {
                        state.give_back(now, grant.lease, after);
                    }
                }
                Some(Waiting { result: None, name: Some(_), .. }) => state.engine.handle(now, Input::Cancel { op }),
                _ => {}
            }
            abandoned
        });
        drop(abandoned);
    }

    /// Gives one hold back without waiting for the result.
    pub(crate) fn give_back(&self, lease: LeaseId) {
        self.turn(|state, now, after| state.give_back(now, lease, after));
    }

    /// Closes the client without waiting for the result.
    pub(super) fn close(&self) {
        self.turn(|state, now, after| {
            let op = state.next_op();
            state.engine.handle(now, Input::Close { op });
            state.close_leases(after);
        });
    }

    /// Counts one more handle to a lease.
    pub(crate) fn add_handle(&self, lease: LeaseId) {
        if let Some(held) = self.lock().held.get_mut(&lease) {
            held.handles = held.handles.saturating_add(1);
        }
    }

    /// How many handles a lease has.
    pub(crate) fn handles(&self, lease: LeaseId) -> u32 {
        self.lock().held.get(&lease).map_or(0, |held| held.handles)
    }

    /// A lease's fence and mode. A conversion changes them.
    pub(crate) fn grant(&self, lease: LeaseId) -> Option<(u64, Mode)> {
        self.lock().held.get(&lease).map(|held| (held.fence, held.mode))
    }

    /// How many leases have a handle.
    pub(crate) fn holders(&self) -> u32 {
        u32::try_from(self.lock().held.len()).unwrap_or(u32::MAX)
    }

    /// How long a lease is still valid by the local clock. Zero once it has ended.
    ///
    /// If its time has run out, the engine reports the loss first. So no caller sees a lease that has no time left but isn't lost.
    pub(crate) fn remaining(&self, lease: LeaseId) -> Duration {
        let left = |state: &State| {
            // After the driver has stopped, the engine doesn't know that leases count as lost.
            if state.held.get(&lease).is_some_and(|held| held.lost.is_some()) {
                return None;
            }
            state.engine.valid_until(lease).map(|until| until.since(clock::now()))
        };
        let before = left(&self.lock());
        match before {
            Some(Duration::ZERO) => self.turn(|state, now, after| {
                state.engine.handle(now, Input::Wake);
                state.sort_outputs(now, after);
                left(state).unwrap_or_default()
            }),
            before => before.unwrap_or_default(),
        }
    }

    /// A write to the lease on its server, as `EVALSHA` and as `EVAL`. None once the lease has ended.
    pub(super) fn touch(&self, lease: LeaseId) -> Option<[Command; 2]> {
        self.lock().engine.touch(lease)
    }

    /// How a lease was lost. None if it wasn't.
    pub(crate) fn loss(&self, lease: LeaseId) -> Option<LossReason> {
        self.lock().held.get(&lease).and_then(|held| held.lost)
    }

    /// A receiver that gets the reason when a lease is lost. Its sender is dropped when the lease is given
    /// back or the client is closed.
    pub(crate) fn told(&self, lease: LeaseId) -> Option<watch::Receiver<Option<LossReason>>> {
        let mut state = self.lock();
        let closing = state.closing;
        let held = state.held.get_mut(&lease)?;
        let lost = held.lost;
        if lost.is_some() {
            // Other watchers may receive the loss a moment later, after the mutex is unlocked.
            return Some(watch::channel(lost).1);
        }
        if closing {
            return None;
        }
        Some(held.told.get_or_insert_with(|| watch::Sender::new(lost)).subscribe())
    }

    /// The driver's turn. `inputs` passes events to the engine, and `work` is filled with what the driver has to do.
    pub(super) fn drive(&self, work: &mut Work, inputs: impl FnOnce(&mut Engine, Instant)) {
        self.turn(|state, now, after| {
            inputs(&mut state.engine, now);
            state.sort_outputs(now, after);
            state.rung = false;
            state.work.wake_at = state.engine.poll_timeout().map(|(at, _)| at);
            work.sends.clear();
            mem::swap(&mut work.sends, &mut state.work.sends);
            mem::swap(&mut work.subscriptions, &mut state.work.subscriptions);
            work.wake_at = state.work.wake_at;
            work.closed = state.work.closed;
        });
    }

    /// Passes an input to the engine, outside the driver's loop.
    pub(super) fn tell(&self, input: Input<'_>) {
        self.turn(|state, now, _| state.engine.handle(now, input));
    }

    /// The driver has stopped: fails pending and future calls.
    pub(super) fn end(&self) {
        self.turn(|state, _, after| state.end(after));
    }

    /// Locks the mutex, runs `act`, and sorts the engine's outputs. Wakes tasks after unlocking.
    fn turn<R>(&self, act: impl FnOnce(&mut State, Instant, &mut After) -> R) -> R {
        let mut after = After::default();
        let mut state = self.lock();
        let now = clock::now();
        let answer = act(&mut state, now, &mut after);
        state.sort_outputs(now, &mut after);
        state.ring_if_needed(&mut after);
        drop(state);
        if after.ring {
            self.bell.notify_one();
        }
        for waker in after.wakers {
            waker.wake();
        }
        for (name, told, reason) in after.lost {
            tracing::warn!(name = name.as_deref(), reason = reason.code(), "lease lost");
            if let Some(told) = told {
                told.send_replace(Some(reason));
            }
        }
        answer
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics under the mutex. If something did, going on would still be better than a panic in every holder.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
