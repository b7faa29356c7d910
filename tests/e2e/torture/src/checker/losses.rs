//! The holder is notified of a loss before its lease expires, and of a wipe by its next renewal.

use super::story::{Fault, Lease, Story};
use super::{Rule, Verdict, ms};
use crate::worker::{RESPONSE_TIMEOUT, TICK_LATE};

/// The greatest margin between the deadline of the holder and the end of the lease.
const MARGIN: u64 = 50_000;
/// A wipe counts as the only fault if no other fault happened for this long before it.
const CALM: u64 = 1_000_000;

pub(super) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    for lease in story.leases.iter().filter(|lease| lease.was_held()) {
        in_time(story, lease, verdict);
        for wipe in story.faults.iter().filter(|fault| fault.kind == "wipe" && fault.loses(lease.name)) {
            after_wipe(story, lease, wipe, verdict);
        }
    }
}

/// `remaining` and the notification have the same deadline: 5 % of the TTL, and at most 50 ms, before the lease ends. A
/// process that could not run can't be notified.
fn in_time(story: &Story<'_>, lease: &Lease<'_>, verdict: &mut Verdict) {
    let deadline = lease.valid_until + MARGIN.min(lease.ttl / 20);
    if lease.released.is_some_and(|released| released <= deadline) {
        return;
    }
    // A process that could not run may release a lease that it has not noticed to be over.
    let told = lease.lost.into_iter().chain(lease.released).min().unwrap_or(story.end);
    let allowed = deadline + story.stalled(lease.by, lease.valid_until.saturating_sub(MARGIN), told) + TICK_LATE;
    // A process that is no longer there needs no notification.
    if told <= allowed || !story.lives(lease.by, allowed) {
        return;
    }
    let when = match lease.lost {
        Some(lost) => format!("only {} after the lease had expired", ms(lost - deadline)),
        None => "never".to_owned(),
    };
    let text = format!("{} held `{}`, and was notified of the loss {when}", lease.shown(), lease.name);
    verdict.violated(Rule::LossInTime, deadline, lease.name, text);
}

/// A client renews a lease at a third of its TTL. If no other fault prevents it, the answer reports the loss.
fn after_wipe(story: &Story<'_>, lease: &Lease<'_>, wipe: &Fault<'_>, verdict: &mut Verdict) {
    if !lease.renewed || lease.from >= wipe.begin || lease.until() <= wipe.end {
        return;
    }
    let plain = wipe.end + lease.ttl / 3 + RESPONSE_TIMEOUT.as_micros() as u64;
    let limit = plain + story.stalled(lease.by, wipe.begin, lease.until());
    let disturbed = |fault: &Fault<'_>| {
        let overlaps = fault.begin <= limit && fault.end + CALM >= wipe.begin;
        fault.number != wipe.number && overlaps && fault.concerns(lease.by)
    };
    if story.faults.iter().any(disturbed) || !story.lives(lease.by, limit) {
        return;
    }
    verdict.figures.wiped += 1;
    if lease.until() <= limit {
        return;
    }
    let late = ms(lease.until() - plain);
    let text = format!("{} believed in `{}` for {late} too long after a wipe", lease.shown(), lease.name);
    verdict.violated(Rule::LossAfterWipe, lease.until(), lease.name, text);
}
