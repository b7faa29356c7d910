//! What is asked of a server before its first lock: its version, and whether it enforces slots.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use core::cell::RefCell;
use core::time::Duration;

use futures_util::future::{FutureExt, LocalBoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_core::{
    Error as EngineError, Failure, PROBE, Probed, Reply, Scalar, check_probe, check_slots, is_keydb, refuses_info,
    slot_counters,
};

use super::codec;
use crate::bindings::leasehold::lock::connection::Endpoint;
use crate::calls::timeout;
use crate::time::Stopwatch;

/// What to ask a server. KeyDB tells in a second section that it is an active replica.
const INFO: &[&[&str]] = &[&["INFO", "server"], &["INFO", "replication"]];

/// After so many questions that broke the connection, each time before the server answered `PING`, it is used unchecked.
pub(super) const MOST_BROKEN: u32 = 3;

/// The server's answer to `INFO`. A proxy may close the connection when it sees that command. Then its answers to other commands are
/// enough.
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
pub(super) async fn pong(endpoint: &Rc<Endpoint>, limit: Duration) -> Result<(), Failure> {
    match call(endpoint, &["PING"], limit).await {
        Ok(_) | Err(Failure::Refused(_)) => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// What the server says about slots.
pub(super) async fn enforces_slots(
    endpoint: &Rc<Endpoint>,
    is_required: bool,
    stopwatch: Stopwatch,
    limit: Duration,
) -> Result<Probed, EngineError> {
    let answer = call(endpoint, &PROBE, stopwatch.remaining(limit)).await;
    let probed = check_probe(is_required, &answer)?;
    if probed == Probed::Slots {
        return has_all_slots(endpoint, stopwatch.remaining(limit)).await;
    }
    Ok(probed)
}

/// Fails if the server is one node of a cluster, whose other nodes have the other slots.
async fn has_all_slots(endpoint: &Rc<Endpoint>, limit: Duration) -> Result<Probed, EngineError> {
    let answers = RefCell::new(Vec::new());
    let ask = |key: String| async {
        let key = key;
        let answer = call(endpoint, &["GET", &key], limit).await;
        answers.borrow_mut().push(answer);
    };
    // Boxed as in `quorum.rs`, so that the compiler reuses that code.
    let mut asked: FuturesUnordered<LocalBoxFuture<'_, ()>> =
        slot_counters().map(|key| ask(key).boxed_local()).collect();
    while asked.next().await.is_some() {}
    drop(asked);
    check_slots(answers.into_inner())
}

/// The answer to a command, within `limit`.
async fn call(endpoint: &Rc<Endpoint>, command: &[&str], limit: Duration) -> Result<Reply, Failure> {
    let endpoint = Rc::clone(endpoint);
    let words: Vec<_> = command.iter().map(|word| word.as_bytes().to_vec()).collect();
    let answer = timeout(limit, async move { endpoint.call(words).await }).await;
    answer.map_or(Err(Failure::TimedOut), codec::result)
}
