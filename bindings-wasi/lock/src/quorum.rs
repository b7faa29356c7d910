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
use leasehold_core::{Error as EngineError, Failure, Vote, Votes};

use crate::bindings::exports::leasehold::lock::locks::Error;
use crate::bindings::leasehold::lock::connection::Servers;
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

/// Connects to all at once. One that can't be reached now is connected to when it is needed, unless that leaves no majority.
pub(crate) async fn connect(addresses: &[String], limit: Duration) -> Result<Vec<Rc<Server>>, Error> {
    let start = Start::now();
    let servers: Vec<_> =
        addresses.iter().map(|address| Server::new(Servers::Single(address.clone()), limit)).collect();
    let answers: Vec<_> = servers.iter().map(|_| RefCell::new(Err(Failure::TimedOut))).collect();
    // Boxed, as the driver's tasks are: that is half the code.
    let attempts = servers.iter().zip(&answers).map(|(server, answer)| async move {
        *answer.borrow_mut() = asked(server, limit).await;
    });
    let mut attempts: FuturesUnordered<LocalBoxFuture<'_, ()>> =
        attempts.map(|attempt| attempt.boxed_local()).collect();
    while attempts.next().await.is_some() {}
    drop(attempts);

    let (mut votes, mut ids) = (Vec::new(), Vec::new());
    for (address, answer) in addresses.iter().zip(answers) {
        let server = label(address);
        let answer = match answer.into_inner() {
            Ok(info) => {
                version::judge(&info)?;
                is_new(&mut ids, server, &info)?;
                Ok(())
            }
            Err(Failure::Unsupported(why)) => return Err(error::unsupported(&format!("{server}: {why}"))),
            Err(failure) => Err(EngineError::of_connecting(failure, start.elapsed())),
        };
        votes.push(Vote { server: server.into(), answer: Some(answer) });
    }
    let majority = votes.into_iter().collect::<Votes>().majority(start.elapsed());
    majority.map(|()| servers).map_err(|error| error::from_engine(&error, None))
}

async fn asked(server: &Server, limit: Duration) -> Result<String, Failure> {
    version::info(&*server.connect().await?, limit).await
}

/// One server may have two addresses, and would have two votes.
fn is_new<'a>(ids: &mut Vec<(String, &'a str)>, server: &'a str, info: &str) -> Result<(), Error> {
    let Some(id) = info.lines().find_map(|line| line.trim().strip_prefix("run_id:")) else { return Ok(()) };
    if let Some((_, other)) = ids.iter().find(|(known, _)| known == id) {
        let problem = format!("{other} and {server} are one server: each must be a server of its own");
        return Err(error::invalid("servers", problem));
    }
    ids.push((id.to_owned(), server));
    Ok(())
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
