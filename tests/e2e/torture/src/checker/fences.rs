//! The fence of a lease is greater than the fences of all earlier leases that it excludes.

use super::story::{Lease, Story};
use super::{Rule, Verdict};
use crate::history::Share;

/// If a wipe follows a grant within this time, the fence of the grant can be above the next one: see "Fencing tokens".
const SHORTLY: u64 = 50_000;

pub(super) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    for (name, leases) in story.by_name() {
        if leases.iter().any(|lease| matches!(lease.share, Share::Permits { .. })) {
            // Leases of a semaphore don't exclude each other.
            continue;
        }
        let mut by_end = leases.clone();
        by_end.sort_by_key(|lease| lease.until());
        let mut ended = by_end.iter().peekable();
        let (mut greatest, mut greatest_exclusive) = (0, 0);
        for lease in &leases {
            while let Some(earlier) = ended.next_if(|earlier| earlier.until() <= lease.from) {
                greatest = earlier.fence.max(greatest);
                if earlier.share == Share::Exclusive {
                    greatest_exclusive = earlier.fence.max(greatest_exclusive);
                }
            }
            let bound = if lease.share == Share::Exclusive { greatest } else { greatest_exclusive };
            if lease.fence <= bound {
                explain(story, name, &by_end, lease, verdict);
            }
        }
    }
}

/// Finds the earlier leases whose fences are not smaller.
fn explain(story: &Story<'_>, name: &str, by_end: &[&Lease<'_>], later: &Lease<'_>, verdict: &mut Verdict) {
    let earlier = by_end.iter().take_while(|earlier| earlier.until() <= later.from);
    let above = earlier.filter(|earlier| earlier.excludes(later) && earlier.fence >= later.fence);
    let (documented, broken): (Vec<&Lease<'_>>, Vec<_>) =
        above.partition(|earlier| is_documented(story, name, earlier, later));
    if let Some(earlier) = broken.first() {
        let text = format!("`{name}` was held by {}, and later by {}", earlier.shown(), later.shown());
        verdict.violated(Rule::FenceOrder, later.from, name, text);
    } else if !documented.is_empty() {
        verdict.documented("a fence fell after its data was lost");
    }
}

/// After a loss, a fence can fall in two cases only: a holder that does not know of the loss keeps its old lease or hands it
/// over inside its client, or the loss is within a millisecond of a grant.
fn is_documented(story: &Story<'_>, name: &str, earlier: &Lease<'_>, later: &Lease<'_>) -> bool {
    story.faults.iter().filter(|fault| fault.loses(name)).any(|loss| {
        let in_time = later.from >= loss.begin && later.from <= loss.end + later.ttl;
        let unaware = in_time && story.is_from_before(later, loss);
        let at_once = later.from >= loss.begin && earlier.from <= loss.end && earlier.from + SHORTLY >= loss.begin;
        unaware || at_once
    })
}
