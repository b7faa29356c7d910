//! Connects to the servers of a quorum. At the start, a majority must be reachable, and no server may appear twice.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold_core::{Vote, Votes};
use redis::RedisError;

use super::link::Link;
use super::server_link::ServerLink;
use crate::errors::Error;
use crate::net::connection::with_timeout;
use crate::net::topology::{Endpoint, QuorumMember, Requirements, Server};

/// Connects to all servers at once. Those that can't be reached are connected when they are needed, as long as there is
/// a majority without them. Also returns the first server, which sends the messages.
pub(crate) async fn connect_quorum(
    servers: Vec<Server>,
    requirements: Requirements,
    node_timeout: Duration,
) -> Result<(Link, Option<Endpoint>), Error> {
    let start = Instant::now();
    let addresses: Vec<String> = servers.iter().map(Server::address).collect();
    let members: Vec<_> = servers.into_iter().zip(QuorumMember::all(&addresses, requirements)).collect();
    let attempts = members.iter().map(|(server, member)| async move {
        let attempt = async {
            let connection = server.connect_unchecked().await?;
            let checked = member.check(&connection).await?;
            Ok::<_, RedisError>((connection, checked))
        };
        with_timeout(server.response_timeout(), attempt).await
    });
    let attempts = join_all(attempts).await;
    let (mut links, mut votes, mut first) = (Vec::new(), Vec::new(), None);
    for ((server, member), attempt) in members.into_iter().zip(attempts) {
        let address = server.address();
        let endpoint = Endpoint::server(server.with_member(member));
        first.get_or_insert_with(|| endpoint.clone());
        let answer = match attempt {
            Ok((connection, checked)) => {
                checked?;
                let connection = endpoint.share(connection);
                links.push(ServerLink::new(connection, Some(endpoint), node_timeout));
                Ok(())
            }
            Err(error) => {
                links.push(ServerLink::unconnected(endpoint, node_timeout));
                Err(Error::connect_vote(&error, start.elapsed()))
            }
        };
        votes.push(Vote::new(address.into(), Some(answer)));
    }
    let majority = votes.into_iter().collect::<Votes>().majority(start.elapsed());
    majority.map(|()| (Link::Quorum(links), first)).map_err(|error| Error::from_engine(error, None, None))
}
