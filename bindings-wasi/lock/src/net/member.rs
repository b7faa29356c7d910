//! What a server must be like: new enough, and in a quorum different from the others.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use core::cell::RefCell;
use core::time::Duration;

use leasehold_core::{Failure, PROBE, Reply, Roster, Scalar, is_keydb, refuses_info};

use super::codec;
use crate::bindings::exports::leasehold::lock::locks::Error;
use crate::bindings::leasehold::lock::connection::Endpoint;
use crate::calls::timeout;
use crate::error;

/// Checks a server of a quorum: it must be new enough and different from the others. A server that is down at the start
/// is checked when the driver connects to it.
pub(super) struct Member {
    pub(super) index: usize,
    pub(super) quorum: Rc<Quorum>,
}

pub(super) struct Quorum {
    pub(super) labels: Vec<String>,
    pub(super) roster: RefCell<Roster>,
    /// What is wrong with the given servers, if a retry can't fix it.
    pub(super) invalid: RefCell<Option<Error>>,
}

impl Member {
    /// Asks the server for its version and identity, and checks them.
    pub(super) async fn check(&self, endpoint: &Rc<Endpoint>, limit: Duration) -> Result<(), Failure> {
        let info = server_info(endpoint, INFO, limit).await?;
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

/// What to ask a server. KeyDB tells in a second section that it is an active replica.
pub(super) const INFO: &[&[&str]] = &[&["INFO", "server"], &["INFO", "replication"]];
/// What to ask a server that doesn't answer `INFO`.
pub(super) const PING: &[&[&str]] = &[&["PING"]];

/// The server's answer to these commands. Empty if it refuses to tell.
pub(super) async fn server_info(
    endpoint: &Rc<Endpoint>,
    commands: &[&[&str]],
    limit: Duration,
) -> Result<String, Failure> {
    let mut info = String::new();
    for command in commands {
        let endpoint = Rc::clone(endpoint);
        let words: Vec<_> = command.iter().map(|word| word.as_bytes().to_vec()).collect();
        let telling = async move { endpoint.call(words).await };
        match timeout(limit, telling).await.map(codec::result) {
            Some(Ok(Reply::One(Scalar::Text(text)))) => info += &String::from_utf8_lossy(&text),
            Some(Ok(_)) => {}
            Some(Err(Failure::Refused(text))) if refuses_info(&text) => {}
            Some(Err(failure)) => return Err(failure),
            None => return Err(Failure::TimedOut),
        }
        if !is_keydb(&info) {
            break;
        }
    }
    Ok(info)
}

/// What the server answers to a script on keys of two slots: a reply, or why there is none.
pub(super) async fn probe(endpoint: &Rc<Endpoint>, limit: Duration) -> Result<Reply, Failure> {
    let endpoint = Rc::clone(endpoint);
    let words = PROBE.iter().map(|word| word.as_bytes().to_vec()).collect();
    let answer = timeout(limit, async move { endpoint.call(words).await }).await.map(codec::result);
    answer.unwrap_or(Err(Failure::TimedOut))
}

/// Fails if the server is too old. A server that doesn't report its version is accepted.
pub(super) fn check_version(info: &str) -> Result<(), Error> {
    leasehold_core::check_server(info).map_err(|error| error::from_engine(&error, None))
}
