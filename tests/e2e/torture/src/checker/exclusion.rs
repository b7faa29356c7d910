//! At most one valid exclusive lease, no writer beside readers, and no more permits than the limit.

use super::story::{Lease, Story};
use super::{Rule, Verdict, ms};
use crate::history::Share;
use crate::worker::LONGEST_TTL;

pub(super) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    for (name, leases) in story.by_name() {
        let mut valid: Vec<&Lease<'_>> = Vec::new();
        for lease in leases {
            valid.retain(|other| other.until() > lease.from);
            match lease.share {
                Share::Permits { limit, .. } => permits(story, name, limit, &valid, lease, verdict),
                _ => pairs(story, name, &valid, lease, verdict),
            }
            valid.push(lease);
        }
    }
}

fn pairs(story: &Story<'_>, name: &str, valid: &[&Lease<'_>], later: &Lease<'_>, verdict: &mut Verdict) {
    for earlier in valid.iter().filter(|earlier| earlier.excludes(later)) {
        let end = earlier.until().min(later.until());
        if is_documented(story, earlier, later, end) {
            verdict.documented("a lock was held twice after its data was lost");
            continue;
        }
        let (both, earlier, later_is) = (ms(end - later.from), earlier.shown(), later.shown());
        let text = format!("`{name}` was held by {earlier} and by {later_is} for {both} at the same time");
        verdict.violated(Rule::MutualExclusion, later.from, name, text);
    }
}

fn permits(story: &Story<'_>, name: &str, limit: u32, valid: &[&Lease<'_>], later: &Lease<'_>, verdict: &mut Verdict) {
    let of = |lease: &Lease<'_>| if let Share::Permits { permits, .. } = lease.share { u64::from(permits) } else { 0 };
    let all = of(later) + valid.iter().map(|lease| of(lease)).sum::<u64>();
    if all <= u64::from(limit) {
        return;
    }
    let known =
        valid.iter().filter(|earlier| !is_documented(story, earlier, later, earlier.until().min(later.until())));
    let known = of(later) + known.map(|lease| of(lease)).sum::<u64>();
    if known <= u64::from(limit) {
        verdict.documented("a semaphore gave out too many permits after its data was lost");
        return;
    }
    let holders: Vec<String> = valid.iter().map(|lease| lease.shown()).collect();
    let text = format!("`{name}` gave out {all} of {limit} permits: {} beside {}", later.shown(), holders.join(", "));
    verdict.violated(Rule::MutualExclusion, later.from, name, text);
}

/// A lease from before a loss may overlap with a lease from after the beginning of the loss. The holder of the first
/// one asks the server at its next renewal, and a fixed lease ends by itself. So no overlap outlasts the loss by more
/// than one TTL. After a hand-over inside a client, this can be the TTL of another caller.
fn is_documented(story: &Story<'_>, earlier: &Lease<'_>, later: &Lease<'_>, end: u64) -> bool {
    let longest = LONGEST_TTL.as_micros() as u64;
    story.faults.iter().filter(|fault| fault.loses(later.name)).any(|loss| {
        let explains = |old: &Lease<'_>, new: &Lease<'_>| story.is_from_before(old, loss) && new.from >= loss.begin;
        end <= loss.end + longest && (explains(earlier, later) || explains(later, earlier))
    })
}
