//! The task that drives a client: it sends commands, delivers replies and messages, and wakes the engine on time.

use std::collections::HashMap;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold_core::{Command, Input, Instant, OpId, Outbox, Output};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::Sleep;

use super::clock::Clock;
use super::shared::Shared;
use crate::metrics::Sent;
use crate::net::{ChannelRequest, Completion, DedicatedConnection, Endpoint, Link, Origin};

pub(super) struct Driver {
    shared: Arc<Shared>,
    link: Link,
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
    pub(super) fn new(shared: Arc<Shared>, link: Link, origin: Origin, response_timeout: Duration) -> Self {
        let (channel_requests, requests) = unbounded_channel();
        let engine = Arc::clone(&shared);
        let to_engine = move |event: Input<'_>| engine.handle(event);
        let endpoint = origin.endpoint();
        let subscriber = origin.subscriber(to_engine, response_timeout, requests);
        let stop = StopOnDrop(Arc::clone(&shared));
        Self { shared, link, endpoint, dedicated: HashMap::new(), subscriber, channel_requests, _stop: stop }
    }

    /// Runs until the engine is closed.
    pub(super) async fn run(mut self) {
        let mut outbox = Outbox::default();
        let mut completions = Vec::new();
        let mut timer = Timer::new(self.shared.clock.clone());
        self.shared.drive(&mut outbox, |_, _| {});
        while !outbox.closed {
            self.perform(&mut outbox);
            let wakeup = if outbox.wake_at.is_some_and(|at| at <= self.shared.clock.now()) {
                // The engine waits for the calls of other tasks, so that their commands leave together.
                tokio::task::yield_now().await;
                self.read(&mut completions).await;
                Wakeup::Timer
            } else {
                timer.set(outbox.wake_at);
                self.next_wakeup(&mut completions, &mut timer).await
            };
            self.shared.drive(&mut outbox, |state, now| {
                for Completion { id, result } in completions.drain(..) {
                    state.driven.handle(now, Input::Reply { id, result });
                }
                if let Wakeup::Timer = wakeup {
                    state.driven.handle(now, Input::Wake);
                }
            });
        }
    }

    fn perform(&mut self, outbox: &mut Outbox) {
        let mut sent = Sent::none();
        for output in outbox.outputs.drain(..) {
            // The receiver of the requests belongs to `self.subscriber`, so sending can't fail.
            let request = |request| drop(self.channel_requests.send(request));
            match output {
                Output::Send { id, node, command } => {
                    sent.add(&command);
                    self.link.send(node, id, command);
                }
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

    /// Takes the completions that are there.
    async fn read(&mut self, completions: &mut Vec<Completion>) {
        poll_fn(|context| {
            let _ = self.link.poll_completions(context, completions);
            Poll::Ready(())
        })
        .await;
    }

    /// Takes what has arrived before the timer, because the timer may be late.
    async fn next_wakeup(&mut self, completions: &mut Vec<Completion>, timer: &mut Timer) -> Wakeup {
        let Self { shared, link, subscriber, .. } = self;
        tokio::select! {
            biased;
            () = &mut *subscriber => Wakeup::Event,
            () = poll_fn(|context| link.poll_completions(context, completions)) => Wakeup::Event,
            () = shared.driver_wakeup.notified() => Wakeup::Event,
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

/// Sleeps until the engine wants to be woken. If that moves to a later time, the timer is not changed: the engine may be
/// woken early.
struct Timer {
    clock: Clock,
    sleep: std::pin::Pin<Box<Sleep>>,
    at: Option<Instant>,
}

impl Timer {
    fn new(clock: Clock) -> Self {
        Self { clock, sleep: Box::pin(tokio::time::sleep(Duration::ZERO)), at: None }
    }

    fn set(&mut self, wake_at: Option<Instant>) {
        let Some(wake_at) = wake_at else { return };
        let now = self.clock.now();
        let wake_at = wake_at.min(now + MAX_SLEEP);
        if self.at.is_none_or(|at| wake_at < at) {
            self.at = Some(wake_at);
            self.sleep.as_mut().reset(tokio::time::Instant::now() + wake_at.since(now));
        }
    }

    async fn sleep(&mut self) {
        if self.at.is_none() {
            return pending().await;
        }
        self.sleep.as_mut().await;
        self.at = None;
    }
}
