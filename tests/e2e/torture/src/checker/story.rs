//! A history as leases, calls, faults and processes.

use std::collections::{BTreeMap, HashMap};

use super::{Rule, Verdict};
use crate::history::{Entry, Event, Op, Share, What, names};

/// Fences run ahead of the server's clock by no more than this, in microseconds.
const AHEAD: u64 = 3_073;

/// A lease of one name, as its holder saw it. A lease of several names is one for each. A conversion ends a lease and
/// begins another one.
#[derive(Debug)]
pub(super) struct Lease<'a> {
    pub(super) by: &'a str,
    pub(super) name: &'a str,
    pub(super) share: Share,
    /// Who holds a reentrant lock.
    pub(super) owner: Option<u64>,
    pub(super) fence: u64,
    /// In microseconds.
    pub(super) ttl: u64,
    pub(super) renewed: bool,
    /// When the call began that returned it.
    pub(super) asked: u64,
    /// When the acquire returned. A writer that becomes a reader is one from the beginning of that call.
    pub(super) from: u64,
    /// The end of its validity, at the last look.
    pub(super) valid_until: u64,
    /// When the holder was notified of a loss.
    pub(super) lost: Option<u64>,
    /// When the holder began to release it, or to close its manager, or when a conversion ended it.
    pub(super) released: Option<u64>,
}

impl Lease<'_> {
    /// When the lease ended in its holder's view.
    pub(super) fn until(&self) -> u64 {
        [self.lost, self.released].into_iter().flatten().fold(self.valid_until, u64::min)
    }

    /// Whether the holder ever held it in its own view. After a pause, an acquire can return a lease that has ended.
    pub(super) fn was_held(&self) -> bool {
        self.from < self.until()
    }

    /// Whether two leases of one name can't be valid together. An owner may take a reentrant lock again.
    pub(super) fn excludes(&self, other: &Self) -> bool {
        self.share.excludes(other.share) && !self.has_owner_of(other)
    }

    /// Whether both leases of a reentrant lock have one owner.
    pub(super) fn has_owner_of(&self, other: &Self) -> bool {
        self.owner.is_some() && (self.by, self.owner) == (other.by, other.owner)
    }

    /// Text for people.
    pub(super) fn shown(&self) -> String {
        let owner = self.owner.map(|owner| format!(" owner {owner}")).unwrap_or_default();
        format!("{}{owner} ({}, fence {})", self.by, self.share, self.fence)
    }
}

/// A call of a worker.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) by: &'a str,
    pub(super) number: u64,
    pub(super) op: Op,
    pub(super) name: &'a str,
    pub(super) share: Option<Share>,
    pub(super) owner: Option<u64>,
    lease: Option<u64>,
    pub(super) began: u64,
    /// Its documented time, in microseconds.
    pub(super) within: u64,
    pub(super) ended: Option<u64>,
    /// How it ended, if it was not granted.
    pub(super) outcome: Option<&'a str>,
    pub(super) granted: bool,
}

/// The leases of a process, by its number for them. Several names are several leases.
type Numbered<'a> = HashMap<(&'a str, u64), Vec<usize>>;

/// A fault.
#[derive(Debug)]
pub(super) struct Fault<'a> {
    pub(super) number: u64,
    pub(super) kind: &'a str,
    pub(super) target: &'a str,
    pub(super) begin: u64,
    pub(super) end: u64,
    lost: &'a [String],
    /// The time of day at its end. Servers draw fences from this clock.
    day: u64,
}

impl Fault<'_> {
    /// Whether this lock's data may be lost.
    pub(super) fn loses(&self, name: &str) -> bool {
        self.lost.iter().any(|lost| lost == name || lost == "*")
    }

    /// Whether it can affect this process. A fault of one client doesn't affect the others.
    pub(super) fn concerns(&self, process: &str) -> bool {
        self.strikes_servers() || self.target == process
    }

    /// Whether servers or connections may be silent because of it.
    pub(super) fn strikes_servers(&self) -> bool {
        let strikes_client = matches!(self.kind, "kill" | "pause" | "leave" | "terminate" | "block");
        !strikes_client && !self.kind.starts_with("crash-")
    }

    /// Whether anything may be lost.
    pub(super) fn loses_data(&self) -> bool {
        !self.lost.is_empty()
    }
}

