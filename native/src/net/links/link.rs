//! The way to send commands: over a single server, a cluster, or the servers of a quorum.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold_core::{CallId, Command, Failure, NodeId, Reply};
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisResult, Value};

use crate::net::codec;
use crate::net::links::cluster_link::Router;
use crate::net::links::server_link::{ServerLink, Way};
use crate::net::topology::endpoint::Endpoint;

/// The result of a command.
pub(crate) type Answer = (CallId, Result<Reply, Failure>);

/// A connection of any kind.
pub(crate) type Connection = Arc<dyn Commands>;

/// Something that runs commands.
pub(crate) trait Commands: Send + Sync {
    fn run(&self, cmd: Cmd) -> BoxFuture<'static, RedisResult<Value>>;

    /// Runs a command behind an `ASKING`, on a cluster server that is importing the command's slot.
    fn run_asking(&self, cmd: Cmd) -> BoxFuture<'static, RedisResult<Value>>;
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Commands for C {
    fn run(&self, cmd: Cmd) -> BoxFuture<'static, RedisResult<Value>> {
        let mut connection = self.clone();
        Box::pin(async move { connection.req_packed_command(&cmd).await })
    }

    fn run_asking(&self, cmd: Cmd) -> BoxFuture<'static, RedisResult<Value>> {
        let mut connection = self.clone();
        Box::pin(async move {
            // In one pipeline, so that no other command comes in between.
            let mut both = Pipeline::with_capacity(2);
            both.add_command(redis::cmd("ASKING")).add_command(cmd);
            let mut answers = connection.req_packed_commands(&both, 1, 1).await?;
            Ok(answers.pop().unwrap_or(Value::Nil))
        })
    }
}

pub(crate) enum Link {
    Server(Box<ServerLink>),
    Cluster(Box<Router>),
    /// One link to each server of the quorum.
    Quorum(Vec<ServerLink>),
}

impl Link {
    /// Starts with an open connection. `endpoint` is where to reconnect, none if the user provided the connection.
    pub(crate) fn new(connection: Connection, endpoint: Option<Endpoint>, response_timeout: Duration) -> Self {
        match endpoint {
            Some(Endpoint::Cluster(cluster)) => Self::Cluster(Box::new(Router::new(cluster, response_timeout))),
            endpoint => Self::Server(Box::new(ServerLink::new(connection, endpoint, response_timeout))),
        }
    }

    /// Sends a command, or queues it while connecting. [`poll_answers`](Self::poll_answers) returns its result.
    pub(crate) fn send(&mut self, node: NodeId, call: CallId, command: Command) {
        match self {
            Self::Server(link) => link.send(call, codec::command(&command), Way::Plain),
            Self::Cluster(router) => router.send(call, command),
            Self::Quorum(links) => {
                if let Some(link) = links.get_mut(usize::from(node.0)) {
                    link.send(call, codec::command(&command), Way::Plain);
                }
            }
        }
    }

    /// Appends new results to `answers`. Ready if there is at least one.
    pub(crate) fn poll_answers(&mut self, context: &mut Context<'_>, answers: &mut Vec<Answer>) -> Poll<()> {
        match self {
            Self::Server(link) => link.poll_answers(context, answers),
            Self::Cluster(router) => router.poll_answers(context, answers),
            Self::Quorum(links) => {
                for link in links {
                    let _ = link.poll_answers(context, answers);
                }
                if answers.is_empty() { Poll::Pending } else { Poll::Ready(()) }
            }
        }
    }
}
