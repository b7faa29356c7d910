//! What is asked of a server before its first lock: its version, and whether it enforces slots.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use core::cell::Cell;
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

/// After so many questions that broke the connection, each time before the server answered `PING`, it is used unchecked.
const MOST_BROKEN: u32 = 3;

/// The server's answer to `INFO`. A server that is not ready is asked again, until the time is over. A proxy may close the connection
/// when it sees that command. Then its answers to other commands are enough.
pub(super) async fn info_of(endpoint: &Rc<Endpoint>, stopwatch: Stopwatch, limit: Duration) -> Result<String, Failure> {
    let mut broken = 0;
    loop {
        match server_info(endpoint, stopwatch.remaining(limit)).await {
            Err(Failure::Interrupted(_)) => {
                pong(endpoint, stopwatch.remaining(limit)).await?;
                broken += 1;
                if broken == MOST_BROKEN {
                    return Ok(String::new());
                }
            }
            Err(failure @ Failure::Refused(_)) if is_unready(&failure) && stopwatch.remaining(limit) > PROBE_PAUSE => {
                sleep(PROBE_PAUSE).await;
            }
            told => return told,
        }
    }
}

/// The server's answer to `INFO`. Empty if it refuses to tell.
async fn server_info(endpoint: &Rc<Endpoint>, limit: Duration) -> Result<String, Failure> {
    let mut info = String::new();
    for command in INFO {
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

/// Shows that the endpoint leads to a server. While that is down, a load balancer accepts connections and closes them at any command.
/// Any answer is enough, also a refusal.
async fn pong(endpoint: &Rc<Endpoint>, limit: Duration) -> Result<(), Failure> {
    match call(endpoint, &["PING"], limit).await {
        Ok(_) | Err(Failure::Refused(_)) => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// Whether the server enforces slots. One that is not ready is asked again, until the time is over. If each question breaks the
/// connection, and other commands don't, a proxy refuses it.
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
            Ok(Probed::Slots) => match unready_node(endpoint, stopwatch.remaining(limit)).await? {
                Some(failure) => failure,
                None => return Ok(true),
            },
            Ok(Probed::NoSlots) => return Ok(false),
            Ok(Probed::NotReady(failure)) => {
                if !is_required
                    && matches!(failure, Failure::Interrupted(_))
                    && pong(endpoint, stopwatch.remaining(limit)).await.is_ok()
                {
                    broken += 1;
                }
                if broken == MOST_BROKEN {
                    return Ok(false);
                }
                failure
            }
            Err(error) => return Err(error::from_engine(&error, None)),
        };
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

/// Fails if the server is one node of a cluster, whose other nodes have the other slots. Returns why it can't tell, if it can't: while a
/// whole cluster is down, its nodes don't say which slots they have.
async fn unready_node(endpoint: &Rc<Endpoint>, limit: Duration) -> Result<Option<Failure>, Error> {
    let (moved, broken, refused, answered) = (Cell::new(None), Cell::new(None), Cell::new(None), Cell::new(false));
    let ask = |key: String| async {
        let key = key;
        let answer = call(endpoint, &["GET", &key], limit).await;
        let checked = match &answer {
            // The provider may know such a node by its answer.
            Err(Failure::Unsupported(text)) => Err(EngineError::Unsupported(text.clone())),
            _ => check_slot(&answer),
        };
        if let Err(error) = checked {
            moved.set(Some(error));
        }
        match answer {
            // The others may be answers of before the break.
            Err(failure) if !matches!(failure, Failure::Refused(_)) => broken.set(Some(failure)),
            Err(failure) if is_unready(&failure) => refused.set(Some(failure)),
            _ => answered.set(true),
        }
    };
    // Boxed as in `quorum.rs`, so that the compiler reuses that code.
    let mut asked: FuturesUnordered<LocalBoxFuture<'_, ()>> =
        slot_counters().map(|key| ask(key).boxed_local()).collect();
    while asked.next().await.is_some() {}
    drop(asked);
    if let Some(error) = moved.into_inner() {
        return Err(error::from_engine(&error, None));
    }
    Ok(broken.into_inner().or_else(|| refused.into_inner().filter(|_| !answered.get())))
}

/// Whether the server may answer soon.
fn is_unready(failure: &Failure) -> bool {
    EngineError::of_connecting(failure.clone(), Duration::ZERO).is_retryable()
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
