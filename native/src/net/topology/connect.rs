//! Opens connections to a server.

use std::sync::atomic::Ordering;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, ErrorKind, RedisResult, ServerErrorKind};

use super::checks::await_pong;
use super::recheck::MOST_BROKEN;
use super::server::Server;
use crate::net::connection::{shared, with_timeout};

/// A proxy that doesn't know SUBSCRIBE may close the connection. After this many in a row, the client tries once more, and then
/// never again.
const MOST_CLOSED: u32 = 2;
/// A refusal, which is final.
const REFUSES_SUBSCRIBE: (ErrorKind, &str) =
    (ErrorKind::Server(ServerErrorKind::ResponseError), "the server closes the connection at SUBSCRIBE");

impl Server {
    /// A connection for commands. It never resends one, and its commands have no time limit of their own.
    pub(super) async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        with_timeout(self.response_timeout, self.connect_checked()).await
    }

    /// A connection to a server of a quorum is checked. A proxy may close it at `INFO`: see [`check_again`](super::check_again).
    async fn connect_checked(&self) -> RedisResult<MultiplexedConnection> {
        let mut connection = self.connect_unchecked().await?;
        let Some(check) = &self.check else { return Ok(connection) };
        for _ in 0..MOST_BROKEN {
            if self.closes_at_info.load(Ordering::Relaxed) {
                break;
            }
            match check.check(&connection).await {
                Err(error) if error.is_connection_dropped() => {}
                checked => return checked?.map(|()| connection),
            }
            connection = self.connect_unchecked().await?;
            await_pong(&shared(connection.clone())).await?;
        }
        check.check_without_info(&connection).await??;
        self.closes_at_info.store(true, Ordering::Relaxed);
        Ok(connection)
    }

    /// A connection without any check of the server.
    async fn connect_unchecked(&self) -> RedisResult<MultiplexedConnection> {
        // The callers have time limits, which know of pauses of this process. The library's don't.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// A connection that is subscribed to `channel`, after the server's acknowledgement.
    pub(super) async fn subscribe(&self, channel: &str) -> RedisResult<PubSub> {
        let subscribing = async {
            let mut connection = self.client.get_async_pubsub().await?;
            let closed = self.closed_at_subscribe.load(Ordering::Relaxed);
            if closed > 0 {
                // If the server answers this and then closes the connection at SUBSCRIBE, it refuses subscriptions.
                connection.ping::<redis::Value>().await?;
            }
            let subscribed = connection.subscribe(channel).await;
            match &subscribed {
                Ok(()) => self.closed_at_subscribe.store(0, Ordering::Relaxed),
                Err(error) if error.is_connection_dropped() => {
                    self.closed_at_subscribe.store(closed.saturating_add(1), Ordering::Relaxed);
                    if closed >= MOST_CLOSED {
                        return Err(REFUSES_SUBSCRIBE.into());
                    }
                }
                Err(_) => {}
            }
            subscribed.map(|()| connection)
        };
        with_timeout(self.response_timeout, subscribing).await
    }

    /// The reply to one command, over a new connection.
    pub(super) async fn query(&self, command: &redis::Cmd) -> RedisResult<redis::Value> {
        let querying = async {
            let mut connection = self.connect_checked().await?;
            command.query_async::<redis::Value>(&mut connection).await?.extract_error()
        };
        with_timeout(self.response_timeout, querying).await
    }
}
