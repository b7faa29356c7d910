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

use crate::bindings::exports::leasehold::lock::locks::Error;
use crate::bindings::leasehold::lock::connection::{Endpoint, Servers};
use crate::server::Server;
use crate::timer::Start;
use crate::{error, version};

/// An address as errors show it: without the scheme, the credentials and the database.
pub(crate) fn label(address: &str) -> &str {
    let scheme = address.as_bytes().windows(3).position(|three| three == b"://").map_or(0, |at| at + 3);
    let place = address.get(scheme..).unwrap_or(address);
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    place.split(['/', '?', '#']).next().unwrap_or(place)
}

/// What a server of a quorum must be: new enough, and different from the others. A server that is down at the start is
/// checked when it is back.
pub(crate) struct Member {
    place: usize,
    shared: Rc<Shared>,
}

struct Shared {
    labels: Vec<String>,
    roster: RefCell<Roster>,
    /// What is wrong with the given servers, if a retry can't fix it.
    wrong: RefCell<Option<Error>>,
}

impl Member {
    /// Asks the server for its version and identity, and checks them.
    pub(crate) async fn judge(&self, endpoint: &Endpoint, limit: Duration) -> Result<(), Failure> {
        let info = version::info(endpoint, limit).await?;
        let wrong = match version::judge(&info) {
            Err(error) => error,
            Ok(()) => match self.shared.roster.borrow_mut().admit(self.place, &info) {
                Ok(()) => return Ok(()),
                Err(other) => self.twice(other),
            },
        };
        let failure = Failure::Unavailable(wrong.message.clone());
        self.shared.wrong.borrow_mut().get_or_insert(wrong);
        Err(failure)
    }

    fn twice(&self, other: usize) -> Error {
        let label = |place: usize| self.shared.labels.get(place).map(String::as_str).unwrap_or_default();
        let (other, this) = (label(other), label(self.place));
        error::invalid(
            "servers",
            format!("lists one server twice: {other} and {this} are the same server; list each server once"),
        )
    }
}

/// Connects to all servers at once. If one can't be reached now, the client connects to it when it is needed, as long
/// as there is a majority.
pub(crate) async fn connect(addresses: &[String], limit: Duration) -> Result<Vec<Rc<Server>>, Error> {
    let start = Start::now();
    let labels = addresses.iter().map(|address| label(address).to_owned()).collect();
    let shared = Rc::new(Shared { labels, roster: RefCell::default(), wrong: RefCell::default() });
    let server = |(place, address): (usize, &String)| {
        let member = Member { place, shared: Rc::clone(&shared) };
        Server::new(Servers::Single(address.clone()), limit, Some(member))
    };
    let servers: Vec<_> = addresses.iter().enumerate().map(server).collect();
    // Boxed, like the driver's tasks. That halves the code size.
    let attempts = servers.iter().map(|server| async move { drop(server.connect().await) });
    let mut attempts: FuturesUnordered<LocalBoxFuture<'_, ()>> =
        attempts.map(|attempt| attempt.boxed_local()).collect();
    while attempts.next().await.is_some() {}
    drop(attempts);

    if let Some(wrong) = shared.wrong.take() {
        return Err(wrong);
    }
    let mut votes = Vec::new();
    for (server, label) in servers.iter().zip(&shared.labels) {
        let answer = match server.endpoint() {
            Ok(_) => Ok(()),
            Err(Failure::Unsupported(why)) => return Err(error::unsupported(&format!("{label}: {why}"))),
            Err(failure) => Err(EngineError::of_connecting(failure, start.elapsed())),
        };
        votes.push(Vote::new(label.as_str().into(), Some(answer)));
    }
    let majority = votes.into_iter().collect::<Votes>().majority(start.elapsed());
    majority.map(|()| servers).map_err(|error| error::from_engine(&error, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_told_without_its_password() {
        for (address, told) in [
            ("redis://app:s3:cr@t@10.0.0.1:7000/3", "10.0.0.1:7000"),
            ("redis://[::1]:7000?x=y", "[::1]:7000"),
            ("valkey://cache", "cache"),
            ("tenant-a", "tenant-a"),
        ] {
            assert_eq!(label(address), told);
        }
    }
}
