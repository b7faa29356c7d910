//! Sends the engine's commands: to a single server, to a cluster, or to the members of a quorum.

use std::task::{Context, Poll};
use std::time::Duration;

use leasehold_core::{Abilities, Command, CommandId, NodeId};
use tokio::time::Instant;

use super::cluster_link::ClusterLink;
use super::server_link::{Completion, SendMode, ServerLink};
use crate::net::codec;
use crate::net::connection::SharedConnection;
use crate::net::topology::{Endpoint, Opening};

pub(crate) enum Link {
    Server(Box<ServerLink>),
    Cluster(Box<ClusterLink>),
    /// One link to each member of the quorum: a server or a cluster.
    Quorum(Vec<Self>),
}

impl Link {
    /// Starts with an open connection. `endpoint` is where to reconnect. None if the user provided the connection.
    pub(crate) fn new(connection: SharedConnection, endpoint: Option<Endpoint>, response_timeout: Duration) -> Self {
        match endpoint {
            Some(Endpoint::Cluster(cluster)) => Self::Cluster(Box::new(ClusterLink::new(cluster, response_timeout))),
            endpoint => Self::Server(Box::new(ServerLink::new(connection, endpoint, response_timeout))),
        }
    }

    /// A link that connects when the first command is sent.
    pub(super) fn unconnected(endpoint: Endpoint, response_timeout: Duration) -> Self {
        match endpoint {
            Endpoint::Cluster(cluster) => Self::Cluster(Box::new(ClusterLink::new(cluster, response_timeout))),
            endpoint => Self::Server(Box::new(ServerLink::unconnected(endpoint, response_timeout))),
        }
    }

    /// A link to a server that was not ready. It is checked before the first command is sent.
    pub(crate) fn unchecked(opening: Opening, endpoint: Option<Endpoint>, response_timeout: Duration) -> Self {
        Self::Server(Box::new(ServerLink::unchecked(opening, endpoint, response_timeout)))
    }

    /// What a server can do that was not ready at first. Once, before any answer of its own is returned.
    pub(crate) fn take_abilities(&mut self) -> Option<Abilities> {
        match self {
            Self::Server(link) => link.take_abilities(),
            Self::Cluster(_) | Self::Quorum(_) => None,
        }
    }

    /// Sends a command, or queues it while connecting. [`poll_completions`](Self::poll_completions) returns its result.
    pub(crate) fn send(&mut self, node: NodeId, id: CommandId, command: Command) {
        match self {
            Self::Server(link) => link.send(id, codec::encode(&command), SendMode::Plain),
            Self::Cluster(link) => link.send(id, command),
            Self::Quorum(links) => {
                if let Some(link) = links.get_mut(usize::from(node.0)) {
                    link.send(NodeId(0), id, command);
                }
            }
        }
    }

    /// Whether a command that is sent now leaves at once, and is alone. Not in a cluster or a quorum, where several servers
    /// can have something in flight.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Self::Server(link) => link.is_idle_and_up(),
            Self::Cluster(_) | Self::Quorum(_) => false,
        }
    }

    /// When to poll at the latest, because a reply may be overdue then.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Server(link) => link.poll_timeout(),
            Self::Cluster(link) => link.poll_timeout(),
            Self::Quorum(links) => links.iter().filter_map(Self::poll_timeout).min(),
        }
    }

    /// Appends new completions. Ready if there is at least one.
    pub(crate) fn poll_completions(
        &mut self,
        context: &mut Context<'_>,
        completions: &mut Vec<Completion>,
    ) -> Poll<()> {
        match self {
            Self::Server(link) => link.poll_completions(context, completions),
            Self::Cluster(link) => link.poll_completions(context, completions),
            Self::Quorum(links) => {
                for link in links {
                    let _ = link.poll_completions(context, completions);
                }
                if completions.is_empty() { Poll::Pending } else { Poll::Ready(()) }
            }
        }
    }
}
