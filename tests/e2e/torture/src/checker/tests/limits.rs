//! Semaphores by the server's record.

use std::collections::BTreeMap;

use super::{History, Rule};
use crate::history::{Entry, HARNESS, Permits, What};

impl History {
    /// The semaphore `m`.
    fn limited(limit: u32, per: Option<u64>) -> Self {
        let mut history = Self::default();
        history.add(0, HARNESS, What::Limit { name: "m".to_owned(), limit, per });
        history
    }

    /// The permits of a token count until then. The server's clock is the history's time.
    fn counts(&mut self, at: u64, token: &str, until: u64) {
        let (name, token) = ("m".to_owned(), token.to_owned());
        self.server(at, Entry::Counts { name, token, until, clock: at });
    }

    fn permits(&mut self, at: u64, token: &str, count: u32, until: u64) {
        self.counts(at, token, until);
        let (name, token, permits) = ("m".to_owned(), token.to_owned(), Some(Permits { count, fence: at * 1_000 }));
        self.server(at, Entry::Admitted { name, token, exclusive: false, clock: at, permits });
    }

    fn frees(&mut self, at: u64, token: &str) {
        self.server(at, Entry::Freed { name: "m".to_owned(), token: token.to_owned() });
    }

    fn reads(&mut self, at: u64, permits: u64) {
        self.server(at, Entry::Read { number: at });
        let permits = BTreeMap::from([("m".to_owned(), permits)]);
        self.add(at, HARNESS, What::Counted { number: at, clock: at, permits });
    }
}

#[test]
fn permits_that_were_given_back_or_have_ended_don_t_count() {
    let mut history = History::limited(3, None);
    history.permits(1_000, "a:1", 1, 2_000);
    history.permits(1_001, "b:1", 2, 2_000);
    history.reads(1_002, 3);
    history.frees(1_100, "a:1");
    history.permits(1_200, "c:1", 1, 3_000);
    history.counts(1_900, "c:1", 3_900);
    history.permits(2_000, "d:1", 2, 3_000);
    let verdict = history.verdict();
    assert_eq!(verdict.violations, []);
    let used = verdict.figures.limits.used["m"];
    assert_eq!((used.most, used.grants, verdict.figures.limits.reads), (3, 4, 1));
}

#[test]
fn one_permit_too_many_is_found() {
    let mut history = History::limited(2, None);
    history.permits(1_000, "a:1", 1, 2_000);
    history.permits(1_000, "b:1", 2, 2_000);
    assert_eq!(history.broken(), [Rule::Limits]);

    let mut history = History::limited(2, None);
    history.permits(1_000, "a:1", 1, 2_000);
    history.counts(1_900, "a:1", 3_900);
    history.permits(2_100, "b:1", 2, 3_000);
    assert_eq!(history.broken(), [Rule::Limits], "a renewed permit counts for longer");
}

#[test]
fn a_permit_that_counts_for_longer_than_a_ttl_is_found() {
    let mut history = History::limited(2, None);
    history.permits(1_000, "a:1", 1, 3_001);
    assert_eq!(history.broken(), [Rule::Limits]);
}

#[test]
fn a_count_that_the_log_does_not_explain_is_found() {
    let mut history = History::limited(2, None);
    history.permits(1_000, "a:1", 1, 2_000);
    history.reads(1_500, 2);
    assert_eq!(history.broken(), [Rule::Limits]);
    let mut history = History::limited(2, None);
    history.permits(1_000, "a:1", 1, 2_000);
    history.server(1_100, Entry::Forgot);
    history.reads(1_500, 2);
    assert_eq!(history.broken(), [], "the log has a gap");
}

#[test]
fn a_rate_grants_no_more_than_its_limit_in_any_window() {
    let mut history = History::limited(2, Some(1_000));
    for (at, token) in [(1_000, "a:1"), (1_600, "b:1"), (2_001, "c:1"), (2_601, "d:1")] {
        history.permits(at, token, 1, at + 1_001);
    }
    let verdict = history.verdict();
    assert_eq!(verdict.violations, []);
    let used = verdict.figures.limits.used["m"];
    assert_eq!((used.most, used.closest), (2, Some(1_001_000)));

    let mut history = History::limited(2, Some(1_000));
    history.permits(1_000, "a:1", 1, 2_001);
    history.permits(1_600, "b:1", 1, 2_601);
    // The server believes that it has been given back.
    history.frees(1_700, "a:1");
    history.permits(1_999, "c:1", 1, 3_000);
    assert_eq!(history.broken(), [Rule::Limits]);
}

#[test]
fn the_permits_of_a_dead_process_come_back_within_a_ttl() {
    for (end, broken) in [(3_000, vec![]), (3_300, vec![Rule::GivenBack])] {
        let mut history = History::limited(2, None);
        history.server(900, Entry::Labelled { client: "1f".to_owned(), label: "rust-0.0".to_owned() });
        history.permits(1_000, "1f:1", 1, 2_000);
        history.add(1_000, HARNESS, What::Killed { process: "rust-0.0".to_owned() });
        history.counts(end - 1_990, "1f:1", end);
        let verdict = history.verdict();
        assert_eq!(verdict.figures.limits.given_back, (1, (end - 1_000) * 1_000));
        assert_eq!(verdict.violations.iter().map(|violation| violation.rule).collect::<Vec<_>>(), broken);
    }
}

#[test]
fn permits_that_pass_a_waiter_are_found() {
    let mut history = History::limited(2, None);
    history.waits(1_000, "a:1", 5, 1_600);
    history.permits(1_100, "b:1", 1, 2_000);
    assert_eq!(history.broken(), [Rule::Limits]);
}

#[test]
fn permits_that_stay_free_while_somebody_waits_are_found() {
    let granted_at = |at| {
        let mut history = History::limited(2, None);
        history.permits(1_000, "a:1", 2, 2_000);
        history.waits(1_100, "b:1", 5, at + 500);
        history.leaves(at, "b:1");
        history.permits(at, "b:1", 1, at + 2_000);
        history.verdict()
    };
    let verdict = granted_at(2_100);
    assert_eq!(verdict.violations, []);
    assert_eq!(verdict.figures.limits.used["m"].free, 100_000);
    let late = granted_at(4_700);
    assert_eq!(late.violations.iter().map(|violation| violation.rule).collect::<Vec<_>>(), [Rule::Progress]);
}

#[test]
fn a_waiter_for_many_permits_keeps_the_place_of_those_behind_it() {
    let mut history = History::limited(2, None);
    history.permits(1_000, "a:1", 1, 3_000);
    history.waits(1_100, "b:2", 5, 1_700);
    history.waits(1_200, "c:1", 6, 5_500);
    history.counts(2_900, "a:1", 4_900);
    history.leaves(4_700, "b:2");
    history.leaves(4_701, "c:1");
    history.permits(4_701, "c:1", 1, 5_301);
    let verdict = history.verdict();
    assert_eq!(verdict.violations, []);
    assert_eq!(verdict.figures.limits.used["m"].free, 1_000);
}
