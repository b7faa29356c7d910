//! A write that says how many replicas have it.
//!
//! `WAIT` only covers the writes of its own connection, and it blocks everything else on that connection. So each write
//! has a connection of its own. The connection is new each time, because an old one could still lead to an old primary.
//!
//! <https://redis.io/docs/latest/commands/wait/>

use std::time::Duration;

use leasehold_core::{Command, Failure, Reply, Scalar};
use redis::aio::MultiplexedConnection;

use super::codec;
use super::connection::{Connection, reply_with_timeout};
use super::topology::{Endpoint, routing_key};
use crate::errors::connect_failure;

/// A write that the primary has applied, on the connection that made it.
pub(crate) struct ReplicatedWrite {
    connection: MultiplexedConnection,
    response_timeout: Duration,
    /// The server's reply to the write.
    pub(crate) reply: Reply,
}

impl ReplicatedWrite {
    /// Runs a script, given by digest and by source, over a new connection to the server that has its key.
    pub(crate) async fn send(
        endpoint: &Endpoint,
        [digest, source]: &[Command; 2],
        response_timeout: Duration,
    ) -> Result<Self, Failure> {
        let key = routing_key(digest).unwrap_or_default();
        // The slot may have moved. The second attempt goes to its new server.
        let mut again = true;
        loop {
            let connection = endpoint.connect_for(key).await.map_err(|error| connect_failure(&error))?;
            let mut reply = reply_with_timeout(response_timeout, connection.run(codec::encode(digest))).await;
            if matches!(&reply, Err(Failure::Refused(text)) if text.starts_with("NOSCRIPT")) {
                reply = reply_with_timeout(response_timeout, connection.run(codec::encode(source))).await;
            }
            match reply {
                Err(Failure::Refused(text)) if again && endpoint.learn_moved(&text, key) => again = false,
                Err(Failure::Refused(text)) if text.starts_with("MOVED ") || text.starts_with("ASK ") => {
                    return Err(Failure::Unavailable(text));
                }
                reply => return Ok(Self { connection, response_timeout, reply: reply? }),
            }
        }
    }

    /// How many replicas have confirmed the write. Waits until `min` have, or until `timeout` is over.
    pub(crate) async fn wait(&self, min: u32, timeout: Duration) -> Result<u32, Failure> {
        let mut wait = redis::cmd("WAIT");
        let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        wait.arg(min).arg(ms);
        match reply_with_timeout(self.response_timeout + timeout, self.connection.run(wait)).await? {
            Reply::One(Scalar::Int(confirmed)) => Ok(u32::try_from(confirmed).unwrap_or(0)),
            other => Err(Failure::Refused(format!("WAIT answered {other:?}"))),
        }
    }
}
