//! Conversions, reentrant locks, and leases of several names.

use super::{EXCLUSIVE, Granted, History, Rule, SHARED, TTL};
use crate::history::Op;

#[test]
fn a_writer_that_becomes_a_reader_lets_readers_in_but_no_writer() {
    for (share, broken) in [(SHARED, vec![]), (EXCLUSIVE, vec![Rule::MutualExclusion])] {
        let mut history = History::default();
        let writer = history.lease(0, "a", EXCLUSIVE, 5, TTL);
        // The other one comes before the call returns.
        let other = history.lease(105, "b", share, 6, TTL);
        let reader = history.converted((100, 110), writer, SHARED, 6);
        history.release(108, other);
        history.release(200, reader);
        assert_eq!(history.broken(), broken, "{share}");
    }
}

#[test]
fn a_reader_that_becomes_a_writer_beside_another_reader_is_found() {
    for (left, broken) in [(105, vec![]), (115, vec![Rule::MutualExclusion])] {
        let mut history = History::default();
        let readers = [history.lease(0, "a", SHARED, 5, TTL), history.lease(1, "b", SHARED, 5, TTL)];
        history.release(left, readers[1]);
        let writer = history.converted((100, 110), readers[0], EXCLUSIVE, 7);
        history.release(200, writer);
        let verdict = history.verdict();
        assert_eq!(verdict.violations.iter().map(|it| it.rule).collect::<Vec<_>>(), broken, "{left}");
        assert_eq!(verdict.figures.conversions, 1);
    }
}

#[test]
fn a_reader_whose_upgrade_was_refused_stays_a_reader() {
    for (share, broken) in [(SHARED, vec![]), (EXCLUSIVE, vec![Rule::MutualExclusion])] {
        let mut history = History::default();
        let reader = history.lease(0, "a", SHARED, 5, TTL);
        let call = history.converts(100, reader, EXCLUSIVE);
        history.ended(110, "a", call, "conflict");
        let other = history.lease(150, "b", share, 6, TTL);
        history.release(160, other);
        history.release(200, reader);
        assert_eq!(history.broken(), broken, "{share}");
    }
}

#[test]
fn a_conversion_without_a_new_fence_is_found() {
    for (share, to) in [(EXCLUSIVE, SHARED), (SHARED, EXCLUSIVE)] {
        for (fence, broken) in [(6, vec![]), (5, vec![Rule::FenceOrder])] {
            let mut history = History::default();
            let lease = history.lease(0, "a", share, 5, TTL);
            let converted = history.converted((100, 110), lease, to, fence);
            history.release(200, converted);
            assert_eq!(history.broken(), broken, "{share} to {to}, {fence}");
        }
    }
}

#[test]
fn a_conversion_that_outlasts_its_lease_and_a_loss_after_it_that_is_told_late_are_found() {
    for (end, broken) in [(1_740, vec![]), (1_760, vec![Rule::Bounds])] {
        let mut history = History::default();
        let writer = history.lease(0, "a", EXCLUSIVE, 5, TTL);
        let call = history.converts(0, writer, SHARED);
        history.ended(end, "a", call, "lost");
        assert_eq!(history.broken(), broken, "{end}");
    }
    for (returned, told, broken) in [(110, 1_650, 0), (110, 1_750, 1), (1_600, 3_050, 0), (1_600, 3_250, 1)] {
        let mut history = History::default();
        let reader = history.lease(0, "a", SHARED, 5, TTL);
        // A late return shows that the reader's lease was renewed.
        let writer = history.converted((100, returned), reader, EXCLUSIVE, 6);
        history.lost(told, writer);
        assert_eq!(history.broken(), vec![Rule::LossInTime; broken], "{returned} {told}");
    }
}

#[test]
fn an_owner_may_hold_a_reentrant_lock_twice_and_another_owner_may_not() {
    for (by, owner, broken) in
        [("a", 0, vec![]), ("a", 1, vec![Rule::MutualExclusion]), ("b", 0, vec![Rule::MutualExclusion])]
    {
        let mut history = History { owner: Some(0), ..History::default() };
        let first = history.lease(0, "a", EXCLUSIVE, 5, TTL);
        history.owner = Some(owner);
        let second = history.lease(50, by, EXCLUSIVE, if broken.is_empty() { 5 } else { 6 }, TTL);
        history.release(100, first);
        history.release(200, second);
        let verdict = history.verdict();
        assert_eq!(verdict.figures.entered_again, u64::from(broken.is_empty()));
        assert_eq!(verdict.violations.iter().map(|it| it.rule).collect::<Vec<_>>(), broken, "{by} {owner}");
    }
}

