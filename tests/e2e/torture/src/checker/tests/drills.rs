//! Elections and work that is done once.

use super::{EXCLUSIVE, Granted, History, Rule, TTL};
use crate::history::{Entry, HARNESS, Op, What};

impl History {
    fn observes(&mut self, at: u64, by: &str, fence: Option<u64>, value: &str) {
        self.add(at, by, What::Observed { name: "m".to_owned(), fence, value: value.to_owned() });
    }

    /// The work of a lease ends with this result. Returns the call that stores it.
    fn wrote(&mut self, at: u64, lease: Granted, value: &str) -> u64 {
        self.calls += 1;
        let (call, name) = (self.calls, self.name.to_owned());
        let (share, owner, lease_of, within) = (None, None, Some(lease.lease), 500);
        self.add(at, lease.by, What::Began { call, op: Op::Store, name, share, owner, lease: lease_of, within });
        self.add(at, lease.by, What::Wrote { call, value: value.to_owned() });
        call
    }

    fn answered(&mut self, at: u64, by: &str, call: u64, value: &str) {
        self.add(at, by, What::Answered { call, value: value.to_owned() });
    }

    fn stored(&mut self, at: u64, token: &str, value: &str) {
        let (name, token, value) = ("m".to_owned(), token.to_owned(), value.to_owned());
        self.server(at, Entry::Stored { name, token, value });
    }

    /// `a` does the work of a `once` and stores `1`, and `b` waits for it and gets `answer`.
    fn once(answer: &str) -> Self {
        let mut history = Self::default();
        let lease = history.lease(0, "a", EXCLUSIVE, 1, TTL);
        let waits = history.call(10, "b", Op::Acquire, EXCLUSIVE, 5_000);
        let store = history.wrote(100, lease, "1");
        history.stored(101, "a:1", "1");
        history.answered(102, "a", store, "1");
        history.answered(103, "b", waits, answer);
        history
    }
}

#[test]
fn one_result_for_all_breaks_nothing_and_another_answer_is_found() {
    let verdict = History::once("1").verdict();
    assert_eq!(verdict.violations, []);
    assert_eq!((verdict.figures.onces, verdict.figures.answers, verdict.figures.repeated), (1, 2, 0));
    assert_eq!(History::once("2").broken(), [Rule::OneResult]);
}

#[test]
fn a_result_that_replaces_another_one_or_that_nobody_made_is_found() {
    let mut history = History::once("1");
    history.stored(500, "a:1", "1");
    assert_eq!(history.broken(), [], "the harness reads the result at the end");
    for (token, value) in [("b:1", "1"), ("b:1", "2")] {
        let mut history = History::once("1");
        history.stored(500, token, value);
        assert!(history.broken().contains(&Rule::OneResult), "{token} {value}");
    }
    let mut history = History::default();
    history.stored(500, "a:1", "1");
    assert_eq!(history.broken(), [Rule::OneResult], "no work has this result");
}

#[test]
fn a_result_that_is_gone_is_found() {
    let mut history = History::once("1");
    history.events.retain(|event| !matches!(event.what, What::Server { .. }));
    assert_eq!(history.broken(), [Rule::OneResult]);
}

#[test]
fn a_loser_that_stores_its_result_is_found() {
    for (outcome, broken) in [("unreachable", vec![]), ("lost", vec![Rule::OneResult])] {
        let mut history = History::default();
        let lease = history.lease(0, "a", EXCLUSIVE, 1, TTL);
        let store = history.wrote(100, lease, "1");
        history.stored(101, "a:1", "1");
        history.ended(102, "a", store, outcome);
        assert_eq!(history.broken(), broken, "{outcome}");
    }
}

#[test]
fn work_after_the_first_answer_is_found_and_work_after_a_crash_is_not() {
    let mut history = History::once("1");
    history.lease(200, "b", EXCLUSIVE, 2, TTL);
    assert!(history.broken().contains(&Rule::OneResult));

    let mut history = History::default();
    let lease = history.lease(0, "a", EXCLUSIVE, 1, 1_000);
    history.wrote(100, lease, "1");
    history.add(100, HARNESS, What::Killed { process: "a".to_owned() });
    let lease = history.lease(1_100, "b", EXCLUSIVE, 2, TTL);
    let store = history.wrote(1_200, lease, "2");
    history.stored(1_201, "b:1", "2");
    history.answered(1_202, "b", store, "2");
    let verdict = history.verdict();
    assert_eq!(verdict.violations, []);
    assert_eq!((verdict.figures.onces, verdict.figures.repeated), (1, 1));
}

