//! The state of a client, and the only way to change it.
//!
//! Every change is one turn: it tells the engine what happened, takes the engine's outputs, and wakes the waiting tasks.
//! The tasks are woken last, when the state is no longer borrowed, because a waker may run foreign code.

use alloc::vec::Vec;

use core::cell::RefCell;
use core::mem;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use leasehold_core::{
    BusyHolder, Call, CallResult, Engine, Error, Input, Instant, Labels, LeaseId, LossReason, Mode, OpId, Operation,
    Outbox,
};

use super::state::{LeaseOptions, Pending, State};
use crate::net::Server;
use crate::{limits, time};

pub(crate) struct Shared {
    state: RefCell<State>,
}

impl Shared {
    pub(super) fn new(engine: Engine, labels: Option<Labels>) -> Self {
        Self { state: RefCell::new(State::new(engine, labels)) }
    }

    /// Runs an operation that the engine completes at once. None if it does not.
    pub(super) fn execute_now(&self, operation: &Operation<'_>) -> Option<CallResult> {
        let op = self.start(operation);
        let pending = self.state.borrow_mut().driven.calls.remove(&op);
        pending.and_then(|pending| pending.result)
    }

    /// Starts an operation. [`poll_result`](Self::poll_result) returns its result.
    pub(crate) fn start(&self, operation: &Operation<'_>) -> OpId {
        self.turn(|state, now| {
            let op = OpId(state.driven.next_id());
            let options = operation.acquire_options().map(LeaseOptions::of);
            let permit = Some(limits::call_permit(operation.name_bytes()));
            let mut call = Call::new(operation, Pending { options, wakers: Vec::new(), permit });
            call.result = state.driven.result_when_stopped(operation);
            let runs = call.result.is_none();
            state.driven.calls.insert(op, call);
            if runs {
                state.start(now, op, operation);
            }
            op
        })
    }

    /// Fetches the result of an operation. If there is none yet, the task is woken when there is.
    pub(super) fn poll_result(&self, op: OpId, context: &mut Context<'_>) -> Poll<CallResult> {
        if self.poll_completed(op, context).is_pending() {
            return Poll::Pending;
        }
        let pending = self.state.borrow_mut().driven.calls.remove(&op);
        Poll::Ready(pending.and_then(|pending| pending.result).unwrap_or(Err(Error::Closed)))
    }

