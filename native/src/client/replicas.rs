//! Waits until enough replicas have a new lease, before the caller gets it.
//!
//! The client writes to the lease and waits for the replicas to confirm the write. The write comes after the grant in
//! the replication stream, so a replica that confirms it has the grant too. If the write finds the lease, this server
//! is the one that granted it, and not another one that was promoted since.

use std::time::Duration;

use leasehold_core::{Error as EngineError, Failure, LeaseId, LossReason, Reply, Scalar};
use tokio::time::{Instant, timeout};

use super::handle::Client;
use crate::errors::Error;
use crate::net::ReplicatedWrite;

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
        let write = timeout(limit, ReplicatedWrite::send(endpoint, &touch, limit)).await;
        let write = write.unwrap_or(Err(Failure::TimedOut)).map_err(failed)?;
        match first_word(&write.reply) {
            Some(b"renewed") => {}
            Some(b"taken") => return Err(lost(LossReason::Taken)),
            _ => return Err(lost(LossReason::Gone)),
        }
        let limit = (self.timeout + limit).saturating_sub(start.elapsed());
        let confirmed = timeout(limit, write.wait(self.min, self.timeout)).await;
        let confirmed = confirmed.unwrap_or(Err(Failure::TimedOut)).map_err(failed)?;
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

fn first_word(reply: &Reply) -> Option<&[u8]> {
    match reply {
        Reply::List(items) => match items.first()? {
            Scalar::Text(text) => Some(text),
            _ => None,
        },
        Reply::One(_) => None,
    }
}
