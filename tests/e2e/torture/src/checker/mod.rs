//! Judges a history against what [`docs/guarantees.md`](../../../../docs/guarantees.md) promises.
//!
//! The checker sees only the records. A lease counts from the return of its acquire until the worker releases it,
//! closes its manager or is notified of a loss. It never counts for longer than it was valid at the last look. This is
//! the latest possible beginning and the earliest possible end. So a busy machine can hide an overlap, but can't cause
//! a false one.
//!
//! A fault that can lose data (`lost` in `FaultEnded`) allows exactly what is documented for it. The checker counts
//! such cases as documented. Everything else is a violation.

mod bounds;
mod exclusion;
mod fences;
mod limits;
mod losses;
mod once;
mod order;
mod progress;
mod reentrance;
mod story;
mod terms;
mod turns;

use std::collections::BTreeMap;
use std::fmt;

use crate::history::Event;
pub use limits::{Seen, Used};
use story::Story;

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A name has at most one valid exclusive lease. Readers and a writer never hold it together. A semaphore never
    /// grants more permits than its limit.
    MutualExclusion,
    /// A fence is greater than the fences of all earlier leases that its lease excludes.
    FenceOrder,
    /// The holder is notified of a loss before its lease expires.
    LossInTime,
    /// The holder of a renewed lease is notified of a wipe by its next renewal.
    LossAfterWipe,
    /// A lock that nobody holds goes to a caller that waits for it.
    Progress,
    /// A lease of several names has all of them, or there is none.
    AllOrNone,
    /// The owner of a reentrant lock can take it again while it holds the lock, with the same fence.
    Reentrance,
    /// By the server's own record, the permits that count are never more than the limit. A permit that is not renewed ends
    /// within its TTL. Waiters are granted in the order of the queue.
    Limits,
    /// The permits of a process that was killed come back within a TTL.
    GivenBack,
    /// All callers of a `once` get the one result that is stored.
    OneResult,
    /// An observer never goes back to an earlier term, and learns the leader's own value.
    Observers,
    /// While a server is down, nobody holds its locks for longer than a TTL.
    Outage,
    /// A leader that died is followed within its TTL and a second, and a claim window if a dead candidate is ahead.
    Takeover,
    /// After the faults, somebody leads, and all observers know.
    Settled,
    /// Every call ends within its documented time.
    Bounds,
    /// The server grants its waiters in the order in which they joined its queue.
    ServerOrder,
    /// A client that waits in the queue of a quorum's first server doesn't ask the other servers before its turn.
    Turns,
    /// Callers of one client are served in the order of their calls.
    LocalOrder,
    /// No process ended by itself, and the records are consistent.
    Processes,
}

impl Rule {
    /// Whether a slow machine alone can break this rule. The other rules hold however long a delay is.
    pub const fn is_about_time(self) -> bool {
        match self {
            Self::MutualExclusion
            | Self::FenceOrder
            | Self::AllOrNone
            | Self::Reentrance
            | Self::Limits
            | Self::OneResult
            | Self::Observers
            | Self::Outage
            | Self::Settled
            | Self::Processes => false,
            Self::LossInTime
            | Self::LossAfterWipe
            | Self::Progress
            | Self::GivenBack
            | Self::Takeover
            | Self::Bounds
            | Self::ServerOrder
            | Self::Turns
            | Self::LocalOrder => true,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MutualExclusion => "mutual exclusion",
            Self::FenceOrder => "fence order",
            Self::LossInTime => "a loss is reported in time",
            Self::LossAfterWipe => "a wipe is reported by the next renewal",
            Self::Progress => "a free lock is granted",
            Self::AllOrNone => "all names or none",
            Self::Reentrance => "an owner enters again",
            Self::Limits => "limits, by the server's record",
            Self::GivenBack => "a dead process gives its permits back",
            Self::OneResult => "one result for all",
            Self::Observers => "observers",
            Self::Outage => "nobody holds for longer than an outage allows",
            Self::Takeover => "a dead leader is followed",
            Self::Settled => "all is well after the faults",
            Self::Bounds => "every call ends in time",
            Self::ServerOrder => "order between clients",
            Self::Turns => "turns in a quorum",
            Self::LocalOrder => "order inside a client",
            Self::Processes => "processes",
        })
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub rule: Rule,
    /// When it was broken, in the history's time.
    pub at: u64,
    /// The lock. Empty if it is not about one.
    pub name: String,
    /// What happened.
    pub text: String,
}

