//! Sends the commands and takes the replies, in the task that has them.
//!
//! A caller that finds nothing in flight sends its command itself. The task that brings a reply passes it to the engine and
//! wakes the caller. So a call that is alone needs no turn of the driver. If another task is in the pump, it does the work,
//! or the driver does.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};

use leasehold_core::{Command, Input, Instant, OpId, Outbox, Output};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use super::shared::Shared;
use super::state::State;
use crate::metrics::Sent;
use crate::net::{ChannelRequest, Completion, DedicatedConnection, Endpoint, Link};

/// How often a task looks for more replies before it leaves them to the driver. A connection may want to be polled again
/// at once, and what it waits for may be this task's end.
const ROUNDS: usize = 8;

pub(super) struct Pump {
    link: Link,
    /// Where to open dedicated connections. None if the user provided the only connection.
    endpoint: Option<Endpoint>,
    /// The operations that have a dedicated connection.
    dedicated: HashMap<OpId, Dedicated>,
    channel_requests: UnboundedSender<ChannelRequest>,
    outbox: Outbox,
    completions: Vec<Completion>,
}

impl Pump {
    pub(super) fn new(
        link: Link,
        endpoint: Option<Endpoint>,
        channel_requests: UnboundedSender<ChannelRequest>,
    ) -> Self {
        let (outbox, completions) = (Outbox::default(), Vec::new());
        Self { link, endpoint, dedicated: HashMap::new(), channel_requests, outbox, completions }
    }

    /// Takes the completions that are there. True if there is one.
    fn receive(&mut self, shared: &Arc<Shared>) -> bool {
        let waker = Waker::from(Arc::clone(shared));
        let polled = self.link.poll_completions(&mut Context::from_waker(&waker), &mut self.completions);
        polled == Poll::Ready(())
    }

    /// Passes the completions to the engine.
    fn deliver(&mut self, state: &mut State, now: Instant) {
        for Completion { id, result } in self.completions.drain(..) {
            state.driven.handle(now, Input::Reply { id, result });
        }
    }

    fn perform(&mut self, shared: &Arc<Shared>) {
        let mut sent = Sent::none();
        let mut outputs = std::mem::take(&mut self.outbox.outputs);
        for output in outputs.drain(..) {
            // The receiver of the requests belongs to the driver, so sending can't fail while there is one.
            let request = |request| drop(self.channel_requests.send(request));
            match output {
                Output::Send { id, node, command } => {
                    sent.add(&command);
                    self.link.send(node, id, command);
                }
                Output::SendDedicated { op, command } => {
                    sent.add(&command);
                    self.send_dedicated(shared, op, command);
                }
                Output::CloseDedicated { op } => drop(self.dedicated.remove(&op)),
                Output::Subscribe { node, channel } => request(ChannelRequest::Subscribe { node, channel }),
                Output::Unsubscribe { node: _, channel } => request(ChannelRequest::Unsubscribe { channel }),
                // Not in the outbox.
                Output::Completed { .. } | Output::Lost { .. } => {}
            }
        }
        self.outbox.outputs = outputs;
        sent.record();
        // The link sends when it is polled.
        shared.link_woken.store(true, Ordering::SeqCst);
    }

    fn send_dedicated(&mut self, shared: &Arc<Shared>, op: OpId, command: Command) {
        // `Lock::wait_for_replicas` is refused without an endpoint.
        let Some(endpoint) = &self.endpoint else { return };
        let dedicated = self.dedicated.entry(op).or_insert_with(|| {
            let (commands, receiver) = unbounded_channel();
            let connection = DedicatedConnection::new(endpoint.clone());
            let task = tokio::spawn(run_dedicated(Arc::clone(shared), op, connection, receiver));
            Dedicated { commands, task: task.abort_handle() }
        });
        // The task runs as long as `dedicated`, so sending can't fail.
        let _ = dedicated.commands.send(command);
    }
}

impl Shared {
    /// One turn of the driver. `input` is for the engine, after the replies. Returns when the driver wakes by itself, or
    /// nothing if the client has ended.
    pub(super) fn drive(self: &Arc<Self>, input: Option<Input<'_>>) -> Option<Option<Instant>> {
        let mut guard = self.pump.lock().unwrap_or_else(PoisonError::into_inner);
        let pump = guard.as_mut()?;
        self.link_woken.store(false, Ordering::SeqCst);
        pump.receive(self);
        let ((), deferred) = self.change(|state, now, deferred| {
            pump.deliver(state, now);
            if let Some(input) = input {
                state.driven.handle(now, input);
            }
            state.turn(now, &mut pump.outbox, deferred);
        });
        pump.perform(self);
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
        pump.perform(self);
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
            if self.link_woken.swap(false, Ordering::SeqCst) && pump.receive(self) {
                let ((), deferred) = self.change(|state, now, deferred| {
                    pump.deliver(state, now);
                    state.drain_outputs(now, deferred);
                    pump.outbox.outputs.append(&mut state.driven.outbox.outputs);
                });
                pump.perform(self);
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

/// The task that sends an operation's commands over a connection of their own. It ends when this is dropped.
struct Dedicated {
    commands: UnboundedSender<Command>,
    task: AbortHandle,
}

impl Drop for Dedicated {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run_dedicated(
    shared: Arc<Shared>,
    op: OpId,
    mut connection: DedicatedConnection,
    mut commands: UnboundedReceiver<Command>,
) {
    while let Some(command) = commands.recv().await {
        let result = connection.run(&command).await;
        shared.handle(Input::DedicatedReply { op, result });
    }
}
