//! Semaphores by the server's own record: its log shows each permit that is granted, renewed or given back, and a script reads
//! now and then how many count. What the processes believe is judged elsewhere: see `exclusion.rs`.
//!
//! All times are those of the server's clock, so a slow machine breaks no rule here, except for [`Rule::GivenBack`].

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::story::Story;
use super::{Rule, Verdict, ms};
use crate::history::{Entry, Permits};
use crate::worker::{CLAIM_WINDOW, LONGEST_TTL};

/// How late the last command of a dead process may arrive at the server. Its permits count from then on.
const LATE: u64 = 250_000;
/// Kills and grants up to this long after a fault of a connection are not judged. It may hold commands back, or repeat them.
const CALM: u64 = 1_500_000;
/// How long a permit may be free while somebody waits for it: a waiter ahead may have died.
const LONGEST_FREE: u64 = (LONGEST_TTL.as_micros() + CLAIM_WINDOW.as_micros()) as u64;

/// What the server granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// By the name of the semaphore. Those whose names differ only in a number count together.
    pub used: BTreeMap<String, Used>,
    /// How many leases of a semaphore that is no rate a process had when it was killed in a calm time, and the longest time from
    /// the kill until one of them no longer counted, in microseconds.
    pub given_back: (u64, u64),
    /// How often a script read all counts, and the log gave the same ones.
    pub reads: u64,
    /// How often the server was silent although no fault struck it, and the longest time, in microseconds.
    pub silent: (u64, u64),
}

/// How far semaphores of one kind were used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// How many semaphores there are.
    pub names: u64,
    /// Their limit.
    pub limit: u64,
    /// How long a permit counts, if they are rates, in milliseconds.
    pub per: Option<u64>,
    /// The most permits that counted together.
    pub most: u64,
    /// How many grants there were.
    pub grants: u64,
    /// How many there were of the semaphore with the fewest.
    pub fewest: u64,
    /// The shortest time in which a rate granted more permits than its limit, in microseconds.
    pub closest: Option<u64>,
    /// The longest time for which enough permits were free in a calm time, until the first waiter got them, in microseconds.
    pub free: u64,
}

impl Used {
    /// Adds what another history shows of them, or another one of these semaphores.
    fn add(&mut self, other: &Self) {
        self.most = self.most.max(other.most);
        self.grants += other.grants;
        self.fewest = self.fewest.min(other.fewest);
        self.closest = self.closest.into_iter().chain(other.closest).min();
        self.free = self.free.max(other.free);
    }
}

impl Seen {
    /// Adds what another history shows.
    pub fn add(&mut self, other: &Self) {
        for (name, used) in &other.used {
            self.used.entry(name.clone()).and_modify(|all| all.add(used)).or_insert(*used);
        }
        self.given_back.0 += other.given_back.0;
        self.given_back.1 = self.given_back.1.max(other.given_back.1);
        self.reads += other.reads;
        self.silent = (self.silent.0 + other.silent.0, self.silent.1.max(other.silent.1));
    }
}

pub(super) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    if story.limits.is_empty() {
        return;
    }
    let mut semaphores: HashMap<&str, Semaphore<'_>> =
        story.limits.iter().map(|(name, (limit, per))| (*name, Semaphore::new(u64::from(*limit), *per))).collect();
    let mut labels: HashMap<&str, &str> = HashMap::new();
    // After a gap, the log doesn't show all permits.
    let mut is_whole = true;
    for (at, _, entry) in &story.server {
        match entry {
            Entry::Labelled { client, label } => drop(labels.insert(label, client)),
            Entry::Read { number } if is_whole => compare(*at, story, *number, &semaphores, verdict),
            Entry::Forgot => {
                is_whole = false;
                semaphores.values_mut().for_each(|semaphore| semaphore.held.clear());
            }
            Entry::Counts { name, token, until, clock } => {
                let Some(semaphore) = semaphores.get_mut(name.as_str()) else { continue };
                semaphore.counts(*at, token, (*until, *clock));
                if let Some(problem) = semaphore.too_long(*until, *clock) {
                    verdict.violated(Rule::Limits, *at, name, format!("`{name}`: the permits of {token} {problem}"));
                }
            }
            Entry::Freed { name, token } => {
                if let Some(semaphore) = semaphores.get_mut(name.as_str()) {
                    semaphore.freed(*at, token);
                }
            }
            Entry::Joined { name, token, .. } => {
                if let Some(semaphore) = semaphores.get_mut(name.as_str()) {
                    semaphore.joined.insert(token, *at);
                }
            }
            Entry::Left { name, token } => {
                if let Some(semaphore) = semaphores.get_mut(name.as_str()) {
                    semaphore.left(*at, token);
                }
            }
            Entry::Admitted { name, token, permits: Some(permits), .. } => {
                let Some(semaphore) = semaphores.get_mut(name.as_str()) else { continue };
                let free = semaphore.free_since(*at, token, u64::from(permits.count));
                if let Some(since) = free.filter(|since| is_whole && is_calm(story, *since, *at)) {
                    let free = (at - since).saturating_sub(story.starved(since, *at));
                    semaphore.used.free = semaphore.used.free.max(free);
                    if free > LONGEST_FREE {
                        let text = format!("permits of `{name}` were free for {} while {token} waited", ms(free));
                        verdict.violated(Rule::Progress, *at, name, text);
                    }
                }
                for problem in semaphore.granted(token, *permits) {
                    verdict.violated(Rule::Limits, *at, name, format!("`{name}`: {token} got {permits:?}, {problem}"));
                }
            }
            _ => {}
        }
    }
    given_back(story, &semaphores, &labels, verdict);
    for (name, semaphore) in semaphores {
        let kind = name.trim_end_matches(|char: char| char.is_ascii_digit()).trim_end_matches('-');
        let one = Used { fewest: semaphore.used.grants, ..semaphore.used };
        let all = &mut verdict.figures.limits.used;
        all.entry(kind.to_owned()).and_modify(|all| all.add(&one)).or_insert(one).names += 1;
    }
}