#[test]
fn an_observer_that_goes_back_is_found() {
    let observed = |terms: &[Option<u64>]| {
        let mut history = History::default();
        for (at, fence) in (1..).zip(terms) {
            history.observes(at, "a", *fence, "");
        }
        // Another observer may be behind.
        history.observes(99, "b", Some(1), "");
        history.broken()
    };
    assert_eq!(observed(&[None, Some(3), None, Some(5), Some(6)]), []);
    assert_eq!(observed(&[Some(3), Some(2)]), [Rule::Observers]);
    assert_eq!(observed(&[Some(3), None, Some(3)]), [Rule::Observers], "this term was over");
    assert_eq!(observed(&[Some(3), None, Some(2)]), [Rule::Observers]);
}

#[test]
fn a_term_has_the_value_of_its_leader() {
    let observed = |second: u64, value: &str| {
        let mut history = History::default();
        for fence in [1, 2] {
            let lease = history.lease(fence * 100, "a", EXCLUSIVE, fence, TTL);
            history.release(fence * 100 + 50, lease);
        }
        history.observes(110, "b", Some(1), "a's");
        history.observes(210, "c", Some(second), value);
        history.broken()
    };
    assert_eq!(observed(2, "a's"), []);
    assert_eq!(observed(1, "b's"), [Rule::Observers], "two values of one term");
    assert_eq!(observed(2, "b's"), [Rule::Observers], "two values of one leader");
}

#[test]
fn a_lease_that_outlasts_an_outage_by_its_ttl_is_found() {
    for (left, broken) in [(400, vec![]), (600, vec![Rule::Outage])] {
        let mut history = History::default();
        let lease = history.lease(0, "a", EXCLUSIVE, 1, TTL);
        history.fault((90, 3_010), "restart", false);
        history.held(1_200, lease, left);
        history.add(3_000, HARNESS, What::Down { from: 100_000 });
        history.lost(1_200 + left, lease);
        assert_eq!(history.broken(), broken, "{left}");
    }
}

#[test]
fn a_dead_leader_that_nobody_follows_in_time_is_found() {
    // A TTL, a second and a claim window.
    let followed = |at: u64, fault: &str, also: Option<&str>| {
        let mut history = History::default();
        let lease = history.lease(0, "a", EXCLUSIVE, 1, TTL);
        history.observes(1, "c", Some(1), "");
        history.fault((100, 110), fault, false);
        if let Some(What::FaultBegan { target, .. }) =
            history.events.iter_mut().rev().nth(1).map(|event| &mut event.what)
        {
            *target = "a".to_owned();
        }
        if fault == "pause" {
            history.held(120, lease, 600);
        }
        if let Some(other) = also {
            history.fault((2_000, 2_010), other, false);
        }
        history.lease(at, "b", EXCLUSIVE, 2, TTL);
        let verdict = history.verdict();
        let of_takeovers = verdict.violations.iter().filter(|violation| violation.rule == Rule::Takeover).count();
        (of_takeovers, verdict.figures.followed.get(fault).copied())
    };
    assert_eq!(followed(3_100, "kill", None), (0, Some((1, 3_000_000))));
    assert_eq!(followed(3_210, "kill", None), (1, Some((1, 3_110_000))));
    assert_eq!(followed(3_210, "kill", Some("restart")), (0, None), "the server was away");
    assert_eq!(followed(3_210, "pause", None), (0, None), "this pause did not end the term");
}

#[test]
fn an_election_without_a_leader_at_the_end_is_found() {
    let mut history = History::default();
    history.add(10, HARNESS, What::Unsettled { problem: "nobody leads".to_owned() });
    assert_eq!(history.broken(), [Rule::Settled]);
}