#[test]
fn an_owner_that_is_refused_or_waits_or_gets_another_fence_while_it_holds_the_lock_is_found() {
    let enters = |outcome: Option<&str>, fence: u64, end: u64, held_until: u64| {
        let mut history = History { owner: Some(0), ..History::default() };
        let first = history.lease(0, "a", EXCLUSIVE, 5, TTL);
        let call = history.call(50, "a", Op::Acquire, EXCLUSIVE, 5_000);
        match outcome {
            Some(outcome) => history.ended(end, "a", call, outcome),
            None => history.grant(end, "a", call, fence, TTL),
        }
        history.release(held_until, first);
        if outcome.is_none() {
            history.release(900, Granted { by: "a", lease: call });
        }
        history.broken()
    };
    assert_eq!(enters(None, 5, 51, 800), []);
    assert_eq!(enters(Some("busy"), 0, 51, 800), [Rule::Reentrance]);
    assert_eq!(enters(None, 6, 51, 800), [Rule::Reentrance]);
    assert_eq!(enters(None, 5, 350, 800), [Rule::Bounds]);
    assert_eq!(enters(Some("busy"), 0, 51, 50), [], "the owner had given it back");
    assert_eq!(enters(None, 6, 350, 60), [], "the same");
}

#[test]
fn an_owner_that_holds_a_reentrant_lock_may_come_before_an_earlier_call_of_another_owner() {
    for (held, broken) in [(true, vec![]), (false, vec![Rule::LocalOrder])] {
        let mut history = History { owner: Some(0), ..History::default() };
        let first = held.then(|| history.lease(0, "a", EXCLUSIVE, 5, TTL));
        history.owner = Some(1);
        let other = history.call(10, "a", Op::Acquire, EXCLUSIVE, 5_000);
        history.owner = Some(0);
        let again = history.lease(50, "a", EXCLUSIVE, 5, TTL);
        history.release(60, again);
        first.into_iter().for_each(|first| history.release(70, first));
        history.grant(80, "a", other, 6, TTL);
        history.release(90, Granted { by: "a", lease: other });
        assert_eq!(history.broken(), broken, "{held}");
    }
}

/// `a` holds both names, and another process one of them at some time.
fn several(fences: &[u64], other: &'static str, fence: u64, at: u64) -> Vec<Rule> {
    let mut history = History { name: "m, n", ..History::default() };
    let call = history.call(0, "a", Op::Acquire, EXCLUSIVE, 5_000);
    history.grant_all(0, "a", call, fences, TTL);
    history.release(100, Granted { by: "a", lease: call });
    history.name = other;
    let other = history.lease(at, "b", EXCLUSIVE, fence, TTL);
    history.release(300, other);
    history.broken()
}

#[test]
fn a_lease_of_several_names_excludes_others_from_each_name() {
    assert_eq!(several(&[5, 8], "m", 9, 200), []);
    assert_eq!(several(&[5, 8], "o", 9, 50), []);
    for name in ["m", "n"] {
        assert_eq!(several(&[5, 8], name, 9, 50), [Rule::MutualExclusion], "{name}");
    }
    assert_eq!(several(&[5, 8], "n, o", 9, 50), [Rule::AllOrNone], "no fence for the second name");
}

#[test]
fn each_of_several_names_has_a_fence_of_its_own() {
    assert_eq!(several(&[5, 8], "m", 7, 200), []);
    assert_eq!(several(&[5, 8], "n", 7, 200), [Rule::FenceOrder]);
}

#[test]
fn a_lease_of_several_names_that_lacks_one_is_found() {
    assert_eq!(several(&[5], "m", 9, 200), [Rule::AllOrNone]);
    assert_eq!(several(&[5, 8, 9], "m", 9, 200), [Rule::AllOrNone]);
}

#[test]
fn calls_for_several_names_have_no_order_inside_a_client() {
    for later in ["n", "m, n"] {
        let mut history = History { name: "m, n", ..History::default() };
        let first = history.call(0, "a", Op::Acquire, EXCLUSIVE, 5_000);
        history.name = later;
        let second = history.call(50, "a", Op::Acquire, EXCLUSIVE, 5_000);
        history.grant_all(55, "a", second, if later == "n" { &[5] } else { &[5, 5] }, TTL);
        history.release(60, Granted { by: "a", lease: second });
        history.grant_all(70, "a", first, &[6, 6], TTL);
        history.release(80, Granted { by: "a", lease: first });
        assert_eq!(history.broken(), [], "{later}");
    }
}
