//! Connects to a server and checks it, when a manager is made. If the server is not ready then, the link does it later, before it sends
//! the first command.

use std::time::{Duration, Instant};

use leasehold_core::{Abilities, Failure, PROBE_PAUSE};

use super::checks::{Checked, Requirements, check_server, not_ready};
use super::endpoint::Endpoint;
use super::recheck::check_again;
use crate::errors::{Error, later_failure};
use crate::net::connection::SharedConnection;

/// How to connect to a server, and what it must be like.
#[derive(Clone)]
pub(crate) struct Opening {
    pub(crate) source: Source,
    pub(crate) requirements: Requirements,
    /// How long one attempt may take.
    pub(crate) limit: Duration,
}

#[derive(Clone)]
pub(crate) enum Source {
    Endpoint(Endpoint),
    /// The user provided the only connection.
    Provided(SharedConnection),
}

/// What an attempt led to.
pub(crate) enum Opened {
    Ready(SharedConnection, Abilities),
    /// The server has answered, but only that it can't do anything now.
    NotReady(Failure),
}

impl Opening {
    /// Connects when a manager is made.
    pub(crate) async fn first(&self, since: Instant) -> Result<Opened, Error> {
        loop {
            match self.attempt(since).await? {
                // A connection of the user may have a time limit of its own.
                Opened::NotReady(failure) if !matches!(failure, Failure::Refused(_)) => {
                    if self.limit.saturating_sub(since.elapsed()) <= PROBE_PAUSE {
                        return Err(self.unready(failure, since));
                    }
                    tokio::time::sleep(PROBE_PAUSE).await;
                }
                opened => return Ok(opened),
            }
        }
    }

    /// Connects later. A failure is that of a command that waits for the connection, and was not sent.
    pub(in crate::net) async fn again(self) -> Result<(SharedConnection, Abilities), Failure> {
        match self.attempt(Instant::now()).await {
            Ok(Opened::Ready(connection, abilities)) => Ok((connection, abilities)),
            Ok(Opened::NotReady(failure)) => Err(Failure::Unavailable(failure.text().to_owned())),
            Err(error) => Err(later_failure(error)),
        }
    }

    /// The error of connecting to a server that is not ready.
    pub(crate) fn unready(&self, failure: Failure, since: Instant) -> Error {
        let error = leasehold_core::Error::of_connecting(failure, since.elapsed());
        Error::from_engine(error, None, self.url().as_deref())
    }

    async fn attempt(&self, since: Instant) -> Result<Opened, Error> {
        let (url, time) = (self.url(), (since, self.limit));
        let connection = match &self.source {
            Source::Provided(connection) => connection.clone(),
            Source::Endpoint(endpoint) => match endpoint.connect().await {
                Ok(connection) => endpoint.share(connection),
                Err(error) => {
                    return match not_ready(&error) {
                        Some(failure) => Ok(Opened::NotReady(failure)),
                        None => Err(Error::from_connecting(error, url.as_deref(), since.elapsed())),
                    };
                }
            },
        };
        let checked = check_server(&connection, url.as_deref(), self.requirements, time).await;
        let (connection, checked) = match (checked, &self.source) {
            (Err(error), Source::Endpoint(endpoint)) => check_again(endpoint, error, self.requirements, time).await?,
            (checked, _) => (connection, checked?),
        };
        Ok(match checked {
            Checked::Fits(abilities) => Opened::Ready(connection, abilities),
            Checked::NotReady(failure) => Opened::NotReady(failure),
        })
    }

    fn url(&self) -> Option<String> {
        match &self.source {
            Source::Endpoint(endpoint) => Some(endpoint.url()),
            Source::Provided(_) => None,
        }
    }
}
