//! The client's channels, over one connection. A subscription is made on demand, counts only after the server's
//! acknowledgement, and is checked for silence.

use std::future::pending;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::StreamExt;
use leasehold_core::{Failure, Input, NodeId};
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Msg, RedisError};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

use super::connection::within;
use super::topology::Endpoint;
use crate::errors::{connect_failure, error_text};

/// A connection that is silent for this long gets a PING, the only way to notice that it is dead.
const QUIET: Duration = Duration::from_secs(5);

/// A request by the engine to subscribe to a channel or to leave it.
pub(crate) struct Wish {
    pub(crate) node: NodeId,
    pub(crate) channel: String,
    pub(crate) wanted: bool,
}

/// The channels of one server.
struct Channels<F> {
    /// Passes an event to the engine.
    tell_engine: F,
    endpoint: Option<Endpoint>,
    response_timeout: Duration,
    node: NodeId,
    connection: Option<(PubSubSink, PubSubStream)>,
    /// Resolves when the connection leads to the wrong server.
    switched: Option<BoxFuture<'static, ()>>,
    /// The channels that the server has acknowledged.
    open: Vec<String>,
}

enum Event {
    Wish(Wish),
    Message(Msg),
    Silence,
    End,
}

/// Subscribes as requested, passes messages to the engine, and reports every subscription that fails or breaks. Never returns.
pub(crate) async fn run(
    tell_engine: impl Fn(Input<'_>),
    endpoint: Option<Endpoint>,
    response_timeout: Duration,
    mut wishes: UnboundedReceiver<Wish>,
) {
    let node = NodeId::default();
    let mut channels =
        Channels { tell_engine, endpoint, response_timeout, node, connection: None, switched: None, open: Vec::new() };
    loop {
        match channels.next_event(&mut wishes).await {
            Event::Wish(Wish { channel, wanted: true, node }) => {
                channels.node = node;
                channels.subscribe(channel).await;
            }
            Event::Wish(Wish { channel, .. }) => channels.unsubscribe(&channel).await,
            Event::Message(message) => channels.tell(&message),
            Event::Silence => channels.ping().await,
            Event::End => channels.break_off(&Failure::Interrupted("the subscription's connection closed".into())),
        }
    }
}

impl<F: Fn(Input<'_>)> Channels<F> {
    async fn next_event(&mut self, wishes: &mut UnboundedReceiver<Wish>) -> Event {
        let wish = async {
            match wishes.recv().await {
                Some(wish) => Event::Wish(wish),
                None => pending().await,
            }
        };
        let Some((_, messages)) = &mut self.connection else { return wish.await };
        let switched = async {
            match &mut self.switched {
                Some(switched) => switched.await,
                None => pending().await,
            }
        };
        tokio::select! {
            wish = wish => wish,
            () = switched => Event::End,
            message = timeout(QUIET, messages.next()) => match message {
                Ok(Some(message)) => Event::Message(message),
                Ok(None) => Event::End,
                Err(_) => Event::Silence,
            },
        }
    }

    async fn subscribe(&mut self, channel: String) {
        if !self.open.contains(&channel) {
            if let Err(failure) = self.listen_on(&channel).await {
                self.tell_broken(&channel, failure.clone());
                // The other channels share the connection, which may be broken as well.
                if !matches!(failure, Failure::Refused(_)) || self.open.is_empty() {
                    self.break_off(&failure);
                }
                return;
            }
            self.open.push(channel.clone());
        }
        (self.tell_engine)(Input::Subscribed { node: self.node, channel: &channel });
    }

    async fn listen_on(&mut self, channel: &str) -> Result<(), Failure> {
        let Some(endpoint) = &self.endpoint else {
            return Err(Failure::Unsupported("this connection can't subscribe".to_owned()));
        };
        let subscribed = match &mut self.connection {
            Some((sink, _)) => within(self.response_timeout, sink.subscribe(channel)).await,
            None => endpoint.subscribe(channel).await.map(|(connection, switched)| {
                self.connection = Some(connection.split());
                self.switched = switched;
            }),
        };
        subscribed.map_err(|error| refusal(&error))
    }

    async fn unsubscribe(&mut self, channel: &str) {
        self.open.retain(|open| open != channel);
        if self.open.is_empty() {
            (self.connection, self.switched) = (None, None);
        } else if let Some((sink, _)) = &mut self.connection
            && let Err(error) = within(self.response_timeout, sink.unsubscribe(channel)).await
        {
            self.break_off(&Failure::Interrupted(error.to_string()));
        }
    }

    /// Checks whether the connection is alive. Any reply proves it, even a refused PING.
    async fn ping(&mut self) {
        let Some((sink, _)) = &mut self.connection else { return };
        match within(self.response_timeout, sink.ping::<redis::Value>()).await {
            Err(error) if error.is_timeout() || error.is_connection_dropped() => {
                self.break_off(&Failure::Interrupted(error.to_string()));
            }
            _ => {}
        }
    }

    /// Drops the connection and reports its channels as broken.
    fn break_off(&mut self, cause: &Failure) {
        (self.connection, self.switched) = (None, None);
        for channel in std::mem::take(&mut self.open) {
            self.tell_broken(&channel, cause.clone());
        }
    }

    fn tell(&self, message: &Msg) {
        let (channel, payload) = (message.get_channel_name(), message.get_payload_bytes());
        (self.tell_engine)(Input::Message { node: self.node, channel, payload });
    }

    fn tell_broken(&self, channel: &str, cause: Failure) {
        match cause {
            Failure::Refused(_) => tracing::warn!(channel, %cause, "subscription refused: waiters poll"),
            _ => tracing::info!(channel, %cause, "subscription failed"),
        }
        (self.tell_engine)(Input::Unsubscribed { node: self.node, channel, cause });
    }
}

/// Only a refusal by the server is final. Any other failure is worth another attempt.
fn refusal(error: &RedisError) -> Failure {
    match connect_failure(error) {
        refused @ Failure::Refused(_) => refused,
        _ if error.code().is_some() => Failure::Refused(error_text(error)),
        other => other,
    }
}
