//! The state that a client's operations, leases and driver share, behind one mutex.
//!
//! Every event locks the mutex once: it passes the input to the engine and drains the engine's outputs. Tasks are only
//! woken after the mutex is unlocked. So a hand-over inside one client is one critical section, without the driver and
//! without I/O.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use leasehold_core::{
    Call, CallResult, Engine, Error, Input, Instant, Labels, LeaseId, LeaseInfo, LossReason, Mode, OpId, Operation,
    Outbox,
};
use tokio::sync::watch;

use super::clock::Clock;
#[cfg(feature = "cancellation-token")]
use super::ending::Ending;
use super::link_slot::{LinkGuard, LinkSlot};
use super::named::Named;
use super::state::{Deferred, Elected, Listed, Pending, State};
use crate::metrics;
use crate::net::{Completion, Link};

/// The shared part of a client.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The server's URL, for error messages.
    server: Option<String>,
    /// Locked before `state`, never while that is locked.
    pub(super) link: LinkSlot,
    /// The engine's clock.
    pub(super) clock: Clock,
}

impl Shared {
    pub(super) fn new(
        engine: Engine,
        labels: Option<Labels>,
        server: Option<String>,
        clock: Clock,
        link: Link,
    ) -> Self {
        Self { state: Mutex::new(State::new(engine, labels, clock.clone())), server, link: LinkSlot::new(link), clock }
    }

    /// Converts the engine's error for users. `name` is the lock, if the error is about one.
    pub(super) fn error(&self, error: Error, name: Option<&str>) -> crate::Error {
        let busy = matches!(error, Error::Busy { .. });
        let mut error = crate::Error::from_engine(error, name, self.server.as_deref());
        if let (true, crate::Error::Busy { name, busy_name, holder, is_rate: false, .. }) = (busy, &mut error) {
            *holder = self.lock().holder(busy_name.as_ref().unwrap_or(name)).map(Box::new);
        }
        error
    }

    /// Starts an operation. Returns its result if it ends at once. Otherwise `waker` is woken at its end, and
    /// [`poll_result`](Self::poll_result) returns the result.
    ///
    /// If nothing is in flight, the operation's command leaves here and now.
    pub(super) fn start(
        &self,
        operation: &Operation<'_>,
        lock: Option<&Named>,
        waker: Option<&Waker>,
    ) -> Result<CallResult, OpId> {
        if matches!(operation, Operation::Close) {
            self.lose_all();
        }
        let mut link = waker.and_then(|_| self.link.try_lock_idle());
        let ((released, started), deferred) = self.change(|state, now, deferred| {
            if let Some(result) = state.driven.result_when_stopped(operation) {
                return (None, Ok(result));
            }
            let op = OpId(state.driven.next_id());
            let mode = operation.acquire_options().map_or(Mode::Exclusive, |options| options.mode);
            let pending = Pending { lock: lock.cloned(), mode, since: now, waker: None, leader: None };
            state.starting = Some((op, Call::new(operation, pending)));
            let released = state.driven.start(now, op, operation);
            state.drain_outputs(now, deferred);
            let result = match state.starting.take() {
                Some((op, mut call)) if call.result.is_none() => {
                    call.kept.waker = waker.cloned();
                    state.driven.calls.insert(op, call);
                    if let Some(slot) = link.as_mut().and_then(LinkGuard::get) {
                        state.take_commands(now, deferred, &mut slot.outputs);
                    }
                    Err(op)
                }
                ended => Ok(ended.and_then(|(_, ended)| ended.result).unwrap_or(Err(Error::Closed))),
            };
            (released, result)
        });
        let started = match (started, waker, link) {
            (Err(op), Some(waker), Some(link)) => self.send_alone(link, op, waker),
            (started, ..) => started,
        };
        self.settle(deferred);
        // The watchers of a released lease are dropped after unlocking, too.
        drop(released);
        started
    }

    /// Sends the commands that the engine had for a lone call. Returns its result if it has ended.
    fn send_alone(&self, mut link: LinkGuard<'_>, op: OpId, waker: &Waker) -> Result<CallResult, OpId> {
        let Some(slot) = link.get().filter(|slot| !slot.outputs.is_empty()) else { return Err(op) };
        // If the engine has sent more, the driver takes the replies, because the call may end before they come.
        if slot.outputs.len() == 1 {
            self.link.lead(op, waker);
        }
        slot.send_outputs();
        let replied = link.poll();
        if link.get().is_some_and(|slot| slot.is_due_sooner()) {
            self.link.notify_driver();
        }
        match replied.then(|| self.take_replies(link, op)) {
            Some(Poll::Ready(result)) => Ok(result),
            _ => Err(op),
        }
    }

