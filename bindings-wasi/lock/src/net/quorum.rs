//! Several independent servers. A majority must be reachable at the start, and all servers must be different.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use core::cell::RefCell;
use core::time::Duration;

use futures_util::future::{FutureExt, LocalBoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_core::{Error as EngineError, Failure, Roster, Vote, Votes};

use super::server::{Server, check_version, server_info};
use crate::bindings::exports::leasehold::lock::locks::Error;
use crate::bindings::leasehold::lock::connection::{Endpoint, Servers};
use crate::error;
use crate::time::Stopwatch;

/// An address as errors show it: without the scheme, the credentials and the database.
pub(crate) fn label(address: &str) -> &str {
    let scheme = address.as_bytes().windows(3).position(|three| three == b"://").map_or(0, |at| at + 3);
    let place = address.get(scheme..).unwrap_or(address);
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    place.split(['/', '?', '#']).next().unwrap_or(place)
}

/// Checks a server of a quorum: it must be new enough and different from the others. A server that is down at the start
/// is checked when the driver connects to it.
pub(super) struct Member {
    index: usize,
    quorum: Rc<Quorum>,
}

struct Quorum {
    labels: Vec<String>,
    roster: RefCell<Roster>,
    /// What is wrong with the given servers, if a retry can't fix it.
    invalid: RefCell<Option<Error>>,
}

impl Member {
    /// Asks the server for its version and identity, and checks them.
    pub(super) async fn check(&self, endpoint: &Endpoint, limit: Duration) -> Result<(), Failure> {
        let info = server_info(endpoint, limit).await?;
        let invalid = match check_version(&info) {
            Err(error) => error,
            Ok(()) => match self.quorum.roster.borrow_mut().admit(self.index, &info) {
                Ok(()) => return Ok(()),
                Err(other) => self.same_server(other),
            },
        };
        let failure = Failure::Unavailable(invalid.message.clone());
        self.quorum.invalid.borrow_mut().get_or_insert(invalid);
        Err(failure)
    }

    fn same_server(&self, other: usize) -> Error {
        let label = |index: usize| self.quorum.labels.get(index).map(String::as_str).unwrap_or_default();
        let (other, this) = (label(other), label(self.index));
        error::invalid(
            "servers",
            format!("lists one server twice: {other} and {this} are the same server; list each server once"),
        )
    }
}

/// Connects to all servers at once. A majority must answer. The driver connects to the others when it has a command for
/// them.
pub(crate) async fn connect_quorum(addresses: &[String], limit: Duration) -> Result<Vec<Rc<Server>>, Error> {
    let stopwatch = Stopwatch::start();
    let labels = addresses.iter().map(|address| label(address).to_owned()).collect();
    let quorum = Rc::new(Quorum { labels, roster: RefCell::default(), invalid: RefCell::default() });
    let server = |(index, address): (usize, &String)| {
        let member = Member { index, quorum: Rc::clone(&quorum) };
        Server::new(Servers::Single(address.clone()), limit, Some(member))
    };
    let servers: Vec<_> = addresses.iter().enumerate().map(server).collect();
    // Boxed, so that the compiler reuses the code for the driver's tasks. That halves the code size.
    let attempts = servers.iter().map(|server| async move { drop(server.connect().await) });
    let mut attempts: FuturesUnordered<LocalBoxFuture<'_, ()>> =
        attempts.map(|attempt| attempt.boxed_local()).collect();
    while attempts.next().await.is_some() {}
    drop(attempts);

    if let Some(invalid) = quorum.invalid.take() {
        return Err(invalid);
    }
    let mut votes = Vec::new();
    for (server, label) in servers.iter().zip(&quorum.labels) {
        let answer = match server.endpoint() {
            Ok(_) => Ok(()),
            Err(Failure::Unsupported(why)) => return Err(error::unsupported(&format!("{label}: {why}"))),
            Err(failure) => Err(EngineError::of_connecting(failure, stopwatch.elapsed())),
        };
        votes.push(Vote::new(label.as_str().into(), Some(answer)));
    }
    let majority = votes.into_iter().collect::<Votes>().majority(stopwatch.elapsed());
    majority.map(|()| servers).map_err(|error| error::from_engine(&error, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_does_not_contain_the_password() {
        for (address, expected) in [
            ("redis://app:s3:cr@t@10.0.0.1:7000/3", "10.0.0.1:7000"),
            ("redis://[::1]:7000?x=y", "[::1]:7000"),
            ("valkey://cache", "cache"),
            ("tenant-a", "tenant-a"),
        ] {
            assert_eq!(label(address), expected);
        }
    }
}
