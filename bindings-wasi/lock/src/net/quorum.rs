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
use leasehold_core::{Error as EngineError, Failure, Vote, Votes};

use super::member::{Member, Quorum};
use super::server::{Checks, Server};
use crate::bindings::exports::leasehold::lock::locks::Error;
use crate::bindings::leasehold::lock::connection::Servers;
use crate::error;
use crate::time::Stopwatch;

/// An address as errors show it: without the scheme, the credentials and the database.
pub(crate) fn label(address: &str) -> &str {
    let scheme = address.as_bytes().windows(3).position(|three| three == b"://").map_or(0, |at| at + 3);
    let place = address.get(scheme..).unwrap_or(address);
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    place.split(['/', '?', '#']).next().unwrap_or(place)
}

/// Connects to all servers at once. A majority must answer. The driver connects to the others when it has a command for
/// them.
pub(crate) async fn connect_quorum(addresses: &[String], limit: Duration) -> Result<Vec<Rc<Server>>, Error> {
    let stopwatch = Stopwatch::start();
    let labels = addresses.iter().map(|address| label(address).to_owned()).collect();
    let quorum = Rc::new(Quorum { labels, roster: RefCell::default(), invalid: RefCell::default() });
    let server = |(index, address): (usize, &String)| {
        let member = Member { index, quorum: Rc::clone(&quorum) };
        Server::new(Servers::Single(address.clone()), limit, Checks::Member(member))
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
