//! A manager's state, and the only way to change it.
//!
//! Every change is one turn: it tells the engine, sorts the outputs, and wakes the waiting tasks. The tasks are woken
//! last, when the state is no longer borrowed.

use alloc::vec::Vec;

use core::cell::RefCell;
use core::mem;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use leasehold_core::{Engine, Error, Input, Instant, LeaseId, LossReason, Mode, OpId, Outcome};

use crate::call::Request;
use crate::state::{CallResult, State, Waiting, Work};
use crate::{clock, limits};

pub(crate) struct Shared {
    state: RefCell<State>,
}

impl Shared {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { state: RefCell::new(State::new(engine)) }
    }

    /// Begins a call that ends at once. None if it does not.
    pub(crate) fn begin_and_end(&self, request: &Request<'_>) -> Option<CallResult> {
        let op = self.begin(request);
        let ended = self.state.borrow_mut().calls.remove(&op);
        ended.and_then(|waiting| waiting.result)
    }

    /// Begins a call. [`fetch`](Self::fetch) returns its result.
    pub(crate) fn begin(&self, request: &Request<'_>) -> OpId {
        self.turn(|state, now| {
            let op = OpId(state.next());
            let ended = state.ended.then(|| request.after_the_end());
            let taken = Some(limits::call(request.bytes()));
            let waiting = Waiting { wanted: request.wanted(), wakers: Vec::new(), result: ended, taken };
            let open = waiting.result.is_none();
            state.calls.insert(op, waiting);
            match request {
                _ if !open => {}
                Request::Release { lease } => state.release(now, op, *lease),
                request => state.engine.handle(now, request.input(op)),
            }
            op
        })
    }

    /// The result of a call, which is then forgotten. If the call has not ended, wakes the task when it does.
    pub(crate) fn fetch(&self, op: OpId, context: &mut Context<'_>) -> Poll<CallResult> {
        if self.has_ended(op, context).is_pending() {
            return Poll::Pending;
        }
        let ended = self.state.borrow_mut().calls.remove(&op);
        Poll::Ready(ended.and_then(|waiting| waiting.result).unwrap_or(Err(Error::Closed)))
    }

    /// Whether a call has ended. If it has not, wakes the task, and all others that asked, when it does.
    pub(crate) fn has_ended(&self, op: OpId, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.borrow_mut();
        match state.calls.get_mut(&op) {
            Some(waiting) if waiting.result.is_none() => {
                watch(&mut waiting.wakers, context);
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Reads the result of a call that [has ended](Self::has_ended). Any number of tasks may ask.
    pub(crate) fn look<R>(&self, op: OpId, look: impl FnOnce(&CallResult) -> R) -> R {
        match self.state.borrow().calls.get(&op).and_then(|waiting| waiting.result.as_ref()) {
            Some(result) => look(result),
            None => look(&Err(Error::Closed)),
        }
    }

    /// Nobody waits for the call any more: cancels an acquire, or gives its lease back if it was granted.
    pub(crate) fn abandon(&self, op: OpId) {
        self.turn(|state, now| match state.calls.remove(&op) {
            Some(Waiting { result: Some(result), .. }) => {
                if let Some(grant) = result.ok().as_ref().and_then(Outcome::grant) {
                    let op = OpId(state.next());
                    state.release(now, op, grant.lease);
                }
            }
            Some(Waiting { result: None, wanted: Some(_), .. }) => state.engine.handle(now, Input::Cancel { op }),
            _ => {}
        });
    }

    /// Releases one hold. Nobody waits for the result.
    pub(crate) fn release(&self, lease: LeaseId) {
        self.turn(|state, now| {
            let op = OpId(state.next());
            state.release(now, op, lease);
        });
    }

    /// Ends the client. Nobody waits for the result.
    pub(crate) fn close(&self) {
        self.turn(|state, now| {
            let op = OpId(state.next());
            state.engine.handle(now, Input::Close { op });
        });
    }

    /// A lease's fence and mode. A conversion changes them.
    pub(crate) fn grant(&self, lease: LeaseId) -> Option<(u64, Mode)> {
        self.state.borrow().engine.lease(lease).map(|lease| (lease.fence, lease.mode))
    }

    /// How long a lease is still valid by the local clock. Zero once it is over.
    pub(crate) fn remaining(&self, lease: LeaseId) -> Duration {
        let mut state = self.state.borrow_mut();
        let now = clock::now(&mut state.clock);
        let is_lost = state.held.get(&lease).is_none_or(|held| held.lost.is_some());
        let until = if is_lost { None } else { state.engine.valid_until(lease) };
        until.map_or(Duration::ZERO, |until| until.since(now))
    }

    /// How a lease was lost, if it was. Lets the engine catch up first.
    pub(crate) fn loss(&self, lease: LeaseId) -> Option<LossReason> {
        self.turn(|state, now| state.engine.handle(now, Input::Wake));
        self.state.borrow().held.get(&lease).and_then(|held| held.lost)
    }

    /// Wakes the task when the lease is lost, or when a handle of it is released.
    pub(crate) fn watch(&self, lease: LeaseId, context: &mut Context<'_>) {
        if let Some(held) = self.state.borrow_mut().held.get_mut(&lease) {
            watch(&mut held.watchers, context);
        }
    }

    /// Registers a `hold` of this length. Returns the number with which to remove it.
    pub(crate) fn add_keeper(&self, lease: LeaseId, time: Duration) -> u64 {
        self.turn(|state, now| state.add_keeper(now, lease, now + time))
    }

    pub(crate) fn remove_keeper(&self, lease: LeaseId, keeper: u64) {
        self.turn(|state, now| state.remove_keeper(now, lease, keeper));
    }

    /// Tells the engine what happened.
    pub(crate) fn tell(&self, input: Input<'_>) {
        self.turn(|state, now| state.engine.handle(now, input));
    }

    /// The driver is awake and takes its work.
    pub(crate) fn take_work(&self) -> (Instant, Work) {
        let mut state = self.state.borrow_mut();
        let now = clock::now(&mut state.clock);
        state.driver = None;
        state.work.wake_at = state.engine.poll_timeout().map(|(at, _)| at);
        let Work { wake_at, closed, .. } = state.work;
        (now, mem::replace(&mut state.work, Work { wake_at, closed, ..Work::default() }))
    }

    /// Whether there is work for the driver, which is awake.
    pub(crate) fn needs_driver(&self) -> bool {
        self.state.borrow().needs_driver()
    }

    /// The driver goes to sleep.
    pub(crate) fn park(&self, waker: Waker) {
        self.state.borrow_mut().driver = Some(waker);
    }

    /// The driver has stopped: fails pending calls and future calls.
    pub(crate) fn end(&self) {
        self.turn(|state, now| state.end(now));
    }

    fn turn<R>(&self, act: impl FnOnce(&mut State, Instant) -> R) -> R {
        let mut state = self.state.borrow_mut();
        let now = clock::now(&mut state.clock);
        let answer = act(&mut state, now);
        state.sort_outputs(now);
        state.wake_driver_if_needed();
        let wakers = mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        answer
    }
}

fn watch(wakers: &mut Vec<Waker>, context: &mut Context<'_>) {
    if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
        wakers.push(context.waker().clone());
    }
}
