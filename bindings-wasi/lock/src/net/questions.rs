//! What is asked of a server before its first lock: its version, and whether it enforces slots.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use core::time::Duration;

use leasehold_core::{Failure, PROBE, Reply, Scalar, is_keydb, refuses_info};

use super::codec;
use crate::bindings::exports::leasehold::lock::locks::Error;
use crate::bindings::leasehold::lock::connection::Endpoint;
use crate::calls::timeout;
use crate::error;
use crate::time::Stopwatch;

/// What to ask a server. KeyDB tells in a second section that it is an active replica.
const INFO: &[&[&str]] = &[&["INFO", "server"], &["INFO", "replication"]];
/// What to ask a server that doesn't answer `INFO`.
const PING: &[&[&str]] = &[&["PING"]];

/// After so many questions that broke the connection, the server is used unchecked.
const MOST_BROKEN: u32 = 3;

/// The server's answer to `INFO`. A proxy may close the connection when it sees that command. Then any answer to another one is
/// enough, also a refusal.
pub(super) async fn info_of(endpoint: &Rc<Endpoint>, stopwatch: Stopwatch, limit: Duration) -> Result<String, Failure> {
    let mut broken = 0;
    loop {
        let commands = if broken < MOST_BROKEN { INFO } else { PING };
        match server_info(endpoint, commands, stopwatch.remaining(limit)).await {
            Err(Failure::Interrupted(_)) if broken < MOST_BROKEN => broken += 1,
            told => return told,
        }
    }
}

/// The server's answer to these commands. Empty if it refuses to tell.
async fn server_info(endpoint: &Rc<Endpoint>, commands: &[&[&str]], limit: Duration) -> Result<String, Failure> {
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
