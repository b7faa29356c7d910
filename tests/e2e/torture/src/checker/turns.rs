//! The order in which a quorum's clients get a lock: see "Quorum" in `docs/topologies.md`. A client that finds the lock busy
//! waits in the queue of the first server, and asks the others when its turn comes.
//!
//! These clients may come earlier: one that has just come and has not joined the queue, one that has held the lock last and
//! hands it over inside, and the first one in the queue. While the first server or the client is in trouble, there is no
//! order.

use std::collections::HashMap;

use super::story::{Call, Lease, Story};
use super::{Rule, Verdict, ms};
use crate::history::{Entry, Op};
use crate::worker::CLAIM_WINDOW;

/// How far the times of a server's log and of a process may differ.
const SURE: u64 = 20_000;
/// How long a hand-over inside a client may take on a busy machine.
const AT_ONCE: u64 = 250_000;
/// After a fault, clients may ask all servers for this long.
const TROUBLE: u64 = 1_500_000;

/// A token in the queue of the first server.
struct Waiter<'a> {
    token: &'a str,
    score: u64,
    /// When it joined, and when it last showed that it is alive.
    joined: u64,
    alive: u64,
}

pub(super) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    // Only the processes of a quorum tell their ids.
    if story.ids.is_empty() {
        return;
    }
    let leases: HashMap<&str, Vec<&Lease<'_>>> = story.by_name().into_iter().collect();
    let mut granted: Vec<(u64, &Call<'_>)> = story.calls.iter().filter_map(|call| Some((call.ended?, call))).collect();
    granted.retain(|(_, call)| call.op == Op::Acquire && call.granted);
    granted.sort_by_key(|(at, _)| *at);
    let mut queues = HashMap::new();
    let mut log = story.server.iter().peekable();
    for (at, call) in granted {
        // The queue as it was shortly after the grant: a client that had its turn is no longer in it.
        while let Some((then, _, entry)) = log.next_if(|(then, ..)| *then <= at + SURE) {
            note(&mut queues, *then, entry);
        }
        let queue: &[Waiter<'_>] = queues.get(call.name).map_or(&[], Vec::as_slice);
        let own = |waiter: &&Waiter<'_>| story.ids.get(call.by).is_some_and(|id| waiter.token.starts_with(id));
        let Some(place) = queue.iter().find(own).filter(|place| place.joined + SURE < at) else { continue };
        let ahead = |waiter: &&Waiter<'_>| waiter.score < place.score && is_alive(waiter, at);
        let held = || leases.get(call.name).into_iter().flatten().filter(|lease| lease.from < at);
        let handed_over = held().next_back().is_some_and(|last| last.by == call.by && last.until() + AT_ONCE >= at);
        // Readers of one client share the lock.
        if handed_over || held().any(|lease| lease.by == call.by && lease.until() >= at) {
            continue;
        }
        let Some(overtaken) = queue.iter().find(ahead) else { continue };
        if in_trouble(story, call.by, at) {
            continue;
        }
        let text = format!(
            "{} waited for `{}` for {}, and got it before its turn, while {} waited ahead of it",
            call.by,
            call.name,
            ms(at - place.joined),
            overtaken.token
        );
        verdict.violated(Rule::Turns, at, call.name, text);
    }
}

fn note<'a>(queues: &mut HashMap<&'a str, Vec<Waiter<'a>>>, at: u64, entry: &'a Entry) {
    match entry {
        Entry::Joined { name, token, score } => {
            let queue = queues.entry(name).or_default();
            queue.retain(|waiter| waiter.token != token);
            queue.push(Waiter { token, score: *score, joined: at, alive: at });
        }
        Entry::Alive { name, token, .. } => {
            let queue = queues.entry(name).or_default();
            queue.iter_mut().filter(|waiter| waiter.token == token).for_each(|waiter| waiter.alive = at);
        }
        Entry::Left { name, token } | Entry::Admitted { name, token, .. } => {
            queues.entry(name).or_default().retain(|waiter| waiter.token != token);
        }
        Entry::Stored { .. }
        | Entry::Counts { .. }
        | Entry::Freed { .. }
        | Entry::Labelled { .. }
        | Entry::Read { .. } => {}
        Entry::Forgot => queues.clear(),
    }
}

/// Whether the server had heard of this waiter within its claim window.
fn is_alive(waiter: &Waiter<'_>, at: u64) -> bool {
    waiter.alive + CLAIM_WINDOW.as_micros() as u64 > at + SURE
}

/// Whether the first server may have been silent for this client.
fn in_trouble(story: &Story<'_>, by: &str, at: u64) -> bool {
    let from = at.saturating_sub(TROUBLE);
    let struck = story.faults.iter().any(|fault| fault.concerns(by) && fault.begin <= at && fault.end >= from);
    struck || story.stalled(by, from, at) > 0
}