/// Whether a fault of a server or a connection may have held commands back in this time, or repeated them.
fn is_calm(story: &Story<'_>, from: u64, to: u64) -> bool {
    !story.faults.iter().any(|fault| fault.strikes_servers() && fault.begin <= to && fault.end + CALM >= from)
}

/// A semaphore as the log shows it.
struct Semaphore<'a> {
    used: Used,
    held: HashMap<&'a str, Held>,
    /// When the permits of a token ended, if they no longer count, in microseconds of the history's time.
    ended: HashMap<&'a str, u64>,
    /// When permits that were given back ended, in the same time, and how many they were.
    over: Vec<(u64, u64)>,
    /// When each waiter joined the queue.
    joined: HashMap<&'a str, u64>,
    /// When the queue last moved: a waiter was granted, or left.
    moved: u64,
    /// The waiter that has just left, perhaps because it is granted, and when.
    left: Option<(&'a str, u64)>,
    /// The grants of a rate in the last window, and those before it that can still show how close the next one comes.
    grants: VecDeque<(u64, u64)>,
}

/// The permits of a token.
#[derive(Clone, Copy, Default)]
struct Held {
    count: u64,
    /// In milliseconds of the server's clock, and in microseconds of the history's time.
    until: u64,
    ends: u64,
}

impl<'a> Semaphore<'a> {
    fn new(limit: u64, per: Option<u64>) -> Self {
        let used = Used { limit, per, ..Used::default() };
        let (held, ended, joined) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (over, grants) = (Vec::new(), VecDeque::new());
        Self { used, held, ended, over, joined, moved: 0, left: None, grants }
    }

    fn counts(&mut self, at: u64, token: &'a str, (until, clock): (u64, u64)) {
        let held = self.held.entry(token).or_default();
        (held.until, held.ends) = (until, at + until.saturating_sub(clock) * 1_000);
        self.ended.insert(token, held.ends);
    }

    /// Permits count for at most a TTL after each command that grants or renews them, and those of a rate as long as its window.
    fn too_long(&self, until: u64, clock: u64) -> Option<String> {
        let longest = self.used.per.map_or(LONGEST_TTL.as_millis() as u64, |per| per + 1);
        (until > clock + longest).then(|| format!("count for {} ms, and not for {longest} ms", until - clock))
    }

    fn freed(&mut self, at: u64, token: &'a str) {
        if let Some(held) = self.held.remove(token) {
            let end = held.ends.min(at);
            self.ended.insert(token, end);
            self.over.retain(|(other, _)| other + LONGEST_FREE * 2 > at);
            self.over.push((end, held.count));
        }
    }

    fn left(&mut self, at: u64, token: &'a str) {
        if let Some((_, before)) = self.left.replace((token, at)) {
            self.moved = self.moved.max(before);
        }
    }

