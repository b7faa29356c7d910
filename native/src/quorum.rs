//! Several independent servers: a majority has to be there at the start, and each has to be a server of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold_core::{Vote, Votes};
use redis::RedisError;

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::link::Connection;
use crate::server::Server;
use crate::server_link::ServerLink;
use crate::version;

/// The option that names them.
pub(crate) const FIELD: &str = "servers";

/// Connects to all at once. One that can't be reached now is connected to when it is needed, unless that leaves no majority.
pub(crate) async fn connect(
    servers: &[Arc<Server>],
    limit: Duration,
    node_timeout: Duration,
) -> Result<Vec<ServerLink>, Error> {
    let start = Instant::now();
    let attempts = servers.iter().map(|server| async move {
        let connection: Connection = Arc::new(server.connect().await?);
        let info = version::info(&connection, limit).await?;
        Ok::<_, RedisError>((connection, info))
    });
    let (mut links, mut votes, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    for (server, attempt) in servers.iter().zip(join_all(attempts).await) {
        let endpoint = Endpoint::Server(Arc::clone(server));
        let answer = match attempt {
            Ok((connection, info)) => {
                if let Some(info) = info {
                    version::judge(&info)?;
                    is_new(&mut ids, server, &info)?;
                }
                links.push(ServerLink::new(connection, Some(endpoint), node_timeout));
                Ok(())
            }
            Err(error) => {
                links.push(ServerLink::unconnected(endpoint, node_timeout));
                Err(Error::connecting(&error, start.elapsed()))
            }
        };
        votes.push(Vote { server: server.address().into(), answer: Some(answer) });
    }
    let majority = votes.into_iter().collect::<Votes>().majority(start.elapsed());
    majority.map(|()| links).map_err(|error| Error::from_engine(error, None, None))
}

/// One server may have two addresses, and would have two votes.
fn is_new(ids: &mut Vec<(String, String)>, server: &Server, info: &str) -> Result<(), Error> {
    let Some(id) = info.lines().find_map(|line| line.trim().strip_prefix("run_id:")) else { return Ok(()) };
    if let Some((_, other)) = ids.iter().find(|(known, _)| known == id) {
        let problem = format!("{other} and {} are one server: each must be a server of its own", server.address());
        return Err(Error::invalid(FIELD, &problem));
    }
    ids.push((id.to_owned(), server.address()));
    Ok(())
}
