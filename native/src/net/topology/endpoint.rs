//! Where the locks are and how to connect: one server, the primary behind Sentinel, or a cluster.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::RedisResult;
use redis::aio::{MultiplexedConnection, PubSub};

use super::cluster::Cluster;
use super::sentinel::Sentinel;
use super::server::Server;
use crate::net::connection::{SharedConnection, shared};

/// Something that the client can reconnect to.
#[derive(Clone)]
pub(crate) enum Endpoint {
    Server(Arc<Server>),
    Sentinel(Arc<Sentinel>),
    Cluster(Arc<Cluster>),
}

impl Endpoint {
    pub(crate) fn server(server: Server) -> Self {
        Self::Server(Arc::new(server))
    }

    /// The primary that the sentinels monitor as `service`. `template` says how to connect to it.
    pub(crate) fn sentinel(
        service: String,
        sentinels: Vec<Server>,
        template: Server,
        response_timeout: Duration,
    ) -> Self {
        Self::Sentinel(Arc::new(Sentinel::new(service, sentinels, template, response_timeout)))
    }

    pub(crate) fn cluster(seeds: Vec<Server>) -> Self {
        Self::Cluster(Arc::new(Cluster::new(seeds)))
    }

    /// The URL or URLs, without passwords.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Server(server) => server.url(),
            Self::Sentinel(sentinel) => sentinel.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// A connection for commands. In a cluster, it leads to any of the servers.
    pub(crate) async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        match self {
            Self::Server(server) => server.connect().await,
            Self::Sentinel(sentinel) => sentinel.connect().await,
            Self::Cluster(cluster) => cluster.connect().await,
        }
    }

    /// Prepares a connection for the engine's commands.
    pub(crate) fn share(&self, connection: MultiplexedConnection) -> SharedConnection {
        match self {
            Self::Server(server) => server.share(connection),
            Self::Sentinel(sentinel) => sentinel.share(connection),
            Self::Cluster(_) => shared(connection),
        }
    }

    /// Resolves when the server that [`connect`](Self::connect) last reached is no longer the right one. None if
    /// nothing reports such a change.
    pub(in crate::net) fn primary_changed(&self) -> Option<BoxFuture<'static, ()>> {
        match self {
            Self::Sentinel(sentinel) => Some(sentinel.primary_changed()),
            Self::Server(_) | Self::Cluster(_) => None,
        }
    }

    /// A connection to the server that has `key`.
    pub(in crate::net) async fn connect_for(&self, key: &[u8]) -> RedisResult<MultiplexedConnection> {
        match self {
            Self::Server(server) => server.connect().await,
            Self::Sentinel(sentinel) => sentinel.connect_to_primary().await.map(|(_, connection)| connection),
            Self::Cluster(cluster) => cluster.connect_for(key).await,
        }
    }

    /// Remembers where `key` is now if this refusal by its server says that it has moved. Returns whether it does.
    pub(in crate::net) fn learn_moved(&self, refusal: &str, key: &[u8]) -> bool {
        match self {
            Self::Cluster(cluster) => cluster.learn_moved(refusal, key),
            _ => false,
        }
    }

    /// A connection that is subscribed to `channel`, after the server's acknowledgement. The second value is that of
    /// [`primary_changed`](Self::primary_changed).
    pub(in crate::net) async fn subscribe(
        &self,
        channel: &str,
    ) -> RedisResult<(PubSub, Option<BoxFuture<'static, ()>>)> {
        match self {
            Self::Server(server) => Ok((server.subscribe(channel).await?, None)),
            Self::Sentinel(sentinel) => {
                let (connection, primary_changed) = sentinel.subscribe(channel).await?;
                Ok((connection, Some(primary_changed)))
            }
            Self::Cluster(cluster) => Ok((cluster.subscribe(channel).await?, None)),
        }
    }
}
