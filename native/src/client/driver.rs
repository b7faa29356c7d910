//! The task that drives a client: it sends commands, delivers replies and messages, and wakes the engine on time.

use std::collections::HashMap;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold_core::{Command, Input, Instant as EngineInstant, OpId, Outbox, Output};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::{Instant, Sleep};

use super::link_slot::Slot;
use super::shared::Shared;
use crate::metrics::Sent;
use crate::net::{ChannelRequest, Completion, DedicatedConnection, Endpoint, Origin};

pub(super) struct Driver {
    shared: Arc<Shared>,
    /// Where to open dedicated connections. None if the user provided the only connection.
    endpoint: Option<Endpoint>,
    /// The operations that have a dedicated connection.
    dedicated: HashMap<OpId, Dedicated>,
    /// Handles the channels. It passes messages to the engine directly.
    subscriber: BoxFuture<'static, ()>,
    channel_requests: UnboundedSender<ChannelRequest>,
    /// It is here, and not in `run`, because a runtime that ends can drop the task before its first poll.
    _stop: StopOnDrop,
}

/// Why the driver wakes up.
enum Wakeup {
    Event,
    Timer,
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, origin: Origin, response_timeout: Duration) -> Self {
        let (channel_requests, requests) = unbounded_channel();
        let engine = Arc::clone(&shared);
        let to_engine = move |event: Input<'_>| engine.handle(event);
        let endpoint = origin.endpoint();
        let subscriber = origin.subscriber(to_engine, response_timeout, requests);
        let stop = StopOnDrop(Arc::clone(&shared));
        Self { shared, endpoint, dedicated: HashMap::new(), subscriber, channel_requests, _stop: stop }
    }

    /// Runs until the engine is closed.
    pub(super) async fn run(mut self) {
        let mut outbox = Outbox::default();
        let mut timer = Timer::new();
        self.turn(&mut outbox, &mut timer, Wakeup::Event);
        while !outbox.closed {
            let wakeup = if outbox.wake_at.is_some_and(|at| at <= self.shared.clock.now()) {
                // The engine waits for the calls of other tasks, so that their commands leave together.
                tokio::task::yield_now().await;
                Wakeup::Timer
            } else {
                timer.set_engine(outbox.wake_at, self.shared.clock.now());
                self.next_wakeup(&mut timer).await
            };
            self.turn(&mut outbox, &mut timer, wakeup);
        }
    }

    /// Passes the replies to the engine, and does what it then says.
    fn turn(&mut self, outbox: &mut Outbox, timer: &mut Timer, wakeup: Wakeup) {
        let shared = Arc::clone(&self.shared);
        let mut link = shared.link.lock_as_driver();
        link.poll();
        // Only this task ends it.
        let Some(slot) = link.get() else { return };
        let deferred = shared.drive(outbox, |state, now| {
            if let Some(abilities) = slot.take_abilities() {
                state.driven.checked(now, abilities);
            }
            for Completion { id, result } in slot.completions.drain(..) {
                state.driven.handle(now, Input::Reply { id, result });
            }
            if let Wakeup::Timer = wakeup {
                state.driven.handle(now, Input::Wake);
            }
        });
        self.perform(outbox, slot);
        // A command leaves when it is polled first.
        if link.poll() {
            shared.link.notify_driver();
        }
        timer.set_link(link.get().and_then(Slot::poll_timeout));
        drop(link);
        shared.settle(deferred);
    }

    fn perform(&mut self, outbox: &mut Outbox, slot: &mut Slot) {
        let mut sent = Sent::none();
        for output in outbox.outputs.drain(..) {
            // The receiver of the requests belongs to `self.subscriber`, so sending can't fail.
            let request = |request| drop(self.channel_requests.send(request));
            match output {
                Output::Send { .. } => slot.send(&mut sent, output),
                Output::SendDedicated { op, command } => {
                    sent.add(&command);
                    self.send_dedicated(op, command);
                }
                Output::CloseDedicated { op } => drop(self.dedicated.remove(&op)),
                Output::Subscribe { node, channel } => request(ChannelRequest::Subscribe { node, channel }),
                Output::Unsubscribe { node: _, channel } => request(ChannelRequest::Unsubscribe { channel }),
                // Not in the outbox.
                Output::Completed { .. } | Output::Lost { .. } | Output::Leader { .. } => {}
            }
        }
        sent.record();
    }

    fn send_dedicated(&mut self, op: OpId, command: Command) {
        // `Lock::wait_for_replicas` is refused without an endpoint.
        let Some(endpoint) = &self.endpoint else { return };
        let dedicated = self.dedicated.entry(op).or_insert_with(|| {
            let (commands, receiver) = unbounded_channel();
            let connection = DedicatedConnection::new(endpoint.clone());
            let task = tokio::spawn(run_dedicated(Arc::clone(&self.shared), op, connection, receiver));
            Dedicated { commands, task: task.abort_handle() }
        });
        // The task runs as long as `dedicated`, so sending can't fail.
        let _ = dedicated.commands.send(command);
    }

    /// Takes what has arrived before the timer, because the timer may be late.
    async fn next_wakeup(&mut self, timer: &mut Timer) -> Wakeup {
        let Self { shared, subscriber, .. } = self;
        tokio::select! {
            biased;
            () = &mut *subscriber => Wakeup::Event,
            () = shared.link.driver_notified() => Wakeup::Event,
            () = timer.sleep() => Wakeup::Timer,
        }
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

/// Fails pending and future operations when the driver stops, even if the runtime drops the task.
struct StopOnDrop(Arc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The driver reads the clock at least this often. Timers stop while the machine is suspended, but leases don't.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// Sleeps until the engine or the link wants to be woken. If that moves to a later time, the timer is not changed: both may
/// be woken early.
struct Timer {
    sleep: Pin<Box<Sleep>>,
    at: Option<Instant>,
    /// When the engine wants to be woken, if the timer knows.
    engine_at: Option<EngineInstant>,
}

impl Timer {
    fn new() -> Self {
        Self { sleep: Box::pin(tokio::time::sleep(Duration::ZERO)), at: None, engine_at: None }
    }

    fn set_engine(&mut self, wake_at: Option<EngineInstant>, now: EngineInstant) {
        let Some(wake_at) = wake_at.map(|at| at.min(now + MAX_SLEEP)) else { return };
        if self.engine_at.is_none_or(|at| wake_at < at) {
            self.engine_at = Some(wake_at);
            self.set_link(Some(Instant::now() + wake_at.since(now)));
        }
    }

    fn set_link(&mut self, wake_at: Option<Instant>) {
        let Some(wake_at) = wake_at else { return };
        if self.at.is_none_or(|at| wake_at < at) {
            self.at = Some(wake_at);
            self.sleep.as_mut().reset(wake_at);
        }
    }

    async fn sleep(&mut self) {
        if self.at.is_none() {
            return pending().await;
        }
        self.sleep.as_mut().await;
        (self.at, self.engine_at) = (None, None);
    }
}
