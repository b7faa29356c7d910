//! Where the locks are, and how to get there: one server, a primary behind Sentinel, or a cluster.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use redis::RedisResult;
use redis::aio::{MultiplexedConnection, PubSub};

use crate::cluster::Cluster;
use crate::sentinel::Sentinel;
use crate::server::Server;

/// What can be connected to again and again.
#[derive(Clone)]
pub(crate) enum Endpoint {
    Server(Arc<Server>),
    Sentinel(Arc<Sentinel>),
    Cluster(Arc<Cluster>),
}

impl Endpoint {
    /// Its URL or URLs, without any password.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Server(server) => server.url(),
            Self::Sentinel(sentinel) => sentinel.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// A connection for commands: of a cluster, to any of its servers.
    pub(crate) async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        match self {
            Self::Server(server) => server.connect().await,
            Self::Sentinel(sentinel) => sentinel.connect().await,
            Self::Cluster(cluster) => cluster.connect().await,
        }
    }

    /// Ends when what [`connect`](Self::connect) led to last is not the right server any more, as far as that can be known from
    /// elsewhere.
    pub(crate) fn switched(&self) -> Option<BoxFuture<'static, ()>> {
        match self {
            Self::Sentinel(sentinel) => Some(sentinel.switched()),
            Self::Server(_) | Self::Cluster(_) => None,
        }
    }

    /// A connection for commands about `key`, to the server that has it.
    pub(crate) async fn connect_for(&self, key: &[u8]) -> RedisResult<MultiplexedConnection> {
        match self {
            Self::Server(server) => server.connect().await,
            Self::Sentinel(sentinel) => sentinel.connect_now().await.map(|(_, connection)| connection),
            Self::Cluster(cluster) => cluster.connect_for(key).await,
        }
    }

    /// Whether a server's refusal tells where `key` has gone, and it was not known.
    pub(crate) fn learn(&self, refusal: &str, key: &[u8]) -> bool {
        match self {
            Self::Cluster(cluster) => cluster.learn(refusal, key),
            _ => false,
        }
    }

    /// A connection that is subscribed to `channel`: the server has acknowledged it. With it comes what [`switched`](Self::switched) gives.
    pub(crate) async fn subscribe(&self, channel: &str) -> RedisResult<(PubSub, Option<BoxFuture<'static, ()>>)> {
        match self {
            Self::Server(server) => Ok((server.subscribe(channel).await?, None)),
            Self::Sentinel(sentinel) => {
                let (connection, switched) = sentinel.subscribe(channel).await?;
                Ok((connection, Some(switched)))
            }
            Self::Cluster(cluster) => Ok((cluster.subscribe(channel).await?, None)),
        }
    }
}
