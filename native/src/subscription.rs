//! The client's channel: made on demand, told as made only after the server's acknowledgement, and watched.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::StreamExt;
use leasehold_core::{Failure, Input, NodeId};
use redis::RedisError;
use redis::aio::{PubSub, PubSubSink};

use crate::endpoint::Endpoint;
use crate::server::within;
use crate::shared::Shared;
use crate::wire;

/// A silent connection is asked for a sign of life this often: nothing else would tell that it is dead.
const QUIET: Duration = Duration::from_secs(5);

/// Subscribes and passes messages on until the subscription breaks; answers why it did, or why it can't be made.
pub(crate) async fn run(
    shared: Arc<Shared>,
    endpoint: Option<Endpoint>,
    node: NodeId,
    channel: String,
    response_timeout: Duration,
) -> Failure {
    let Some(endpoint) = endpoint else {
        return Failure::Unsupported("this connection can't subscribe".to_owned());
    };
    match endpoint.subscribe(&channel).await {
        Ok(connection) => listen(&shared, connection, node, response_timeout).await,
        Err(error) => refusal(&error),
    }
}

async fn listen(shared: &Shared, connection: PubSub, node: NodeId, response_timeout: Duration) -> Failure {
    shared.tell(Input::Subscribed { node });
    let (mut sink, mut messages) = connection.split();
    loop {
        match tokio::time::timeout(QUIET, messages.next()).await {
            Ok(Some(message)) => shared.tell(Input::Message { node, payload: message.get_payload_bytes() }),
            Ok(None) => return Failure::Interrupted("the subscription's connection was closed".to_owned()),
            Err(_) => {
                if let Err(error) = ping(&mut sink, response_timeout).await {
                    return Failure::Interrupted(error.to_string());
                }
            }
        }
    }
}

/// Any answer is a sign of life, a refused PING as well.
async fn ping(sink: &mut PubSubSink, response_timeout: Duration) -> Result<(), RedisError> {
    match within(response_timeout, sink.ping::<redis::Value>()).await {
        Err(error) if error.is_timeout() || error.is_connection_dropped() => Err(error),
        _ => Ok(()),
    }
}

/// Only what the server itself refused stays refused; anything else is worth another try.
fn refusal(error: &RedisError) -> Failure {
    match wire::connect_failure(error) {
        refused @ Failure::Refused(_) => refused,
        _ if error.code().is_some() => Failure::Refused(wire::error_text(error)),
        other => other,
    }
}
