//! Sends the engine's commands and takes their replies: the part of a turn that is outside the engine.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use leasehold_core::{Command, Input, Instant, OpId, Outbox, Output};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use super::state::State;
use crate::metrics::Sent;
use crate::net::{ChannelRequest, Completion, DedicatedConnection, Endpoint, Link};

/// Passes an event to the engine.
pub(super) type ToEngine = Arc<dyn Fn(Input<'_>) + Send + Sync>;

pub(super) struct Pump {
    to_engine: ToEngine,
    pub(super) link: Link,
    /// Where to open dedicated connections. None if the user provided the only connection.
    endpoint: Option<Endpoint>,
    /// The operations that have a dedicated connection.
    dedicated: HashMap<OpId, Dedicated>,
    channel_requests: UnboundedSender<ChannelRequest>,
    pub(super) outbox: Outbox,
    completions: Vec<Completion>,
}

impl Pump {
    pub(super) fn new(
        to_engine: ToEngine,
        link: Link,
        endpoint: Option<Endpoint>,
        channel_requests: UnboundedSender<ChannelRequest>,
    ) -> Self {
        let (outbox, completions) = (Outbox::default(), Vec::new());
        Self { to_engine, link, endpoint, dedicated: HashMap::new(), channel_requests, outbox, completions }
    }

    /// Takes the completions that are there. True if there is one.
    pub(super) fn receive(&mut self, waker: &Waker) -> bool {
        let polled = self.link.poll_completions(&mut Context::from_waker(waker), &mut self.completions);
        polled == Poll::Ready(())
    }

    /// Passes the completions to the engine.
    pub(super) fn deliver(&mut self, state: &mut State, now: Instant) {
        for Completion { id, result } in self.completions.drain(..) {
            state.driven.handle(now, Input::Reply { id, result });
        }
    }

    /// Does what the engine wants. The link sends when it is polled next.
    pub(super) fn perform(&mut self) {
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
                    self.send_dedicated(op, command);
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
    }

    fn send_dedicated(&mut self, op: OpId, command: Command) {
        // `Lock::wait_for_replicas` is refused without an endpoint.
        let Some(endpoint) = &self.endpoint else { return };
        let dedicated = self.dedicated.entry(op).or_insert_with(|| {
            let (commands, receiver) = unbounded_channel();
            let connection = DedicatedConnection::new(endpoint.clone());
            let task = tokio::spawn(run_dedicated(Arc::clone(&self.to_engine), op, connection, receiver));
            Dedicated { commands, task: task.abort_handle() }
        });
        // The task runs as long as `dedicated`, so sending can't fail.
        let _ = dedicated.commands.send(command);
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
    to_engine: ToEngine,
    op: OpId,
    mut connection: DedicatedConnection,
    mut commands: UnboundedReceiver<Command>,
) {
    while let Some(command) = commands.recv().await {
        let result = connection.run(&command).await;
        to_engine(Input::DedicatedReply { op, result });
    }
}
