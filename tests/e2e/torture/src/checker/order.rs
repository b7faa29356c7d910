//! First come, first served: the server's log shows the order between clients, the calls show it inside a client.

use std::collections::HashMap;

use super::story::{Call, Fault, Lease, Story};
use super::{Rule, Verdict, ms};
use crate::history::{Entry, Op, Share, names};

/// Within this time, the order of two calls of one process is uncertain.
const SURE: u64 = 5_000;
/// How far the clocks of the server's log and scripts may differ, in milliseconds.
const SURE_MS: u64 = 5;
/// How late the log may be read.
const AFTER: u64 = 100_000;

pub(super) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    between_clients(story, verdict);
    inside_clients(story, verdict);
}

/// A waiter in a server's queue.
#[derive(Default)]
struct Waiter {
    /// None if it joined before the log began again.
    score: Option<u64>,
    /// By the server's clock.
    alive_until: u64,
    left: bool,
}

/// The waiters of each name at each server, by token.
type Queues<'a> = HashMap<(&'a str, &'a str), HashMap<&'a str, Waiter>>;

fn between_clients(story: &Story<'_>, verdict: &mut Verdict) {
    // A fault that loses or moves a queue begins a new order. Log entries during the fault don't count.
    let breaks: Vec<&Fault<'_>> = story.faults.iter().filter(|fault| breaks_queues(fault)).collect();
    let mut next = breaks.iter().peekable();
    let mut quiet_until = 0;
    let mut queues = Queues::new();
    for (at, server, entry) in &story.server {
        while let Some(fault) = next.next_if(|fault| fault.begin <= *at) {
            quiet_until = quiet_until.max(fault.end + AFTER);
            queues.clear();
        }
        if *at <= quiet_until {
            queues.clear();
            continue;
        }
        match entry {
            Entry::Joined { name, token, score } => {
                let waiter = queues.entry((server, name)).or_default().entry(token).or_default();
                (waiter.score, waiter.left) = (Some(*score), false);
            }
            Entry::Alive { name, token, until } => {
                queues.entry((server, name)).or_default().entry(token).or_default().alive_until = *until;
            }
            Entry::Left { name, token } => {
                queues.entry((server, name)).or_default().entry(token).or_default().left = true;
            }
            Entry::Admitted { name, token, exclusive, clock, permits } => {
                let queue = queues.entry((server, name)).or_default();
                let score = match queue.remove(token.as_str()) {
                    Some(waiter) if waiter.score.is_none() => continue,
                    waiter => waiter.and_then(|waiter| waiter.score),
                };
                // Permits that are renewed don't look like this.
                let is_new = *exclusive || permits.is_some();
                let rule = if story.limits.contains_key(name.as_str()) { Rule::Limits } else { Rule::ServerOrder };
                admitted(*at, (name, token), score, is_new, (*clock, rule), queue, verdict);
            }
            Entry::Stored { .. }
            | Entry::Counts { .. }
            | Entry::Freed { .. }
            | Entry::Labelled { .. }
            | Entry::Read { .. } => {}
            Entry::Forgot => queues.retain(|(of, _), _| of != server),
        }
    }
}

fn breaks_queues(fault: &Fault<'_>) -> bool {
    fault.loses_data() || matches!(fault.kind, "restart" | "move-slot" | "shard-failover" | "member-down")
}

/// No earlier waiter that is alive may still be in the queue. A token without a score did not wait.
fn admitted(
    at: u64,
    (name, token): (&str, &str),
    score: Option<u64>,
    is_new: bool,
    (clock, rule): (u64, Rule),
    queue: &mut HashMap<&str, Waiter>,
    verdict: &mut Verdict,
) {
    // A reader without a place in the queue may be a renewal.
    if score.is_none() && !is_new {
        return;
    }
    verdict.figures.queue_grants += u64::from(score.is_some());
    let waits = |waiter: &Waiter| !waiter.left && waiter.alive_until > clock + SURE_MS;
    let ahead = |waiter: &Waiter| waiter.score.is_some_and(|place| score.is_none_or(|own| place < own));
    let overtaken = queue.iter().filter(|(_, waiter)| waits(waiter) && ahead(waiter)).map(|(token, _)| *token).min();
    if let Some(overtaken) = overtaken {
        let how = if score.is_some() { "which came later" } else { "which did not wait" };
        let text = format!("`{name}` was granted to {token}, {how}, while {overtaken} waited");
        verdict.violated(rule, at, name, text);
    }
    queue.retain(|_, waiter| !waiter.left);
}

/// Callers of one process that wait for one name. Readers don't wait for each other, and permits are separate leases. A
/// call for several names waits for one after the other, so calls for one of them may come first. In a quorum, the
/// readers and the writers of a client have places of their own: see docs/topologies.md.
fn inside_clients(story: &Story<'_>, verdict: &mut Verdict) {
    let mut waiting: HashMap<(&str, &str), Vec<&Call<'_>>> = HashMap::new();
    // Only the processes of a quorum tell their ids.
    let quorum = !story.ids.is_empty();
    for call in &story.calls {
        let share = call.share.unwrap_or(Share::Shared);
        let several = names(call.name).nth(1).is_some();
        if call.op != Op::Acquire || several || matches!(share, Share::Permits { .. }) {
            continue;
        }
        let others = waiting.entry((call.by, call.name)).or_default();
        others.retain(|earlier| earlier.ended.is_none_or(|end| end > call.began));
        if call.granted {
            let granted = call.ended.unwrap_or(story.end);
            let overtaken = others.iter().find(|earlier| {
                let excludes = earlier.share.is_some_and(|other| other.excludes(share));
                let came_earlier = earlier.began + SURE < call.began;
                let may_pass = quorum && earlier.share != Some(share);
                excludes
                    && !may_pass
                    && came_earlier
                    && earlier.ended.is_some_and(|end| end > granted + SURE)
                    && earlier.granted
            });
            if let Some(earlier) = overtaken.filter(|_| !enters_again(story, call, granted)) {
                let by = ms(earlier.ended.unwrap_or(story.end) - granted);
                let text = format!(
                    "{}: call {} for `{}` was granted {by} before call {}, which came first",
                    call.by, call.number, call.name, earlier.number
                );
                verdict.violated(Rule::LocalOrder, granted, call.name, text);
            }
        }
        others.push(call);
    }
}

/// An owner that holds a reentrant lock need not wait for it. Its calls that waited are served together.
fn enters_again(story: &Story<'_>, call: &Call<'_>, granted: u64) -> bool {
    let of_owner = |lease: &&Lease<'_>| {
        call.owner.is_some() && (lease.by, lease.owner, lease.name) == (call.by, call.owner, call.name)
    };
    // The call's own lease is one of them.
    let held = |lease: &&Lease<'_>| lease.from <= granted + SURE && lease.until() + SURE >= granted;
    story.leases.iter().filter(of_owner).filter(held).count() > 1
}
