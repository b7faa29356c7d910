//! Elections: observers never go back, a leader that died is followed in time, and nobody leads in a long outage.

use std::collections::{BTreeMap, HashMap};

use super::story::{Fault, Lease, Story};
use super::{Rule, Verdict, ms};
use crate::worker::{CLAIM_WINDOW, RESPONSE_TIMEOUT};

/// What a takeover may need beyond the TTL.
const MORE: u64 = 1_000_000;
/// What each dead candidate that is ahead may cost.
const AHEAD: u64 = CLAIM_WINDOW.as_micros() as u64;
/// After a fault of the server, clients ask again when their last command has timed out, and a lease that was about to be
/// renewed may be lost.
const TROUBLE: u64 = RESPONSE_TIMEOUT.as_micros() as u64 + 1_000_000;

pub(super) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    outages(story, verdict);
    observers(story, verdict);
    let elections: BTreeMap<&str, ()> = story.observed.iter().map(|observed| (observed.name, ())).collect();
    for (name, terms) in story.by_name() {
        if elections.contains_key(name) {
            takeovers(story, name, &terms, verdict);
        }
    }
}

/// While a server is down, it confirms nothing. So after a TTL, every lease is over in its holder's view.
fn outages(story: &Story<'_>, verdict: &mut Verdict) {
    for (from, to) in &story.down {
        for lease in story.leases.iter().filter(|lease| lease.was_held()) {
            let last = from + lease.ttl;
            if lease.from < *to && lease.until() > last && last < *to {
                let late = ms(lease.until().min(*to) - last);
                let text =
                    format!("{} held `{}` for {late} longer than its TTL in an outage", lease.shown(), lease.name);
                verdict.violated(Rule::Outage, last, lease.name, text);
            }
        }
    }
}

/// The terms that an observer learns have greater and greater fences, and a term that was over doesn't come back. A term has
/// one value, which is that of its leader.
fn observers(story: &Story<'_>, verdict: &mut Verdict) {
    let mut known: HashMap<(&str, &str), (u64, bool)> = HashMap::new();
    let mut values: HashMap<(&str, u64), &str> = HashMap::new();
    let mut leaders: HashMap<&str, &str> = HashMap::new();
    for observed in &story.observed {
        verdict.figures.observed += 1;
        let last = known.entry((observed.by, observed.name)).or_default();
        let Some(fence) = observed.fence else {
            last.1 = true;
            continue;
        };
        if (fence, false) <= *last {
            let over = if last.1 { ", which was over" } else { "" };
            let text = format!("{} went back from the term {}{over} to {fence}", observed.by, last.0);
            verdict.violated(Rule::Observers, observed.at, observed.name, text);
        }
        *last = (fence, false);
        let value = *values.entry((observed.name, fence)).or_insert(observed.value);
        if value != observed.value {
            let text = format!("the term {fence} has the values `{value}` and `{}`", observed.value);
            verdict.violated(Rule::Observers, observed.at, observed.name, text);
        }
    }
    for term in &story.leases {
        let Some(value) = values.get(&(term.name, term.fence)) else { continue };
        let own = *leaders.entry(term.by).or_insert(value);
        if own != *value {
            let text = format!("{} leads with the value `{own}`, and observers learned `{value}`", term.shown());
            verdict.violated(Rule::Observers, term.from, term.name, text);
        }
    }
}

/// The terms come in order.
fn takeovers(story: &Story<'_>, name: &str, terms: &[&Lease<'_>], verdict: &mut Verdict) {
    for (term, next) in terms.iter().zip(terms.iter().skip(1)) {
        verdict.figures.takeovers += u64::from(term.by != next.by);
        let Some(fault) = story.faults.iter().find(|fault| ended(fault, term)) else { continue };
        let disturbed = |other: &Fault<'_>| {
            other.strikes_servers() && other.begin <= next.from && other.end + TROUBLE >= fault.begin
        };
        if story.faults.iter().any(disturbed) {
            continue;
        }
        let took = next.from.saturating_sub(fault.begin);
        let (count, longest) = verdict.figures.followed.entry(fault.kind.to_owned()).or_default();
        *count += 1;
        *longest = took.max(*longest);
        let is_ahead = |other: &&Fault<'_>| {
            let strikes_candidate = other.number != fault.number && !other.strikes_servers();
            strikes_candidate && other.begin < next.from && other.end + AHEAD > fault.begin
        };
        let dead = story.faults.iter().filter(is_ahead).count().max(1) as u64;
        // The time in which a candidate could not run is not the election's.
        let starved = story.starved(fault.begin, next.from);
        if took > term.ttl + MORE + AHEAD * dead + starved {
            let (took, kind) = (ms(took), fault.kind);
            let text = format!("after a {kind} of {}, nobody led `{name}` for {took}", term.shown());
            verdict.violated(Rule::Takeover, next.from, name, text);
        }
    }
}

/// Whether this fault of its process ended the term. A pause that is shorter than what is left of the term doesn't.
fn ended(fault: &Fault<'_>, term: &Lease<'_>) -> bool {
    let during = fault.target == term.by && term.from < fault.begin && fault.begin < term.until();
    during && (matches!(fault.kind, "kill" | "terminate") || term.until() <= fault.end)
}