/// What a history shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// All broken promises, in the order of time.
    pub violations: Vec<Violation>,
    /// How often each case happened that the documentation allows after a fault.
    pub documented: BTreeMap<&'static str, u64>,
    /// What was judged.
    pub figures: Figures,
}

/// The numbers of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Calls that have ended.
    pub operations: u64,
    /// Leases that were held.
    pub leases: u64,
    /// Leases that were lost, by reason.
    pub losses: BTreeMap<String, u64>,
    /// Faults by kind.
    pub faults: BTreeMap<String, u64>,
    /// Grants whose order was compared with the server's queue.
    pub queue_grants: u64,
    /// Leases that were converted.
    pub conversions: u64,
    /// Leases of several names.
    pub several: u64,
    /// Acquires of an owner that held the reentrant lock already.
    pub entered_again: u64,
    /// Renewed leases that a wipe hit while no other fault happened.
    pub wiped: u64,
    /// What the server granted of the semaphores that have limits.
    pub limits: limits::Seen,
    /// How many times another process became the leader.
    pub takeovers: u64,
    /// How often a leader ended by a fault of its process while nothing disturbed the server, and the longest time from
    /// the beginning of the fault until somebody led, in microseconds.
    pub followed: BTreeMap<String, (u64, u64)>,
    /// How many changes observers learned.
    pub observed: u64,
    /// How many names have a result.
    pub onces: u64,
    /// How many calls got a result.
    pub answers: u64,
    /// How often work was done whose result was not stored.
    pub repeated: u64,
    /// The longest time in which no worker was granted any lock, in microseconds.
    pub longest_stall: u64,
    /// The longest time without faults in which a caller waited for a lock that nobody held, in microseconds.
    pub longest_free: u64,
    /// The longest acquire, in microseconds.
    pub longest_acquire: u64,
    /// How late the latest call ended after its documented time, in microseconds.
    pub latest_end: u64,
}

impl Figures {
    /// Adds the numbers of another history.
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.leases += other.leases;
        self.queue_grants += other.queue_grants;
        self.conversions += other.conversions;
        self.several += other.several;
        self.entered_again += other.entered_again;
        self.wiped += other.wiped;
        self.limits.add(&other.limits);
        self.takeovers += other.takeovers;
        for (fault, (count, longest)) in &other.followed {
            let all = self.followed.entry(fault.clone()).or_default();
            *all = (all.0 + count, all.1.max(*longest));
        }
        self.observed += other.observed;
        self.onces += other.onces;
        self.answers += other.answers;
        self.repeated += other.repeated;
        for (reason, count) in &other.losses {
            *self.losses.entry(reason.clone()).or_default() += count;
        }
        for (fault, count) in &other.faults {
            *self.faults.entry(fault.clone()).or_default() += count;
        }
        self.longest_stall = self.longest_stall.max(other.longest_stall);
        self.longest_free = self.longest_free.max(other.longest_free);
        self.longest_acquire = self.longest_acquire.max(other.longest_acquire);
        self.latest_end = self.latest_end.max(other.latest_end);
    }
}

/// Judges a history whose events are in the order of time.
pub fn judge(history: &[Event]) -> Verdict {
    let mut verdict = Verdict::default();
    let story = Story::of(history, &mut verdict);
    exclusion::judge(&story, &mut verdict);
    fences::judge(&story, &mut verdict);
    losses::judge(&story, &mut verdict);
    bounds::judge(&story, &mut verdict);
    order::judge(&story, &mut verdict);
    turns::judge(&story, &mut verdict);
    progress::judge(&story, &mut verdict);
    reentrance::judge(&story, &mut verdict);
    terms::judge(&story, &mut verdict);
    once::judge(&story, &mut verdict);
    limits::judge(&story, &mut verdict);
    verdict.violations.sort_by_key(|violation| violation.at);
    verdict
}

impl Verdict {
    /// Drops the violations that a slow machine could have caused. Returns how many there were.
    pub fn forgive_delays(&mut self) -> usize {
        let before = self.violations.len();
        self.violations.retain(|violation| !violation.rule.is_about_time());
        before - self.violations.len()
    }

    fn violated(&mut self, rule: Rule, at: u64, name: &str, text: String) {
        self.violations.push(Violation { rule, at, name: name.to_owned(), text });
    }

    fn documented(&mut self, what: &'static str) {
        *self.documented.entry(what).or_default() += 1;
    }
}

/// Microseconds as milliseconds, for people.
fn ms(micros: u64) -> String {
    format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100)
}

#[cfg(test)]
mod tests;
