//! Connects to the members of a quorum. At the start, a majority must be reachable, and no server may appear twice.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold_core::{Vote, Votes};

use super::link::Link;
use crate::errors::Error;
use crate::net::connection::with_timeout;
use crate::net::topology::{Endpoint, Member, MemberCheck};

/// Connects to all members at once. Those that can't be reached are connected when they are needed, as long as there is
/// a majority without them. Also returns the first member, which sends the messages.
pub(crate) async fn connect_quorum(
    members: Vec<Member>,
    no_eviction: bool,
    response_timeout: Duration,
    node_timeout: Duration,
) -> Result<(Link, Option<Endpoint>), Error> {
    let start = Instant::now();
    let names: Vec<String> = members.iter().map(Member::name).collect();
    let checks = MemberCheck::all(&names, no_eviction);
    let endpoints = members.into_iter().zip(&checks);
    let endpoints: Vec<_> = endpoints.map(|(member, check)| member.endpoint(check.clone(), response_timeout)).collect();
    let attempts = endpoints.iter().map(|endpoint| with_timeout(response_timeout, endpoint.connect()));
    let attempts = join_all(attempts).await;
    if let Some(refusal) = checks.first().and_then(MemberCheck::take_refusal) {
        return Err(refusal);
    }
    let first = endpoints.first().cloned();
    let (mut links, mut votes) = (Vec::new(), Vec::new());
    for ((name, endpoint), attempt) in names.into_iter().zip(endpoints).zip(attempts) {
        let answer = match attempt {
            Ok(connection) => {
                let connection = endpoint.share(connection);
                links.push(Link::new(connection, Some(endpoint), node_timeout));
                Ok(())
            }
            Err(error) => {
                links.push(Link::unconnected(endpoint, node_timeout));
                Err(Error::connect_vote(&error, start.elapsed()))
            }
        };
        votes.push(Vote::new(name.into(), Some(answer)));
    }
    let majority = votes.into_iter().collect::<Votes>().majority(start.elapsed());
    majority.map(|()| (Link::Quorum(links), first)).map_err(|error| Error::from_engine(error, None, None))
}
