//! Several independent servers: a majority has to be there at the start, and each has to be a server of its own.

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

/// An address as errors tell it: without what it is reached by, who we are there, and which database is meant.
pub(crate) fn label(address: &str) -> &str {
    let scheme = address.as_bytes().windows(3).position(|three| three == b"://").map_or(0, |at| at + 3);
    let place = address.get(scheme..).unwrap_or(address);
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    place.split(['/', '?', '#']).next().unwrap_or(place)
}

/// What a server of a quorum has to be: new enough, and none of the others. One that is away at the start is judged when it is there.
pub(crate) struct Member {
    place: usize,
    shared: Rc<Shared>,
}

struct Shared {
    labels: Vec<String>,
    roster: RefCell<Roster>,
    /// What is wrong with the servers that were given, which no trying again mends.
    wrong: RefCell<Option<Error>>,
}

impl Member {
    /// Asks the server, and judges what it tells.
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
        error::invalid("servers", format!("{other} and {this} are one server: each must be a server of its own"))
    }
}

/// Connects to all at once. One that can't be reached now is connected to when it is needed, unless that leaves no majority.
pub(crate) async fn connect(addresses: &[String], limit: Duration) -> Result<Vec<Rc<Server>>, Error> {
    let start = Start::now();
    let labels = addresses.iter().map(|address| label(address).to_owned()).collect();
    let shared = Rc::new(Shared { labels, roster: RefCell::default(), wrong: RefCell::default() });
    let server = |(place, address): (usize, &String)| {
        let member = Member { place, shared: Rc::clone(&shared) };
        Server::new(Servers::Single(address.clone()), limit, Some(member))
    };
    let servers: Vec<_> = addresses.iter().enumerate().map(server).collect();
    // Boxed, as the driver's tasks are: that is half the code.
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
        votes.push(Vote { server: label.as_str().into(), answer: Some(answer) });
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
