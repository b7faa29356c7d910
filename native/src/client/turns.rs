//! Who sends and receives: the task that has a call or a reply, or the driver.
//!
//! A caller that finds nothing in flight sends its command itself. The task that brings a reply passes it to the engine and
//! wakes the caller. So a call that is alone needs no turn of the driver. If another task is in the pump, it does the work,
//! or the driver does.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::task::{Wake, Waker};

use leasehold_core::{Input, Instant};

use super::pump::Pump;
use super::shared::Shared;

/// How often a task looks for more replies before it leaves them to the driver. A connection may want to be polled again
/// at once, and what it waits for may be this task's end.
const ROUNDS: usize = 8;

impl Shared {
    /// One turn of the driver. `input` is for the engine, after the replies. Returns when the driver wakes by itself, or
    /// nothing if the client has ended.
    pub(super) fn drive(self: &Arc<Self>, input: Option<Input<'_>>) -> Option<Option<Instant>> {
        let mut guard = self.pump.lock().unwrap_or_else(PoisonError::into_inner);
        let pump = guard.as_mut()?;
        self.link_woken.store(false, Ordering::SeqCst);
        pump.receive(&Waker::from(Arc::clone(self)));
        let ((), deferred) = self.change(|state, now, deferred| {
            pump.deliver(state, now);
            if let Some(input) = input {
                state.driven.handle(now, input);
            }
            state.turn(now, &mut pump.outbox, deferred);
        });
        pump.perform();
        self.link_woken.store(true, Ordering::SeqCst);
        let (wake_at, closed) = (pump.outbox.wake_at, pump.outbox.closed);
        drop(guard);
        self.settle(deferred);
        self.take_replies();
        (!closed).then_some(wake_at)
    }

    /// Sends what the engine has to say, if nothing is in flight. Otherwise the driver does, so that it travels with what
    /// other tasks say.
    pub(super) fn send_alone(self: &Arc<Self>) -> bool {
        let Some(mut guard) = self.try_pump() else { return false };
        let Some(pump) = guard.as_mut().filter(|pump| pump.link.is_idle()) else { return false };
        let _context = self.runtime.enter();
        let ((), deferred) = self.change(|state, now, deferred| {
            // If the driver still has something to do after this, it is notified.
            state.driver_notified = false;
            state.driven.handle(now, Input::Wake);
            state.drain_outputs(now, deferred);
            pump.outbox.outputs.append(&mut state.driven.outbox.outputs);
        });
        pump.perform();
        self.link_woken.store(true, Ordering::SeqCst);
        drop(guard);
        self.settle(deferred);
        self.take_replies();
        true
    }

    /// Passes the replies that have come to the engine, and sends what it then says at once.
    fn take_replies(self: &Arc<Self>) {
        for _ in 0..ROUNDS {
            // The task in the pump looks again when it leaves.
            let Some(mut guard) = self.try_pump() else { return };
            let Some(pump) = guard.as_mut() else { return };
            let _context = self.runtime.enter();
            if self.link_woken.swap(false, Ordering::SeqCst) && pump.receive(&Waker::from(Arc::clone(self))) {
                let ((), deferred) = self.change(|state, now, deferred| {
                    pump.deliver(state, now);
                    state.drain_outputs(now, deferred);
                    pump.outbox.outputs.append(&mut state.driven.outbox.outputs);
                });
                pump.perform();
                self.link_woken.store(true, Ordering::SeqCst);
                drop(guard);
                self.settle(deferred);
            } else {
                drop(guard);
            }
            if !self.link_woken.load(Ordering::SeqCst) {
                return;
            }
        }
        self.driver_wakeup.notify_one();
    }

    fn try_pump(&self) -> Option<MutexGuard<'_, Option<Pump>>> {
        match self.pump.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The link wants to be polled. The task that brought a reply does it.
impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.link_woken.store(true, Ordering::SeqCst);
        self.take_replies();
    }
}
