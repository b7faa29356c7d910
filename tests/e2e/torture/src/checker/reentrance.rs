//! The owner of a reentrant lock can take it again while it holds the lock: with the same fence, and at once.

use super::story::{Call, Lease, Story};
use super::{Rule, Verdict, ms};
use crate::history::Op;

/// How long a call without a round trip may take on a busy machine.
const AT_ONCE: u64 = 250_000;

pub(super) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    let leases: Vec<&Lease<'_>> = story.leases.iter().filter(|lease| lease.owner.is_some()).collect();
    for call in story.calls.iter().filter(|call| matches!(call.op, Op::Acquire | Op::Try)) {
        let (Some(owner), Some(end)) = (call.owner, call.ended) else { continue };
        let is_own = |lease: &&&Lease<'_>| (lease.by, lease.owner, lease.name) == (call.by, Some(owner), call.name);
        let Some(held) = leases.iter().filter(is_own).find(|lease| is_held_during(lease, call.began, end)) else {
            continue;
        };
        verdict.figures.entered_again += u64::from(call.granted);
        let again = leases.iter().filter(is_own).find(|lease| call.granted && lease.from == end);
        if let Some((rule, problem)) = problem(story, call, end, held, again.copied()) {
            let text =
                format!("{} held `{}`, and call {} of this owner {problem}", held.shown(), call.name, call.number);
            verdict.violated(rule, end, call.name, text);
        }
    }
}

/// Whether the owner surely held the lock when it made the call, and until the call had ended. A loss may be noticed a
/// little later than it happens.
fn is_held_during(lease: &Lease<'_>, began: u64, end: u64) -> bool {
    lease.from < began && lease.until() > if lease.lost.is_some() { end + AT_ONCE } else { end }
}

fn problem(
    story: &Story<'_>,
    call: &Call<'_>,
    end: u64,
    held: &Lease<'_>,
    again: Option<&Lease<'_>>,
) -> Option<(Rule, String)> {
    if call.outcome == Some("busy") {
        return Some((Rule::Reentrance, "was refused".to_owned()));
    }
    if let Some(again) = again.filter(|again| again.fence != held.fence) {
        return Some((Rule::Reentrance, format!("returned another fence, {}", again.fence)));
    }
    let took = end - call.began;
    (took > AT_ONCE + story.stalled(call.by, call.began, end)).then(|| (Rule::Bounds, format!("took {}", ms(took))))
}
