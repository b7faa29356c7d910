//! What is asked of a server before its first lock: its version, and whether it enforces slots.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use core::cell::RefCell;
use core::time::Duration;

use futures_util::future::{FutureExt, LocalBoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_core::{
    Error as EngineError, Failure, PROBE, PROBE_PAUSE, Probed, Reply, Scalar, check_probe, check_slot, is_keydb,
    refuses_info, slot_counters,
};

use super::codec;
use crate::bindings::exports::leasehold::lock::locks::Error;
use crate::bindings::leasehold::lock::connection::Endpoint;
use crate::calls::timeout;
use crate::error;
use crate::time::{Stopwatch, sleep};

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
        match call(endpoint, command, limit).await {
            Ok(Reply::One(Scalar::Text(text))) => info += &String::from_utf8_lossy(&text),
            Ok(_) => {}
            Err(Failure::Refused(text)) if refuses_info(&text) => {}
            Err(failure) => return Err(failure),
        }
        if !is_keydb(&info) {
            break;
        }
    }
    Ok(info)
}

/// Whether the server enforces slots. One that is not ready is asked again, until the time is over. If each question breaks the
/// connection, a proxy refuses it.
pub(super) async fn enforces_slots(
    endpoint: &Rc<Endpoint>,
    is_required: bool,
    stopwatch: Stopwatch,
    limit: Duration,
) -> Result<bool, Error> {
    let (mut broken, mut unready) = (0, Failure::TimedOut);
    loop {
        let answer = call(endpoint, &PROBE, stopwatch.remaining(limit)).await;
        let failure = match check_probe(is_required, &answer) {
            Ok(Probed::Slots) => {
                return has_all_slots(endpoint, stopwatch.remaining(limit)).await.map(|()| true);
            }
            Ok(Probed::NoSlots) => return Ok(false),
            Ok(Probed::NotReady(failure)) => failure,
            Err(error) => return Err(error::from_engine(&error, None)),
        };
        broken += u32::from(matches!(failure, Failure::Interrupted(_)));
        if broken >= MOST_BROKEN && !is_required {
            return Ok(false);
        }
        // If there is no answer in the end, the words of an earlier one are more useful.
        if failure != Failure::TimedOut {
            unready = failure;
        }
        if stopwatch.remaining(limit) <= PROBE_PAUSE {
            return Err(error::of_connecting(unready, stopwatch.elapsed()));
        }
        sleep(PROBE_PAUSE).await;
    }
}

/// Fails if the server is one node of a cluster, whose other nodes have the other slots.
async fn has_all_slots(endpoint: &Rc<Endpoint>, limit: Duration) -> Result<(), Error> {
    let moved = RefCell::new(None);
    let ask = |key: String| async {
        let key = key;
        let checked = match call(endpoint, &["GET", &key], limit).await {
            // The provider may know such a node by its answer.
            Err(Failure::Unsupported(text)) => Err(EngineError::Unsupported(text)),
            answer => check_slot(&answer),
        };
        if let Err(error) = checked {
            moved.replace(Some(error));
        }
    };
    // Boxed as in `quorum.rs`, so that the compiler reuses that code.
    let mut asked: FuturesUnordered<LocalBoxFuture<'_, ()>> =
        slot_counters().map(|key| ask(key).boxed_local()).collect();
    while asked.next().await.is_some() {}
    drop(asked);
    moved.into_inner().map_or(Ok(()), |error| Err(error::from_engine(&error, None)))
}

/// The answer to a command, within `limit`.
async fn call(endpoint: &Rc<Endpoint>, command: &[&str], limit: Duration) -> Result<Reply, Failure> {
    let endpoint = Rc::clone(endpoint);
    let words: Vec<_> = command.iter().map(|word| word.as_bytes().to_vec()).collect();
    let answer = timeout(limit, async move { endpoint.call(words).await }).await;
    answer.map_or(Err(Failure::TimedOut), codec::result)
}

/// Fails if the server is too old. A server that doesn't report its version is accepted.
pub(super) fn check_version(info: &str) -> Result<(), Error> {
    leasehold_core::check_server(info).map_err(|error| error::from_engine(&error, None))
}
