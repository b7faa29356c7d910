//! Waits until enough replicas have a new lease, before the caller gets it.
//!
//! `WAIT` only covers the writes of its own connection, and it blocks everything else on that connection. So this
//! module opens a connection of its own and writes to the lease. That write comes after the grant in the replication
//! stream, so a replica that confirms the write has the grant too. If the write finds the lease, this server is the one
//! that granted it, and not another one that was promoted since. The connection is new each time, because an old one
//! could still lead to an old primary.
//!
//! <https://redis.io/docs/latest/commands/wait/>

use std::time::Duration;

use leasehold_core::{Command, Error as EngineError, Failure, LeaseId, LossReason, Reply, Scalar};
use redis::aio::MultiplexedConnection;
use tokio::time::{Instant, timeout};

use crate::client::handle::Client;
use crate::errors::error::Error;
use crate::net::codec;
use crate::net::links::link::Commands;
use crate::net::topology::endpoint::Endpoint;
use crate::net::topology::slots::key_of;

/// How many replicas must have a lease, and how long to wait for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replicas {
    pub(crate) min: u32,
    pub(crate) timeout: Duration,
}

const FIELD: &str = "wait_for_replicas";
const LONGEST: Duration = Duration::from_secs(60);

impl Replicas {
    /// Checks the options and that the connection supports them. Sends nothing.
    pub(crate) fn check(self, client: &Client, name: &str) -> Result<(), Error> {
        if self.min == 0 {
            return Err(Error::invalid(FIELD, "asks for no replica: ask for at least one"));
        }
        if self.timeout < Duration::from_millis(1) || self.timeout > LONGEST {
            return Err(Error::invalid(FIELD, "needs a timeout from 1 ms to 60 s"));
        }
        if client.endpoint.is_none() {
            let problem = "`wait_for_replicas` opens its own connection to the server; connect the manager by a URL or a \
                           client. A quorum doesn't support it, because its servers are independent of each other";
            return Err(Error::Unsupported { name: Some(name.to_owned()), problem: problem.to_owned() });
        }
        Ok(())
    }

    /// Returns when enough replicas have the lease.
    pub(crate) async fn confirm(self, client: &Client, lease: LeaseId, name: &str) -> Result<(), Error> {
        let start = Instant::now();
        let lost = |reason| {
            let reason = client.shared.loss(lease).unwrap_or(reason);
            Error::Lost { name: name.to_owned(), reason }
        };
        let (Some(endpoint), Some(touch)) = (&client.endpoint, client.shared.touch(lease)) else {
            return Err(lost(LossReason::Gone));
        };
        let failed = |failure| client.shared.error(EngineError::of_connecting(failure, start.elapsed()), Some(name));
        let limit = client.response_timeout;
        let question = Question { endpoint, limit };
        let touched = timeout(limit, question.touch(&touch)).await.unwrap_or(Err(Failure::TimedOut));
        let (connection, reply) = touched.map_err(failed)?;
        match first_word(&reply) {
            Some(b"renewed") => {}
            Some(b"taken") => return Err(lost(LossReason::Taken)),
            _ => return Err(lost(LossReason::Gone)),
        }
        let limit = (self.timeout + limit).saturating_sub(start.elapsed());
        let confirmed = timeout(limit, question.wait(&connection, self)).await.unwrap_or(Err(Failure::TimedOut));
        let confirmed = confirmed.map_err(failed)?;
        // The lease may have expired in the meantime.
        if client.shared.remaining(lease).is_zero() {
            return Err(lost(LossReason::Expired));
        }
        if confirmed >= self.min {
            return Ok(());
        }
        Err(Error::NotReplicated { name: name.to_owned(), confirmed, wanted: self.min, waited: start.elapsed() })
    }
}

struct Question<'a> {
    endpoint: &'a Endpoint,
    limit: Duration,
}

impl Question<'_> {
    /// Writes to the lease over a new connection to its server. Returns the connection and the reply.
    async fn touch(&self, [digest, source]: &[Command; 2]) -> Result<(MultiplexedConnection, Reply), Failure> {
        let key = key_of(digest).unwrap_or_default();
        // The slot may have moved. The second attempt knows the new place.
        let mut again = true;
        loop {
            let connection = self.endpoint.connect_for(key).await.map_err(|error| codec::connect_failure(&error))?;
            let mut answer = self.ask(&connection, codec::command(digest), self.limit).await;
            if matches!(&answer, Err(Failure::Refused(text)) if text.starts_with("NOSCRIPT")) {
                answer = self.ask(&connection, codec::command(source), self.limit).await;
            }
            match answer {
                Err(Failure::Refused(text)) if again && self.endpoint.learn(&text, key) => again = false,
                Err(Failure::Refused(text)) if text.starts_with("MOVED ") || text.starts_with("ASK ") => {
                    return Err(Failure::Unavailable(text));
                }
                answer => return Ok((connection, answer?)),
            }
        }
    }

    /// How many replicas have confirmed the writes of this connection.
    async fn wait(&self, connection: &MultiplexedConnection, replicas: Replicas) -> Result<u32, Failure> {
        let mut wait = redis::cmd("WAIT");
        let ms = u64::try_from(replicas.timeout.as_millis()).unwrap_or(u64::MAX);
        wait.arg(replicas.min).arg(ms);
        match self.ask(connection, wait, self.limit + replicas.timeout).await? {
            Reply::One(Scalar::Int(confirmed)) => Ok(u32::try_from(confirmed).unwrap_or(0)),
            other => Err(Failure::Refused(format!("WAIT answered {other:?}"))),
        }
    }

    async fn ask(
        &self,
        connection: &MultiplexedConnection,
        cmd: redis::Cmd,
        limit: Duration,
    ) -> Result<Reply, Failure> {
        match timeout(limit, connection.run(cmd)).await {
            Ok(answer) => codec::result(answer),
            Err(_) => Err(Failure::TimedOut),
        }
    }
}

fn first_word(reply: &Reply) -> Option<&[u8]> {
    match reply {
        Reply::List(items) => match items.first()? {
            Scalar::Text(text) => Some(text),
            _ => None,
        },
        Reply::One(_) => None,
    }
}