/// What an observer of an election has learned.
#[derive(Debug)]
pub(super) struct Observed<'a> {
    pub(super) at: u64,
    pub(super) by: &'a str,
    pub(super) name: &'a str,
    pub(super) fence: Option<u64>,
    pub(super) value: &'a str,
}

/// A history, sorted into its parts.
#[derive(Debug, Default)]
pub(super) struct Story<'a> {
    pub(super) leases: Vec<Lease<'a>>,
    pub(super) calls: Vec<Call<'a>>,
    pub(super) faults: Vec<Fault<'a>>,
    /// The calls that stored a result or got one, and the result.
    pub(super) wrote: Vec<(usize, &'a str)>,
    pub(super) answers: Vec<(usize, &'a str)>,
    pub(super) observed: Vec<Observed<'a>>,
    /// When a server was down.
    pub(super) down: Vec<(u64, u64)>,
    /// The time, the server, and its log entry.
    pub(super) server: Vec<(u64, &'a str, &'a Entry)>,
    /// The semaphores of the run: the name, the limit, and for a rate in milliseconds how long a permit counts.
    pub(super) limits: HashMap<&'a str, (u32, Option<u64>)>,
    /// What a script has read: when, by the server's clock in milliseconds, and how many permits of each semaphore count.
    pub(super) counts: HashMap<u64, (u64, &'a BTreeMap<String, u64>)>,
    /// How the tokens of a process begin.
    pub(super) ids: HashMap<&'a str, &'a str>,
    /// When a process ended, or was about to be killed.
    ended: HashMap<&'a str, u64>,
    killed: HashMap<&'a str, u64>,
    stalls: HashMap<&'a str, Vec<(u64, u64)>>,
    /// The time of the last event.
    pub(super) end: u64,
}

impl<'a> Story<'a> {
    /// Sorts a history into its parts. An inconsistent record is a violation.
    pub(super) fn of(history: &'a [Event], verdict: &mut Verdict) -> Self {
        let mut story = Self { end: history.last().map_or(0, |event| event.at), ..Self::default() };
        let mut calls = HashMap::new();
        let mut leases = Numbered::new();
        let mut faults = HashMap::new();
        let mut last_grant = None;
        for Event { at, by, what } in history {
            let (at, by) = (*at, by.as_str());
            match what {
                What::Began { call, op, name, share, owner, lease, within } => {
                    calls.insert((by, *call), story.calls.len());
                    let (share, lease, within) = (*share, *lease, within * 1_000);
                    let call = Call {
                        by,
                        number: *call,
                        op: *op,
                        name,
                        share,
                        owner: *owner,
                        lease,
                        began: at,
                        within,
                        ended: None,
                        outcome: None,
                        granted: false,
                    };
                    story.begin(&call, &leases);
                    story.calls.push(call);
                }
                What::Granted { call, lease, .. } => {
                    let known = calls.get(&(by, *call)).and_then(|place| story.calls.get_mut(*place));
                    let Some(granted) = known.filter(|call| call.share.is_some()) else {
                        let text = format!("{by} was granted a lease by the unknown call {call}");
                        verdict.violated(Rule::Processes, at, "", text);
                        continue;
                    };
                    (granted.ended, granted.granted) = (Some(at), true);
                    let (op, old) = (granted.op, granted.lease);
                    let parts = parts(granted, at, what, &story.limits, verdict);
                    if let (Op::Upgrade, Some(old)) = (op, old) {
                        story.of_number(&leases, by, old, |old| {
                            old.valid_until = old.valid_until.max(at);
                            old.released.get_or_insert(at);
                        });
                    }
                    leases.insert((by, *lease), (story.leases.len()..).take(parts.len()).collect());
                    verdict.figures.leases += 1;
                    verdict.figures.conversions += u64::from(matches!(op, Op::Downgrade | Op::Upgrade));
                    verdict.figures.several += u64::from(parts.len() > 1);
                    story.leases.extend(parts);
                    let stall = at - last_grant.replace(at).unwrap_or(at);
                    verdict.figures.longest_stall = verdict.figures.longest_stall.max(stall);
                }
                What::Ended { call, outcome } => {
                    if let Some(call) = calls.get(&(by, *call)).and_then(|place| story.calls.get_mut(*place)) {
                        (call.ended, call.outcome) = (Some(at), Some(outcome.as_str()));
                    }
                }
                What::Wrote { call, value } => {
                    story.wrote.extend(calls.get(&(by, *call)).map(|place| (*place, value.as_str())));
                }
                What::Answered { call, value } => {
                    let place = calls.get(&(by, *call)).copied();
                    if let Some(call) = place.and_then(|place| story.calls.get_mut(place)) {
                        call.ended = Some(at);
                    }
                    story.answers.extend(place.map(|place| (place, value.as_str())));
                }
                What::Observed { name, fence, value } => {
                    story.observed.push(Observed { at, by, name, fence: *fence, value });
                }
                What::Down { from } => story.down.push((*from, at)),
                What::Unsettled { problem } => verdict.violated(Rule::Settled, at, "", problem.clone()),
                What::Held { lease, left } => {
                    story.of_number(&leases, by, *lease, |lease| lease.valid_until = lease.valid_until.max(at + left));
                }
                What::Lost { lease, reason } => {
                    *verdict.figures.losses.entry(reason.clone()).or_default() += 1;
                    story.of_number(&leases, by, *lease, |lease| {
                        lease.lost.get_or_insert(at);
                    });
                }
                What::Limit { name, limit, per } => {
                    story.limits.insert(name, (*limit, *per));
                }
                What::Counted { number, clock, permits } => {
                    story.counts.insert(*number, (*clock, permits));
                }
                What::Silent { from } => {
                    let seen = &mut verdict.figures.limits.silent;
                    *seen = (seen.0 + 1, seen.1.max(at - from));
                    let (number, begin) = (u64::MAX, *from);
                    let silence = Fault { number, kind: "silence", target: by, begin, end: at, lost: &[], day: 0 };
                    story.faults.push(silence);
                }
                What::Client { id } => {
                    story.ids.insert(by, id);
                }
                What::Stalled { from } => story.stalls.entry(by).or_default().push((*from, at)),
                What::Killed { process } => {
                    story.killed.insert(process, at);
                }
                What::Exited { process, expected } => {
                    story.ended.insert(process, at);
                    if !expected {
                        let text = format!("{process} ended by itself; its standard error is beside the history");
                        verdict.violated(Rule::Processes, at, "", text);
                    }
                }
                What::FaultBegan { number, fault, target } => {
                    *verdict.figures.faults.entry(fault.clone()).or_default() += 1;
                    faults.insert(*number, story.faults.len());
                    let (number, kind, end) = (*number, fault.as_str(), story.end);
                    story.faults.push(Fault { number, kind, target, begin: at, end, lost: &[], day: 0 });
                }
                What::FaultEnded { number, lost, day } => {
                    if let Some(fault) = faults.get(number).and_then(|place| story.faults.get_mut(*place)) {
                        (fault.end, fault.lost, fault.day) = (at, lost, *day);
                    }
                }
                What::Server { entry } => story.server.push((at, by, entry)),
                What::Started { .. } | What::Asked { .. } => {}
            }
        }
        verdict.figures.operations = story.calls.iter().filter(|call| call.ended.is_some()).count() as u64;
        story
    }

    /// A lease ends when its release or its manager's close begins. A writer that becomes a reader is no writer from then
    /// on.
    fn begin(&mut self, call: &Call<'a>, leases: &Numbered<'a>) {
        match (call.op, call.lease) {
            (Op::Release | Op::Store | Op::Downgrade, Some(lease)) => {
                self.of_number(leases, call.by, lease, |lease| {
                    lease.released.get_or_insert(call.began);
                });
            }
            (Op::Close, _) => {
                for lease in self.leases.iter_mut().filter(|lease| lease.by == call.by) {
                    lease.released.get_or_insert(call.began);
                }
            }
            _ => {}
        }
    }

    fn of_number(&mut self, leases: &Numbered<'a>, by: &str, number: u64, mut change: impl FnMut(&mut Lease<'a>)) {
        for place in leases.get(&(by, number)).into_iter().flatten() {
            if let Some(lease) = self.leases.get_mut(*place) {
                change(lease);
            }
        }
    }

    /// The leases of each name that were held, in the order in which they began.
    pub(super) fn by_name(&self) -> Vec<(&'a str, Vec<&Lease<'a>>)> {
        let mut names: HashMap<&str, Vec<&Lease<'a>>> = HashMap::new();
        for lease in self.leases.iter().filter(|lease| lease.was_held()) {
            names.entry(lease.name).or_default().push(lease);
        }
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_by_key(|(name, _)| *name);
        names.iter_mut().for_each(|(_, leases)| leases.sort_by_key(|lease| lease.from));
        names
    }

    /// Whether the lease may be from before a loss, so that its holder doesn't know of the loss. Its call had returned before,
    /// or the server had granted it before: to this call, or to the client, which handed it over to another of its callers.
    /// The fence shows this, because the server draws it from its clock.
    pub(super) fn is_from_before(&self, lease: &Lease<'_>, loss: &Fault<'_>) -> bool {
        let had_it = |old: &Lease<'_>| old.by == lease.by && old.name == lease.name && old.from <= loss.end;
        let was_granted = || lease.asked <= loss.end || self.leases.iter().any(had_it);
        lease.from <= loss.end || lease.fence <= loss.day + AHEAD && was_granted()
    }

    /// When a process could not run. The times are in order and don't overlap.
    pub(super) fn stalls(&self, by: &str) -> &[(u64, u64)] {
        self.stalls.get(by).map_or(&[], Vec::as_slice)
    }

    /// For how long a process could not run in this time.
    pub(super) fn stalled(&self, by: &str, from: u64, to: u64) -> u64 {
        let stalls = self.stalls(by);
        let first = stalls.partition_point(|(_, end)| *end <= from);
        let rest = stalls.get(first..).unwrap_or_default();
        rest.iter().take_while(|(begin, _)| *begin < to).map(|(begin, end)| end.min(&to) - begin.max(&from)).sum()
    }

    /// For how long processes could not run in this time, all together, although no fault struck them.
    pub(super) fn starved(&self, from: u64, to: u64) -> u64 {
        let is_struck = |by: &str, (begin, end): (u64, u64)| {
            self.faults.iter().any(|fault| fault.target == by && fault.begin < end && begin < fault.end)
        };
        let stalls = self.stalls.iter().flat_map(|(by, stalls)| stalls.iter().map(move |stall| (*by, *stall)));
        let starved = stalls.filter(|(by, stall)| !is_struck(by, *stall));
        starved.map(|(_, (begin, end))| end.min(to).saturating_sub(begin.max(from))).sum()
    }

    /// Whether the process still ran at this time, and was not about to be killed.
    pub(super) fn lives(&self, by: &str, at: u64) -> bool {
        [&self.killed, &self.ended].iter().all(|ended| ended.get(by).is_none_or(|end| *end > at))
    }

    /// When a call ended, or its process.
    pub(super) fn end_of(&self, call: &Call<'_>) -> u64 {
        let process = [&self.killed, &self.ended].into_iter().filter_map(|ended| ended.get(call.by)).min();
        call.ended.unwrap_or(process.copied().unwrap_or(self.end))
    }

    /// When the harness was about to kill each process.
    pub(super) fn killed(&self) -> impl Iterator<Item = (&'a str, u64)> {
        self.killed.iter().map(|(process, at)| (*process, *at))
    }

    /// Whether the process was killed.
    pub(super) fn was_killed(&self, by: &str) -> bool {
        self.killed.contains_key(by)
    }
}

/// The leases that a call has returned: one for each name.
fn parts<'a>(
    call: &Call<'a>,
    at: u64,
    granted: &What,
    limits: &HashMap<&str, (u32, Option<u64>)>,
    verdict: &mut Verdict,
) -> Vec<Lease<'a>> {
    let What::Granted { fence, fences, ttl, renewed, left, .. } = granted else { return Vec::new() };
    let Some(share) = call.share else { return Vec::new() };
    let all: Vec<&str> = names(call.name).collect();
    let fences = if all.len() == 1 { std::slice::from_ref(fence) } else { fences.as_slice() };
    if fences.len() != all.len() {
        let text = format!("{}: call {} returned {} fences for `{}`", call.by, call.number, fences.len(), call.name);
        verdict.violated(Rule::AllOrNone, at, call.name, text);
    }
    let from = if call.op == Op::Downgrade { call.began } else { at };
    let share_of = |name: &str| match limits.get(name) {
        Some((limit, _)) if all.last() != Some(&name) => Share::Permits { permits: 1, limit: *limit },
        _ => share,
    };
    let part = |(name, fence): (&'a str, &u64)| Lease {
        by: call.by,
        name,
        share: share_of(name),
        owner: call.owner,
        fence: *fence,
        ttl: ttl * 1_000,
        renewed: *renewed,
        asked: call.began,
        from,
        valid_until: at + left,
        lost: None,
        released: None,
    };
    all.iter().copied().zip(fences).map(part).collect()
}