    /// Since when enough permits have been free for a waiter that gets them now, and nobody was before it in the queue.
    fn free_since(&mut self, at: u64, token: &str, count: u64) -> Option<u64> {
        if let Some((_, before)) = self.left.take().filter(|(other, _)| *other != token) {
            self.moved = self.moved.max(before);
        }
        let joined = self.joined.remove(token);
        let turn = self.moved.max(joined?);
        self.moved = at;
        let others = self.held.iter().filter(|(other, _)| **other != token).map(|(_, held)| *held);
        let (held, over): (Vec<Held>, Vec<Held>) = others.partition(|held| held.ends > at);
        let mut ends: Vec<(u64, u64)> = over.iter().map(|held| (held.ends, held.count)).collect();
        ends.extend(&self.over);
        ends.sort_unstable();
        let mut used: u64 = held.iter().map(|held| held.count).sum();
        let last = ends.into_iter().rev().find(|(_, count_of)| {
            used += count_of;
            used + count > self.used.limit
        });
        Some(last.map_or(turn, |(end, _)| end.max(turn)))
    }

    /// How many permits count at this time.
    fn sum(&self, clock: u64) -> u64 {
        self.held.values().filter(|held| held.until > clock).map(|held| held.count).sum()
    }

    /// What is wrong with a grant.
    fn granted(&mut self, token: &'a str, permits: Permits) -> Vec<String> {
        let count = u64::from(permits.count);
        let Some(held) = self.held.get_mut(token) else { return vec!["but no time".to_owned()] };
        held.count = count;
        let until = held.until;
        // A fence is the server's µs, or a little more. So this never counts permits that had ended.
        let sum = self.sum(permits.fence / 1_000);
        let Used { limit, per, .. } = self.used;
        self.used.grants += 1;
        let mut problems = Vec::new();
        if sum > limit {
            problems.push(format!("and {sum} of {limit} count now"));
        }
        match per {
            None => self.used.most = self.used.most.max(sum),
            Some(per) => {
                // The grant is in the millisecond before the one in which its window begins.
                let at = permits.fence.min(until.saturating_sub(per) * 1_000 - 1);
                problems.extend(self.in_window(at, count, per * 1_000));
            }
        }
        problems
    }

    /// Counts what a rate granted in the window that ends now, by the fences alone.
    fn in_window(&mut self, at: u64, count: u64, per: u64) -> Option<String> {
        self.grants.push_back((at, count));
        let limit = self.used.limit;
        let (mut sum, mut in_window) = (0, 0);
        for (place, (then, count)) in self.grants.iter().enumerate().rev() {
            sum += count;
            if *then + per > at {
                in_window = sum;
            }
            if sum > limit {
                self.used.closest = self.used.closest.into_iter().chain([at.saturating_sub(*then)]).min();
                self.grants.drain(..place);
                break;
            }
        }
        self.used.most = self.used.most.max(in_window);
        (in_window > limit).then(|| format!("and the window of {} before it has {in_window} of {limit}", ms(per)))
    }
}

/// A script's counts and the log's at the same moment.
fn compare(at: u64, story: &Story<'_>, number: u64, semaphores: &HashMap<&str, Semaphore<'_>>, verdict: &mut Verdict) {
    // The script's answer may have been lost.
    let Some((clock, counts)) = story.counts.get(&number) else { return };
    let mut is_same = true;
    for (name, count) in *counts {
        let Some(semaphore) = semaphores.get(name.as_str()) else { continue };
        let (logged, limit) = (semaphore.sum(*clock), semaphore.used.limit);
        if *count > limit {
            verdict.violated(Rule::Limits, at, name, format!("`{name}`: {count} of {limit} permits count"));
        }
        if *count != logged {
            let text = format!("`{name}`: {count} permits count, but by the server's log {logged}");
            verdict.violated(Rule::Limits, at, name, text);
            is_same = false;
        }
    }
    verdict.figures.limits.reads += u64::from(is_same);
}

/// When the permits of the processes that were killed no longer counted.
fn given_back(
    story: &Story<'_>,
    semaphores: &HashMap<&str, Semaphore<'_>>,
    labels: &HashMap<&str, &str>,
    verdict: &mut Verdict,
) {
    let ttl = LONGEST_TTL.as_micros() as u64;
    for (process, killed) in story.killed().filter(|(_, killed)| is_calm(story, *killed, *killed)) {
        let Some(client) = labels.get(process) else { continue };
        let late = LATE + story.starved(killed.saturating_sub(LATE), killed + ttl);
        for (name, semaphore) in semaphores.iter().filter(|(_, semaphore)| semaphore.used.per.is_none()) {
            let own = semaphore.ended.iter().filter(|(token, end)| token.starts_with(client) && **end > killed);
            let Some(after) = own.clone().map(|(_, end)| end - killed).max() else { continue };
            let seen = &mut verdict.figures.limits.given_back;
            *seen = (seen.0 + own.count() as u64, seen.1.max(after));
            if after > ttl + late {
                let text = format!("{process} was killed, and its permits of `{name}` came back {} later", ms(after));
                verdict.violated(Rule::GivenBack, killed + after, name, text);
            }
        }
    }
}
