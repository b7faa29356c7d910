//! A lock that nobody holds goes to a caller that waits for it: see "Bounded delays" in `docs/guarantees.md`. A lease that
//! its client has forgotten, such as one of several names after a failed call, would keep the lock for longer.

use super::story::{Call, Story};
use super::{Rule, Verdict, ms};
use crate::history::{Op, Share};
use crate::worker::{CLAIM_WINDOW, LONGEST_TTL, RESPONSE_TIMEOUT};

/// A holder that died before it knew of its lease delays the others by its TTL, and a dead waiter by one claim window.
const LONGEST: u64 = (LONGEST_TTL.as_micros() + CLAIM_WINDOW.as_micros()) as u64;
/// After a fault, clients ask again when their last command has timed out.
const TROUBLE: u64 = RESPONSE_TIMEOUT.as_micros() as u64;

/// Times, from their beginnings to their ends.
type Spans = Vec<(u64, u64)>;

pub(super) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    let faults = story.faults.iter().filter(|fault| fault.strikes_servers());
    let troubles = joined(faults.map(|fault| (fault.begin, fault.end + TROUBLE)).collect());
    for (name, leases) in story.by_name() {
        if leases.iter().any(|lease| matches!(lease.share, Share::Permits { .. })) {
            continue;
        }
        let waits = story.calls.iter().filter(|call| call.op == Op::Acquire && call.name == name);
        let waits = joined(waits.flat_map(|call| waited(story, call)).collect());
        let held = joined(leases.iter().map(|lease| (lease.from, lease.until())).collect());
        // The time between two leases, and the one after the last lease.
        let ends = held.iter().map(|(_, end)| *end);
        let begins = held.iter().skip(1).map(|(begin, _)| *begin).chain([story.end]);
        for free in ends.zip(begins) {
            let in_vain: Spans = waits.iter().map(|wait| (wait.0.max(free.0), wait.1.min(free.1))).collect();
            let waited =
                in_vain.into_iter().flat_map(|wait| without(wait, &troubles)).map(|(begin, end)| end - begin).sum();
            verdict.figures.longest_free = verdict.figures.longest_free.max(waited);
            if waited > LONGEST {
                let text = format!("callers waited for `{name}` for {} while nobody held it", ms(waited));
                verdict.violated(Rule::Progress, free.1, name, text);
            }
        }
    }
}

/// When a call waited and its process could run.
fn waited(story: &Story<'_>, call: &Call<'_>) -> Spans {
    without((call.began, story.end_of(call)), story.stalls(call.by))
}

/// What is left of a time without others, which are in order and don't overlap.
fn without((mut begin, end): (u64, u64), others: &[(u64, u64)]) -> Spans {
    let mut left = Vec::new();
    let first = others.partition_point(|other| other.1 <= begin);
    for other in others.iter().skip(first).take_while(|other| other.0 < end) {
        left.push((begin, other.0));
        begin = begin.max(other.1);
    }
    left.push((begin, end));
    left.retain(|(begin, end)| begin < end);
    left
}

/// Puts times in order, and joins those that overlap.
fn joined(mut spans: Spans) -> Spans {
    spans.sort_unstable();
    spans.dedup_by(|later, earlier| {
        let overlaps = later.0 <= earlier.1;
        if overlaps {
            earlier.1 = earlier.1.max(later.1);
        }
        overlaps
    });
    spans
}
