//! For each rule, a small history that keeps it and one that breaks it.

mod drills;
mod kinds;
mod leases;
mod limits;
mod waiting;

use super::{Rule, Verdict, judge};
use crate::history::{Entry, Event, HARNESS, Op, Share, What};

/// Builds a history. Times are in milliseconds.
struct History {
    events: Vec<Event>,
    calls: u64,
    faults: u64,
    /// What the next calls are for.
    name: &'static str,
    owner: Option<u64>,
}

impl Default for History {
    fn default() -> Self {
        Self { events: Vec::new(), calls: 0, faults: 0, name: "m", owner: None }
    }
}

/// A lease that [`History::lease`] has granted.
#[derive(Clone, Copy)]
struct Granted {
    by: &'static str,
    lease: u64,
}

const EXCLUSIVE: Share = Share::Exclusive;
const SHARED: Share = Share::Shared;
const TTL: u64 = 1_500;

impl History {
    fn add(&mut self, at: u64, by: &str, what: What) {
        self.events.push(Event { at: at * 1_000, by: by.to_owned(), what });
    }

    fn call(&mut self, at: u64, by: &str, op: Op, share: Share, within: u64) -> u64 {
        self.calls += 1;
        let (call, name, owner) = (self.calls, self.name.to_owned(), self.owner);
        self.add(at, by, What::Began { call, op, name, share: Some(share), owner, lease: None, within });
        call
    }

    fn grant(&mut self, at: u64, by: &str, call: u64, fence: u64, left: u64) {
        self.grant_all(at, by, call, &[fence], left);
    }

    /// A lease of several names has a fence for each.
    fn grant_all(&mut self, at: u64, by: &str, call: u64, fences: &[u64], left: u64) {
        let fence = fences.iter().copied().max().unwrap_or_default();
        let fences = if fences.len() > 1 { fences.to_vec() } else { Vec::new() };
        let left = left * 1_000;
        self.add(at, by, What::Granted { call, lease: call, fence, fences, ttl: TTL, renewed: true, left });
    }

    fn ended(&mut self, at: u64, by: &str, call: u64, outcome: &str) {
        self.add(at, by, What::Ended { call, outcome: outcome.to_owned() });
    }

    /// Begins to convert a lease.
    fn converts(&mut self, at: u64, lease: Granted, share: Share) -> u64 {
        self.calls += 1;
        let (call, name) = (self.calls, self.name.to_owned());
        let op = if share == SHARED { Op::Downgrade } else { Op::Upgrade };
        let (share, lease_of, within) = (Some(share), Some(lease.lease), TTL);
        self.add(at, lease.by, What::Began { call, op, name, share, owner: None, lease: lease_of, within });
        call
    }

    /// A conversion, from its call to its return.
    fn converted(&mut self, (from, to): (u64, u64), lease: Granted, share: Share, fence: u64) -> Granted {
        let call = self.converts(from, lease, share);
        self.grant(to, lease.by, call, fence, TTL);
        Granted { by: lease.by, lease: call }
    }

    /// A lease that is valid for `left` from `at`.
    fn lease(&mut self, at: u64, by: &'static str, share: Share, fence: u64, left: u64) -> Granted {
        let call = self.call(at, by, Op::Acquire, share, 5_000);
        self.grant(at, by, call, fence, left);
        Granted { by, lease: call }
    }

    fn release(&mut self, at: u64, lease: Granted) {
        self.calls += 1;
        let (call, name, lease_of) = (self.calls, self.name.to_owned(), Some(lease.lease));
        let what = What::Began { call, op: Op::Release, name, share: None, owner: None, lease: lease_of, within: 500 };
        self.add(at, lease.by, what);
        self.add(at, lease.by, What::Ended { call, outcome: "released".to_owned() });
    }

    fn lost(&mut self, at: u64, lease: Granted) {
        self.add(at, lease.by, What::Lost { lease: lease.lease, reason: "gone".to_owned() });
    }

    fn held(&mut self, at: u64, lease: Granted, left: u64) {
        self.add(at, lease.by, What::Held { lease: lease.lease, left: left * 1_000 });
    }

    fn fault(&mut self, (begin, end): (u64, u64), fault: &str, loses: bool) {
        self.faults += 1;
        let number = self.faults;
        let target = String::new();
        self.add(begin, HARNESS, What::FaultBegan { number, fault: fault.to_owned(), target });
        let lost = if loses { vec!["m".to_owned()] } else { Vec::new() };
        // The server's clock is the history's time.
        self.add(end, HARNESS, What::FaultEnded { number, lost, day: end * 1_000 });
    }

    fn server(&mut self, at: u64, entry: Entry) {
        self.add(at, "server", What::Server { entry });
    }

    fn waits(&mut self, at: u64, token: &str, score: u64, until: u64) {
        let (name, token) = ("m".to_owned(), token.to_owned());
        self.server(at, Entry::Joined { name: name.clone(), token: token.clone(), score });
        self.server(at, Entry::Alive { name, token, until });
    }

    fn leaves(&mut self, at: u64, token: &str) {
        self.server(at, Entry::Left { name: "m".to_owned(), token: token.to_owned() });
    }

    /// A token is granted. The server's clock is the history's time.
    fn admitted(&mut self, at: u64, token: &str, exclusive: bool) {
        let (name, token) = ("m".to_owned(), token.to_owned());
        self.server(at, Entry::Admitted { name, token, exclusive, clock: at, permits: None });
    }

    fn verdict(mut self) -> Verdict {
        self.events.sort_by_key(|event| event.at);
        judge(&self.events)
    }

    fn broken(self) -> Vec<Rule> {
        self.verdict().violations.iter().map(|violation| violation.rule).collect()
    }
}
