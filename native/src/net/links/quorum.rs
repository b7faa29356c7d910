//! Connecting to a quorum: a majority must be reachable at the start, and no server may appear twice.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold_core::{Roster, Vote, Votes};
use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult};

use crate::errors::error::Error;
use crate::net::links::link::Connection;
use crate::net::links::server_link::ServerLink;
use crate::net::topology::checks::{self, Demands};
use crate::net::topology::endpoint::Endpoint;
use crate::net::topology::server::{Server, within};

/// The option with the servers' addresses.
pub(crate) const FIELD: &str = "servers";

/// The checks for one server of a quorum: the user's demands, and that it is no other member. A server that is down at
/// the start is checked when it comes back.
#[derive(Clone)]
pub(crate) struct Member {
    place: usize,
    addresses: Arc<[String]>,
    roster: Arc<Mutex<Roster>>,
    demands: Demands,
}

impl Member {
    /// One for each server.
    pub(crate) fn all(addresses: &[String], demands: Demands) -> impl Iterator<Item = Self> {
        let (addresses, roster): (Arc<[String]>, _) = (addresses.into(), Arc::default());
        (0..addresses.len()).map(move |place| Self {
            place,
            addresses: Arc::clone(&addresses),
            roster: Arc::clone(&roster),
            demands,
        })
    }

    /// Asks the server about itself and checks the answer.
    pub(crate) async fn judge(&self, connection: &MultiplexedConnection) -> RedisResult<Result<(), Error>> {
        let connection: Connection = Arc::new(connection.clone());
        let (info, policy) = checks::answers(&connection, self.demands).await?;
        Ok(checks::judge(&info, self.demands, policy.as_deref()).and_then(|()| self.admit(&info)))
    }

    fn admit(&self, info: &str) -> Result<(), Error> {
        let admitted = self.roster.lock().unwrap_or_else(PoisonError::into_inner).admit(self.place, info);
        admitted.map_err(|other| {
            let address = |place: usize| self.addresses.get(place).map(String::as_str).unwrap_or_default();
            let (other, this) = (address(other), address(self.place));
            Error::invalid(
                FIELD,
                &format!("lists one server twice: {other} and {this} are the same server; list each server once"),
            )
        })
    }
}

/// Connects to all servers at once. Those that can't be reached are connected when they are needed, as long as
/// there is a majority without them.
pub(crate) async fn connect(servers: Vec<(Server, Member)>, node_timeout: Duration) -> Result<Vec<ServerLink>, Error> {
    let start = Instant::now();
    let attempts = servers.iter().map(|(server, member)| async move {
        let attempt = async {
            let connection = server.dial().await?;
            let verdict = member.judge(&connection).await?;
            Ok::<_, RedisError>((connection, verdict))
        };
        within(server.response_timeout(), attempt).await
    });
    let attempts = join_all(attempts).await;
    let (mut links, mut votes) = (Vec::new(), Vec::new());
    for ((server, member), attempt) in servers.into_iter().zip(attempts) {
        let address = server.address();
        let endpoint = Endpoint::Server(Arc::new(server.with_member(member)));
        let answer = match attempt {
            Ok((connection, verdict)) => {
                verdict?;
                links.push(ServerLink::new(Arc::new(connection), Some(endpoint), node_timeout));
                Ok(())
            }
            Err(error) => {
                links.push(ServerLink::unconnected(endpoint, node_timeout));
                Err(Error::connecting(&error, start.elapsed()))
            }
        };
        votes.push(Vote { server: address.into(), answer: Some(answer) });
    }
    let majority = votes.into_iter().collect::<Votes>().majority(start.elapsed());
    majority.map(|()| links).map_err(|error| Error::from_engine(error, None, None))
}
