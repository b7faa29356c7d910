//! The client's subscriptions, over one connection. The connection is opened for the first channel and closed after the
//! last. A subscription counts only after the server has acknowledged it, and a silent connection is checked.

use std::future::pending;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::StreamExt;
use leasehold_core::{Failure, Input, NodeId};
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Msg, RedisError};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

use super::connection::with_timeout;
use super::topology::Endpoint;
use crate::errors::{connect_failure, error_text};

/// A connection that is silent for this long gets a PING. That is the only way to notice that it is dead.
const PING_AFTER: Duration = Duration::from_secs(5);

/// What the engine wants from the subscriber.
pub(crate) enum ChannelRequest {
    Subscribe { node: NodeId, channel: String },
    Unsubscribe { channel: String },
}

/// The subscriptions to the channels of one server.
struct Subscriber<F> {
    /// Passes an event to the engine.
    to_engine: F,
    endpoint: Option<Endpoint>,
    response_timeout: Duration,
    node: NodeId,
    connection: Option<(PubSubSink, PubSubStream)>,
    /// Resolves when the connection leads to the wrong server.
    primary_changed: Option<BoxFuture<'static, ()>>,
    /// The channels that the server has acknowledged.
    subscribed: Vec<String>,
}

enum Event {
    Request(ChannelRequest),
    Message(Msg),
    Silence,
    Disconnected,
}

/// Subscribes as requested, passes messages to the engine, and reports every subscription that fails or breaks. It never
/// returns.
pub(crate) async fn run_subscriber(
    to_engine: impl Fn(Input<'_>),
    endpoint: Option<Endpoint>,
    response_timeout: Duration,
    mut requests: UnboundedReceiver<ChannelRequest>,
) {
    let mut subscriber = Subscriber {
        to_engine,
        endpoint,
        response_timeout,
        node: NodeId::default(),
        connection: None,
        primary_changed: None,
        subscribed: Vec::new(),
    };
    loop {
        match subscriber.next_event(&mut requests).await {
            Event::Request(ChannelRequest::Subscribe { node, channel }) => {
                subscriber.node = node;
                subscriber.subscribe(channel).await;
            }
            Event::Request(ChannelRequest::Unsubscribe { channel }) => subscriber.unsubscribe(&channel).await,
            Event::Message(message) => subscriber.deliver(&message),
            Event::Silence => subscriber.ping().await,
            Event::Disconnected => {
                subscriber.disconnect(&Failure::Interrupted("the subscription's connection closed".into()));
            }
        }
    }
}

impl<F: Fn(Input<'_>)> Subscriber<F> {
    async fn next_event(&mut self, requests: &mut UnboundedReceiver<ChannelRequest>) -> Event {
        let request = async {
            match requests.recv().await {
                Some(request) => Event::Request(request),
                None => pending().await,
            }
        };
        let Some((_, messages)) = &mut self.connection else { return request.await };
        let primary_changed = async {
            match &mut self.primary_changed {
                Some(primary_changed) => primary_changed.await,
                None => pending().await,
            }
        };
        tokio::select! {
            request = request => request,
            () = primary_changed => Event::Disconnected,
            message = timeout(PING_AFTER, messages.next()) => match message {
                Ok(Some(message)) => Event::Message(message),
                Ok(None) => Event::Disconnected,
                Err(_) => Event::Silence,
            },
        }
    }

    async fn subscribe(&mut self, channel: String) {
        if !self.subscribed.contains(&channel) {
            if let Err(failure) = self.subscribe_on_server(&channel).await {
                self.report_failure(&channel, failure.clone());
                // The other channels share the connection, which may be broken as well.
                if !matches!(failure, Failure::Refused(_)) || self.subscribed.is_empty() {
                    self.disconnect(&failure);
                }
                return;
            }
            self.subscribed.push(channel.clone());
        }
        (self.to_engine)(Input::Subscribed { node: self.node, channel: &channel });
    }

    async fn subscribe_on_server(&mut self, channel: &str) -> Result<(), Failure> {
        let Some(endpoint) = &self.endpoint else {
            return Err(Failure::Unsupported("this connection can't subscribe".to_owned()));
        };
        let subscribed = match &mut self.connection {
            Some((sink, _)) => with_timeout(self.response_timeout, sink.subscribe(channel)).await,
            None => endpoint.subscribe(channel).await.map(|(connection, primary_changed)| {
                self.connection = Some(connection.split());
                self.primary_changed = primary_changed;
            }),
        };
        subscribed.map_err(|error| subscribe_failure(&error))
    }

    async fn unsubscribe(&mut self, channel: &str) {
        self.subscribed.retain(|subscribed| subscribed != channel);
        if self.subscribed.is_empty() {
            (self.connection, self.primary_changed) = (None, None);
        } else if let Some((sink, _)) = &mut self.connection
            && let Err(error) = with_timeout(self.response_timeout, sink.unsubscribe(channel)).await
        {
            self.disconnect(&Failure::Interrupted(error.to_string()));
        }
    }

    /// Checks whether the connection is alive. Any reply proves it, even a refused PING.
    async fn ping(&mut self) {
        let Some((sink, _)) = &mut self.connection else { return };
        match with_timeout(self.response_timeout, sink.ping::<redis::Value>()).await {
            Err(error) if error.is_timeout() || error.is_connection_dropped() => {
                self.disconnect(&Failure::Interrupted(error.to_string()));
            }
            _ => {}
        }
    }

    /// Drops the connection and reports its channels as broken.
    fn disconnect(&mut self, cause: &Failure) {
        (self.connection, self.primary_changed) = (None, None);
        for channel in std::mem::take(&mut self.subscribed) {
            self.report_failure(&channel, cause.clone());
        }
    }

    fn deliver(&self, message: &Msg) {
        let (channel, payload) = (message.get_channel_name(), message.get_payload_bytes());
        (self.to_engine)(Input::Message { node: self.node, channel, payload });
    }

    fn report_failure(&self, channel: &str, cause: Failure) {
        match cause {
            Failure::Refused(_) => tracing::warn!(channel, %cause, "subscription refused: waiters poll"),
            _ => tracing::info!(channel, %cause, "subscription failed"),
        }
        (self.to_engine)(Input::Unsubscribed { node: self.node, channel, cause });
    }
}

/// Only a refusal by the server is final. After any other failure, another attempt may succeed.
pub(super) fn subscribe_failure(error: &RedisError) -> Failure {
    match connect_failure(error) {
        refused @ Failure::Refused(_) => refused,
        _ if error.code().is_some() => Failure::Refused(error_text(error)),
        other => other,
    }
}