    /// Whether an operation is completed. If not, all tasks that asked are woken when it is.
    pub(crate) fn poll_completed(&self, op: OpId, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.borrow_mut();
        match state.driven.calls.get_mut(&op) {
            Some(pending) if pending.result.is_none() => {
                add_waker(&mut pending.kept.wakers, context);
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Reads the result of a [completed](Self::poll_completed) operation. The result stays, for other tasks.
    pub(crate) fn read_result<R>(&self, op: OpId, read: impl FnOnce(&CallResult) -> R) -> R {
        match self.state.borrow().driven.calls.get(&op).and_then(|pending| pending.result.as_ref()) {
            Some(result) => read(result),
            None => read(&Err(Error::Closed)),
        }
    }

    /// The future of an operation was dropped. Cancels an acquire, or releases its lease if it was just granted.
    pub(crate) fn abandon(&self, op: OpId) {
        drop(self.turn(|state, now| state.driven.abandon(now, op)));
    }

    /// Releases one hold, without waiting for the result.
    pub(crate) fn release(&self, lease: LeaseId) {
        self.run(&Operation::Release { lease });
    }

    /// Closes the client, without waiting for the result. Its close ends when the server has deleted its label.
    pub(super) fn close(&self) {
        self.run(&Operation::Close);
    }

    fn run(&self, operation: &Operation<'_>) {
        self.turn(|state, now| {
            let op = OpId(state.driven.next_id());
            state.start(now, op, operation);
        });
    }

    /// A lease's fence and mode. A conversion changes them.
    pub(crate) fn grant(&self, lease: LeaseId) -> Option<(u64, Mode)> {
        self.state.borrow().driven.engine.lease(lease).map(|lease| (lease.fence, lease.mode))
    }

    /// How long a lease is still valid by the local clock. Zero once it is over.
    pub(crate) fn remaining(&self, lease: LeaseId) -> Duration {
        let mut state = self.state.borrow_mut();
        let now = time::now(&mut state.clock);
        let is_lost = state.driven.leases.get(&lease).is_none_or(|lease| lease.loss.is_some());
        let until = if is_lost { None } else { state.driven.engine.valid_until(lease) };
        until.map_or(Duration::ZERO, |until| until.since(now))
    }

    /// How a lease was lost. None if it wasn't. Wakes the engine first, because the lease may have expired just now.
    pub(crate) fn loss(&self, lease: LeaseId) -> Option<LossReason> {
        self.turn(|state, now| state.driven.engine.handle(now, Input::Wake));
        self.state.borrow().driven.leases.get(&lease).and_then(|lease| lease.loss)
    }

    /// Wakes the task when the lease is lost, or when one of its holds is released.
    pub(crate) fn watch(&self, lease: LeaseId, context: &mut Context<'_>) {
        if let Some(lease) = self.state.borrow_mut().driven.leases.get_mut(&lease) {
            add_waker(&mut lease.watchers, context);
        }
    }

    /// Registers a `hold` of this length. Returns its number, for [`remove_keeper`](Self::remove_keeper).
    pub(crate) fn add_keeper(&self, lease: LeaseId, time: Duration) -> u64 {
        self.turn(|state, now| state.add_keeper(now, lease, now + time))
    }

    pub(crate) fn remove_keeper(&self, lease: LeaseId, keeper: u64) {
        self.turn(|state, now| state.remove_keeper(now, lease, keeper));
    }

    /// Tells the engine what happened.
    pub(super) fn handle(&self, input: Input<'_>) {
        self.turn(|state, now| state.driven.handle(now, input));
    }

    /// Tells the engine what a server can do that was not ready when the manager was opened.
    pub(super) fn learn(&self, server: &Server) {
        if let Some(abilities) = server.take_abilities() {
            self.turn(|state, now| state.driven.checked(now, abilities));
        }
    }

    /// Who holds a lock that a caller did not get.
    pub(crate) fn holder(&self, name: &str) -> Option<BusyHolder> {
        let mut state = self.state.borrow_mut();
        let now = time::now(&mut state.clock);
        state.driven.labels.as_ref()?.holder(now, name)
    }

    /// Called by the driver when it wakes.
    pub(super) fn take_outbox(&self) -> (Instant, Outbox) {
        self.state.borrow_mut().driver = None;
        // The calls of this turn have been made, so that their commands leave together.
        self.turn(|state, now| {
            if state.driven.engine.poll_timeout().is_some_and(|(at, _)| at <= now) {
                state.driven.engine.handle(now, Input::Wake);
            }
        });
        let mut state = self.state.borrow_mut();
        let now = time::now(&mut state.clock);
        state.driven.outbox.wake_at = state.driven.engine.poll_timeout().map(|(at, _)| at);
        let mut outbox = Outbox::default();
        state.driven.outbox.take(&mut outbox);
        (now, outbox)
    }

    /// Whether there are actions for the driver before its timer fires.
    pub(super) fn needs_driver(&self) -> bool {
        self.state.borrow().needs_driver()
    }

    /// Called by the driver before it goes to sleep.
    pub(super) fn park_driver(&self, waker: Waker) {
        self.state.borrow_mut().driver = Some(waker);
    }

    /// The driver has stopped: fails pending and future driven.calls.
    pub(super) fn stop(&self) {
        self.turn(|state, now| state.stop(now));
    }

    fn turn<R>(&self, act: impl FnOnce(&mut State, Instant) -> R) -> R {
        let mut state = self.state.borrow_mut();
        let now = time::now(&mut state.clock);
        state.driven.engine.catch_up(now);
        let answer = act(&mut state, now);
        state.drain_outputs(now);
        state.wake_driver_if_needed();
        let wakers = mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        answer
    }
}

fn add_waker(wakers: &mut Vec<Waker>, context: &mut Context<'_>) {
    if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
        wakers.push(context.waker().clone());
    }
}
