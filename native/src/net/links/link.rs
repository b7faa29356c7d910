//! The way to send commands: over a single server, a cluster, or the servers of a quorum.

use std::task::{Context, Poll};
use std::time::Duration;

use leasehold_core::{CallId, Command, NodeId};

use super::cluster_link::Router;
use super::server_link::{Answer, ServerLink, Way};
use crate::net::codec;
use crate::net::connection::Connection;
use crate::net::topology::Endpoint;

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