    /// Passes the replies to the engine, in the task of a lone call. Ready if the call has ended.
    fn take_replies(&self, mut link: LinkGuard<'_>, op: OpId) -> Poll<CallResult> {
        self.link.end_lead();
        let ((polled, _waker), deferred) = self.change(|state, now, deferred| {
            // This task runs already.
            let waker = state.driven.calls.get_mut(&op).and_then(|call| call.kept.waker.take());
            for Completion { id, result } in link.get().into_iter().flat_map(|slot| slot.completions.drain(..)) {
                state.driven.handle(now, Input::Reply { id, result });
            }
            state.drain_outputs(now, deferred);
            match state.driven.calls.get_mut(&op) {
                Some(call) if call.result.is_none() => {
                    call.kept.waker = waker;
                    (Poll::Pending, None)
                }
                _ => {
                    let ended = state.driven.calls.remove(&op);
                    (Poll::Ready(ended.and_then(|ended| ended.result).unwrap_or(Err(Error::Closed))), waker)
                }
            }
        });
        drop(link);
        self.settle(deferred);
        polled
    }

    /// The result of an operation if it has ended. Otherwise `waker` is woken at its end.
    pub(super) fn poll_result(&self, op: OpId, waker: &Waker) -> Poll<CallResult> {
        if let Some(mut link) = self.link.try_lock_as_leader(op) {
            self.link.lead(op, waker);
            if link.poll()
                && let Poll::Ready(result) = self.take_replies(link, op)
            {
                return Poll::Ready(result);
            }
        }
        let mut state = self.lock();
        let old = match state.driven.calls.get_mut(&op) {
            Some(call) if call.result.is_none() => match &call.kept.waker {
                Some(same) if same.will_wake(waker) => return Poll::Pending,
                _ => call.kept.waker.replace(waker.clone()),
            },
            _ => {
                let ended = state.driven.calls.remove(&op);
                drop(state);
                // It may have ended by something else than its reply.
                self.link.resign(op);
                return Poll::Ready(ended.and_then(|ended| ended.result).unwrap_or(Err(Error::Closed)));
            }
        };
        // Dropping a waker may run foreign code, so drop it after unlocking.
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// What an observation has learned, or its result if it has ended. Otherwise `waker` is woken.
    pub(super) fn poll_leader(&self, op: OpId, waker: &Waker) -> Poll<Result<Option<Elected>, CallResult>> {
        let mut state = self.lock();
        let old = match state.driven.calls.get_mut(&op) {
            Some(call) if call.kept.leader.is_some() => {
                return Poll::Ready(Ok(call.kept.leader.take().flatten()));
            }
            Some(call) if call.result.is_none() => call.kept.waker.replace(waker.clone()),
            _ => {
                let ended = state.driven.calls.remove(&op);
                drop(state);
                return Poll::Ready(Err(ended.and_then(|ended| ended.result).unwrap_or(Err(Error::Closed))));
            }
        };
        // Dropping a waker may run foreign code, so drop it after unlocking.
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// How long ago a lease was lost that has holds which are not released. None for any other.
    pub(crate) fn lost_for(&self, lease: LeaseId) -> Option<Duration> {
        // A driver that was paused has not noticed yet.
        self.remaining(lease);
        let lost_at = self.lock().driven.leases.get(&lease)?.lost_at?;
        Some(self.clock.now().since(lost_at))
    }

    /// The operation's future was dropped: cancels an acquire, or releases the lease that it has just been granted.
    pub(super) fn abandon(&self, op: OpId) {
        self.link.resign(op);
        drop(self.with_state(|state, now, _| state.driven.abandon(now, op)));
    }

    /// Releases one hold without waiting for the result.
    pub(crate) fn release(&self, lease: LeaseId) {
        drop(self.with_state(|state, now, _| state.driven.run(now, &Operation::Release { lease })));
    }

    /// Closes the client without waiting for the result.
    pub(super) fn close(&self) {
        self.lose_all();
        self.with_state(|state, now, _| state.driven.run(now, &Operation::Close));
    }

    /// Notifies the holders that the client closes. The close begins after that, so each holder is notified before its
    /// lease is released.
    fn lose_all(&self) {
        self.with_state(|state, now, deferred| state.lose_all(now, deferred));
    }

    /// The state of a lease. None once its last hold was released.
    pub(crate) fn lease(&self, lease: LeaseId) -> Option<LeaseInfo> {
        self.lock().driven.engine.lease(lease)
    }

    /// The locks that this client has and wants.
    pub(crate) fn list(&self) -> Listed {
        self.lock().list()
    }

    /// How many leases the server has not confirmed as released, once the client is closed or the driver has stopped.
    pub(crate) fn unreleased(&self) -> u32 {
        self.lock().driven.unreleased
    }

    /// How long a lease is still valid by the local clock. Zero once it has ended.
    ///
    /// If its time has run out, the engine reports the loss first. So a lease that has no time left is always a lost one.
    pub(crate) fn remaining(&self, lease: LeaseId) -> Duration {
        let left = |state: &State| match state.loss(lease) {
            Some(_) => None,
            None => state.driven.engine.valid_until(lease).map(|until| until.since(self.clock.now())),
        };
        let before = left(&self.lock());
        match before {
            Some(Duration::ZERO) => self.with_state(|state, now, deferred| {
                state.driven.engine.handle(now, Input::Wake);
                state.drain_outputs(now, deferred);
                left(state).unwrap_or_default()
            }),
            before => before.unwrap_or_default(),
        }
    }

    /// How a lease was lost. None if it wasn't.
    pub(crate) fn loss(&self, lease: LeaseId) -> Option<LossReason> {
        self.lock().loss(lease)
    }

    /// A receiver that gets the reason when a lease is lost. Its sender is dropped when the lease is released.
    pub(crate) fn loss_receiver(&self, lease: LeaseId) -> Option<watch::Receiver<Option<LossReason>>> {
        let mut state = self.lock();
        let lost = state.loss(lease);
        let lease = state.driven.leases.get_mut(&lease)?;
        if lost.is_some() {
            // Other watchers may receive the loss a moment later, after the mutex is unlocked.
            return Some(watch::channel(lost).1);
        }
        Some(lease.loss_sender.get_or_insert_with(|| watch::Sender::new(lost)).subscribe())
    }

    /// A token that is cancelled when the lease ends. It is cancelled already if the lease has ended.
    #[cfg(feature = "cancellation-token")]
    pub(crate) fn cancellation_token(&self, lease: LeaseId) -> tokio_util::sync::CancellationToken {
        // The lease may have expired although the driver has not run since.
        self.remaining(lease);
        let mut state = self.lock();
        let is_lost = state.loss(lease).is_some();
        let held = state.driven.leases.get_mut(&lease).filter(|_| !is_lost);
        // Without a lease, the new `Ending` is dropped here, which cancels its token.
        held.map_or_else(|| Ending::default().token(), |lease| lease.ending.get_or_insert_default().token())
    }

    /// One turn of the driver. `inputs` passes events to the engine, and `outbox` is filled with what the driver has to do.
    /// [`settle`](Self::settle) is left to the driver.
    pub(super) fn drive(&self, outbox: &mut Outbox, inputs: impl FnOnce(&mut State, Instant)) -> Deferred {
        let ((), deferred) = self.change(|state, now, deferred| {
            inputs(state, now);
            state.driven.keep_label(now, |leases| leases.values().map(|lease| lease.since).min());
            state.drain_outputs(now, deferred);
            state.driver_notified = false;
            state.driven.outbox.wake_at = state.poll_timeout();
            state.driven.outbox.take(outbox);
        });
        deferred
    }

    /// Passes an input to the engine, outside the driver's loop.
    pub(crate) fn handle(&self, input: Input<'_>) {
        self.with_state(|state, now, _| state.driven.handle(now, input));
    }

    /// The driver has stopped. Fails pending and future operations.
    pub(super) fn stop(&self) {
        self.link.close();
        self.with_state(|state, now, deferred| state.stop(now, deferred));
    }

    /// Locks the mutex, runs `act`, and drains the engine's outputs. Wakes tasks after unlocking.
    fn with_state<R>(&self, act: impl FnOnce(&mut State, Instant, &mut Deferred) -> R) -> R {
        let (result, deferred) = self.change(act);
        self.settle(deferred);
        result
    }

    /// The same, but [`settle`](Self::settle) is left to the caller, who unlocks the link first.
    fn change<R>(&self, act: impl FnOnce(&mut State, Instant, &mut Deferred) -> R) -> (R, Deferred) {
        let mut deferred = Deferred::default();
        let mut state = self.lock();
        let now = self.clock.now();
        state.driven.engine.catch_up(now);
        let result = act(&mut state, now, &mut deferred);
        state.drain_outputs(now, &mut deferred);
        state.notify_driver_if_needed(&mut deferred);
        (result, deferred)
    }

    /// Wakes tasks and tells of losses. Nothing is locked here.
    pub(super) fn settle(&self, deferred: Deferred) {
        if deferred.notify_driver {
            self.link.notify_driver();
        }
        deferred.wakers.for_each(Waker::wake);
        for (name, waited) in deferred.blocked {
            let problem = "another library's key or other data, without a TTL: it doesn't end by itself";
            tracing::warn!(name, ?waited, problem, "lock blocked");
        }
        for (name, loss_sender, reason) in deferred.losses {
            if reason == LossReason::Closed {
                tracing::debug!(name = name.as_deref(), reason = reason.code(), "lease lost");
            } else {
                tracing::warn!(name = name.as_deref(), reason = reason.code(), "lease lost");
            }
            if let Some(loss_sender) = loss_sender {
                loss_sender.send_replace(Some(reason));
            }
            metrics::lease_lost(reason);
        }
        drop(deferred.endings);
        if deferred.drained {
            self.close();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics under the mutex. If something did, going on would still be better than a panic in every holder.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
