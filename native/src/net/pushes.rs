//! The client's subscriptions over a connection that the user provides, with RESP3 push messages.
//!
//! The connection carries commands and messages. The user owns it and has other channels on it, so only the messages of
//! the client's own channels are taken. A subscription counts only after its confirmation has arrived among the push
//! messages. That proves that they come from this connection.

use std::future::pending;
use std::time::Duration;

use leasehold_core::{Failure, Input, NodeId};
use redis::{PushInfo, PushKind, Value};
use tokio::sync::mpsc::UnboundedReceiver;

use super::connection::{SharedConnection, with_timeout, within};
use super::pubsub::{ChannelRequest, subscribe_failure};

/// A connection and its push messages.
pub(crate) struct PushConnection {
    pub(super) connection: SharedConnection,
    pub(super) pushes: UnboundedReceiver<PushInfo>,
}

struct Subscriber<F> {
    /// Passes an event to the engine.
    to_engine: F,
    connection: SharedConnection,
    /// None once all senders are gone.
    pushes: Option<UnboundedReceiver<PushInfo>>,
    response_timeout: Duration,
    node: NodeId,
    /// Whether the server has answered in RESP3.
    is_resp3: bool,
    /// The channels whose confirmation has arrived.
    subscribed: Vec<String>,
}

/// Subscribes as requested and passes messages to the engine. It never returns.
pub(super) async fn run_push_subscriber(
    to_engine: impl Fn(Input<'_>),
    PushConnection { connection, pushes }: PushConnection,
    response_timeout: Duration,
    mut requests: UnboundedReceiver<ChannelRequest>,
) {
    let mut subscriber = Subscriber {
        to_engine,
        connection,
        pushes: Some(pushes),
        response_timeout,
        node: NodeId::default(),
        is_resp3: false,
        subscribed: Vec::new(),
    };
    loop {
        let request = async {
            match requests.recv().await {
                Some(request) => request,
                None => pending().await,
            }
        };
        tokio::select! {
            push = next(&mut subscriber.pushes) => {
                subscriber.take(push);
            }
            request = request => match request {
                ChannelRequest::Subscribe { node, channel } => {
                    subscriber.node = node;
                    subscriber.subscribe(channel).await;
                }
                ChannelRequest::Unsubscribe { channel } => subscriber.unsubscribe(&channel).await,
            },
        }
    }
}

/// The next push message. None once all senders are gone, and then nothing more.
async fn next(pushes: &mut Option<UnboundedReceiver<PushInfo>>) -> Option<PushInfo> {
    match pushes {
        Some(pushes) => pushes.recv().await,
        None => pending().await,
    }
}

impl<F: Fn(Input<'_>)> Subscriber<F> {
    async fn subscribe(&mut self, channel: String) {
        if !self.subscribed.contains(&channel) {
            let subscribed = match self.send_subscribe(&channel).await {
                Ok(()) => self.confirmation(&channel).await,
                refused => refused,
            };
            if let Err(failure) = subscribed {
                return self.report_failure(&channel, failure);
            }
            self.subscribed.push(channel.clone());
        }
        (self.to_engine)(Input::Subscribed { node: self.node, channel: &channel });
    }

    async fn send_subscribe(&mut self, channel: &str) -> Result<(), Failure> {
        if self.pushes.is_none() {
            return Err(Failure::Unsupported("the receiver of push messages has no sender any more".to_owned()));
        }
        // In RESP2, a SUBSCRIBE would make the connection refuse all other commands.
        if !self.is_resp3 {
            let hello = self.run(&["HELLO"]).await?;
            if !matches!(hello, Value::Map(_)) {
                let problem = "the connection speaks RESP2, which has no push messages; open it with `protocol=resp3`";
                return Err(Failure::Unsupported(problem.to_owned()));
            }
            self.is_resp3 = true;
        }
        self.run(&["SUBSCRIBE", channel]).await.map(drop)
    }

    /// Waits until the server's confirmation arrives among the push messages. It takes the messages before it.
    async fn confirmation(&mut self, channel: &str) -> Result<(), Failure> {
        within(self.response_timeout, self.confirmed(channel)).await.unwrap_or_else(|| {
            let problem = "the receiver of push messages got none of this connection's";
            Err(Failure::Unsupported(problem.to_owned()))
        })
    }

    async fn confirmed(&mut self, channel: &str) -> Result<(), Failure> {
        loop {
            let push = next(&mut self.pushes).await;
            if let Some(PushInfo { kind: PushKind::Subscribe, data }) = &push
                && text(data.first()) == Some(channel)
            {
                return Ok(());
            }
            let ended = push.is_none();
            self.take(push);
            if ended {
                return Err(Failure::Interrupted(CLOSED.to_owned()));
            }
        }
    }

    async fn unsubscribe(&mut self, channel: &str) {
        let before = self.subscribed.len();
        self.subscribed.retain(|subscribed| subscribed != channel);
        if self.subscribed.len() < before {
            // If the connection broke, the subscription has ended as well.
            let _ = self.run(&["UNSUBSCRIBE", channel]).await;
        }
    }

    async fn run(&self, words: &[&str]) -> Result<Value, Failure> {
        let reply = with_timeout(self.response_timeout, self.connection.run(command(words))).await;
        reply.and_then(Value::extract_error).map_err(|error| subscribe_failure(&error))
    }

    /// Takes a push message. Most of the user's own are ignored.
    fn take(&mut self, push: Option<PushInfo>) {
        let Some(PushInfo { kind, data }) = push else {
            self.pushes = None;
            return self.disconnected();
        };
        match (kind, data.as_slice()) {
            (PushKind::Message, [channel, Value::BulkString(payload)]) => {
                let channel = text(Some(channel)).unwrap_or_default();
                if self.subscribed.iter().any(|subscribed| subscribed == channel) {
                    (self.to_engine)(Input::Message { node: self.node, channel, payload });
                }
            }
            // The user has left all channels. The engine subscribes again.
            (PushKind::Unsubscribe, [channel, ..]) => {
                let channel = text(Some(channel)).unwrap_or_default();
                if let Some(at) = self.subscribed.iter().position(|subscribed| subscribed == channel) {
                    let channel = self.subscribed.swap_remove(at);
                    let cause = "the connection was told to leave the client's channel".to_owned();
                    self.report_failure(&channel, Failure::Interrupted(cause));
                }
            }
            (PushKind::Disconnection, _) => self.disconnected(),
            _ => {}
        }
    }

    /// The connection broke. If it reconnects, it has no subscriptions, or has missed messages.
    fn disconnected(&mut self) {
        for channel in std::mem::take(&mut self.subscribed) {
            self.report_failure(&channel, Failure::Interrupted(CLOSED.to_owned()));
        }
    }

    fn report_failure(&self, channel: &str, cause: Failure) {
        match cause {
            Failure::Refused(_) | Failure::Unsupported(_) => {
                tracing::warn!(channel, %cause, "subscription refused: waiters poll");
            }
            _ => tracing::info!(channel, %cause, "subscription failed"),
        }
        (self.to_engine)(Input::Unsubscribed { node: self.node, channel, cause });
    }
}

const CLOSED: &str = "the connection closed";

fn command(words: &[&str]) -> redis::Cmd {
    let mut command = redis::Cmd::new();
    command.arg(words);
    command
}

fn text(value: Option<&Value>) -> Option<&str> {
    match value? {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}
