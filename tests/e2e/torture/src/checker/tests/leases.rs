//! Leases that exclude each other, their fences, and their losses.

use super::{EXCLUSIVE, History, Rule, SHARED, TTL};
use crate::history::{HARNESS, Share, What};

#[test]
fn leases_one_after_the_other_break_nothing() {
    let mut history = History::default();
    let first = history.lease(0, "a", EXCLUSIVE, 1, TTL);
    history.release(100, first);
    let second = history.lease(101, "b", EXCLUSIVE, 2, TTL);
    history.held(200, second, 1_400);
    history.lost(900, second);
    let third = history.lease(950, "a", EXCLUSIVE, 3, TTL);
    history.release(960, third);
    let verdict = history.verdict();
    assert_eq!(verdict.violations, []);
    assert_eq!((verdict.figures.leases, verdict.figures.operations, verdict.figures.losses["gone"]), (3, 5, 1));
    assert_eq!(verdict.figures.longest_stall, 849_000);
}

#[test]
fn two_exclusive_leases_at_one_time_are_found() {
    let mut history = History::default();
    let first = history.lease(0, "a", EXCLUSIVE, 1, TTL);
    let second = history.lease(90, "b", EXCLUSIVE, 2, TTL);
    history.release(100, first);
    history.release(110, second);
    let verdict = history.verdict();
    assert_eq!(verdict.violations.len(), 1);
    let text = &verdict.violations[0].text;
    assert_eq!(
        text,
        "`m` was held by a (exclusive, fence 1) and by b (exclusive, fence 2) for 10.0 ms at the same time"
    );
}

#[test]
fn a_lease_that_its_process_could_not_give_up_counts_to_the_end_of_its_validity() {
    for (later, broken) in [(1_400, vec![Rule::MutualExclusion]), (1_600, vec![])] {
        let mut history = History::default();
        history.lease(0, "a", EXCLUSIVE, 1, TTL);
        history.add(10, HARNESS, What::Killed { process: "a".to_owned() });
        let second = history.lease(later, "b", EXCLUSIVE, 2, TTL);
        history.release(later + 10, second);
        assert_eq!(history.broken(), broken, "{later}");
    }
}

#[test]
fn a_lease_that_had_ended_when_its_acquire_returned_was_never_held() {
    let mut history = History::default();
    let second = history.lease(0, "b", EXCLUSIVE, 2, TTL);
    let first = history.lease(10, "a", EXCLUSIVE, 1, 0);
    history.release(20, first);
    history.release(30, second);
    assert_eq!(history.broken(), []);
}

#[test]
fn readers_share_a_lock_but_a_writer_beside_them_is_found() {
    let mut history = History::default();
    let readers = [history.lease(0, "a", SHARED, 5, TTL), history.lease(1, "b", SHARED, 5, TTL)];
    history.release(100, readers[0]);
    let writer = history.lease(150, "c", EXCLUSIVE, 6, TTL);
    history.release(160, writer);
    history.release(170, readers[1]);
    assert_eq!(history.broken(), [Rule::MutualExclusion]);
}

#[test]
fn more_permits_than_there_are_are_found() {
    for (limit, broken) in [(3, vec![]), (2, vec![Rule::MutualExclusion])] {
        let mut history = History::default();
        let permits = |permits| Share::Permits { permits, limit };
        let both = [history.lease(0, "a", permits(1), 1, TTL), history.lease(1, "b", permits(2), 2, TTL)];
        both.into_iter().for_each(|lease| history.release(100, lease));
        assert_eq!(history.broken(), broken, "{limit}");
    }
}

#[test]
fn an_overlap_after_a_loss_is_documented_for_the_longest_ttl_and_found_after_that() {
    // One renewal later, the first holder would have known of the loss.
    for (end, broken) in [(2_190, 0), (2_210, 1)] {
        let mut history = History::default();
        let first = history.lease(0, "a", EXCLUSIVE, 1, 3_000);
        history.fault((200, 201), "failover", true);
        let second = history.lease(300, "b", EXCLUSIVE, 2, 3_000);
        history.release(end, first);
        history.release(end, second);
        let verdict = history.verdict();
        assert_eq!(verdict.violations.len(), broken, "{end}");
        assert_eq!(verdict.documented.len(), 1 - broken, "{end}");
    }
}

#[test]
fn a_lease_that_a_client_hands_over_after_a_loss_is_documented_and_a_new_one_is_found() {
    let holders = |by: &'static str, fence: u64, later: u64| {
        let mut history = History::default();
        let first = history.lease(0, "a", SHARED, 1_000, TTL);
        history.fault((200, 201), "failover", true);
        // The writer is granted before or after the reader's second lease.
        let writer = history.lease(later, "b", EXCLUSIVE, 900_000, TTL);
        history.release(290, first);
        let second = history.lease(300, by, SHARED, fence, TTL);
        history.release(900, second);
        history.release(950, writer);
        history.broken()
    };
    for later in [295, 350] {
        assert_eq!(holders("a", 1_001, later), [], "the client had the lease before");
        assert_eq!(holders("c", 1_001, later), [Rule::MutualExclusion], "this client had no lease before");
        assert_eq!(holders("a", 300_000, later), [Rule::MutualExclusion], "the server granted it after the loss");
    }
}

#[test]
fn an_overlap_that_began_before_the_wipe_or_is_about_another_lock_is_found() {
    for at in [50, 100] {
        let mut history = History::default();
        let both = [history.lease(0, "a", EXCLUSIVE, 1, TTL), history.lease(10, "b", EXCLUSIVE, 2, TTL)];
        history.fault((at, at + 1), "failover", true);
        both.into_iter().for_each(|lease| history.release(150, lease));
        assert_eq!(history.broken(), [Rule::MutualExclusion], "{at}");
    }
    let mut history = History::default();
    history.fault((5, 6), "failover", false);
    let both = [history.lease(0, "a", EXCLUSIVE, 1, TTL), history.lease(10, "b", EXCLUSIVE, 2, TTL)];
    both.into_iter().for_each(|lease| history.release(150, lease));
    assert_eq!(history.broken(), [Rule::MutualExclusion]);
}

#[test]
fn a_fence_that_does_not_rise_is_found() {
    for (fence, broken) in [(10, vec![]), (9, vec![Rule::FenceOrder]), (8, vec![Rule::FenceOrder])] {
        let mut history = History::default();
        let first = history.lease(0, "a", SHARED, 9, TTL);
        history.release(10, first);
        let second = history.lease(20, "b", EXCLUSIVE, fence, TTL);
        history.release(30, second);
        assert_eq!(history.broken(), broken, "{fence}");
    }
}

#[test]
fn fences_of_readers_have_no_order() {
    let mut history = History::default();
    for (at, fence) in [(0, 9), (20, 9), (40, 8)] {
        let reader = history.lease(at, "a", SHARED, fence, TTL);
        history.release(at + 10, reader);
    }
    assert_eq!(history.broken(), []);
}

#[test]
fn a_fence_may_fall_after_a_wipe_only_if_an_unaware_holder_hands_its_lease_over() {
    for (by, broken) in [("a", vec![]), ("c", vec![Rule::FenceOrder])] {
        let mut history = History::default();
        let first = history.lease(0, "a", EXCLUSIVE, 1_000, TTL);
        history.fault((200, 201), "failover", true);
        let second = history.lease(300, "b", EXCLUSIVE, 9_000, TTL);
        history.release(310, second);
        history.release(320, first);
        let third = history.lease(330, by, EXCLUSIVE, 1_001, TTL);
        history.release(340, third);
        let verdict = history.verdict();
        assert_eq!(verdict.violations.iter().map(|it| it.rule).collect::<Vec<_>>(), broken, "{by}");
    }
}

#[test]
fn a_loss_that_is_told_late_or_never_is_found() {
    // Valid for 1,500 ms by the holder's clock, and for 50 ms more on the server.
    for (told, broken) in [(Some(1_490), 0), (Some(1_560), 0), (Some(1_590), 1), (None, 1)] {
        let mut history = History::default();
        let lease = history.lease(0, "a", EXCLUSIVE, 1, TTL);
        if let Some(told) = told {
            history.lost(told, lease);
        }
        history.add(3_000, "a", What::Stalled { from: 2_999_000 });
        assert_eq!(history.broken(), vec![Rule::LossInTime; broken], "{told:?}");
    }
}

#[test]
fn a_process_that_was_paused_or_killed_is_told_when_it_can_be() {
    let mut history = History::default();
    let paused = history.lease(0, "a", SHARED, 1, TTL);
    history.lease(0, "b", SHARED, 1, TTL);
    history.add(400, HARNESS, What::Killed { process: "b".to_owned() });
    history.add(2_500, "a", What::Stalled { from: 500_000 });
    history.lost(2_501, paused);
    history.add(4_000, HARNESS, What::Started { process: "c".to_owned() });
    assert_eq!(history.broken(), []);
}

#[test]
fn a_holder_that_a_renewal_does_not_tell_of_a_wipe_is_found() {
    let told = |lost: u64, other: Option<(u64, u64)>| {
        let mut history = History::default();
        let lease = history.lease(5_000, "a", EXCLUSIVE, 1, TTL);
        history.fault((5_100, 5_101), "wipe", true);
        if let Some(other) = other {
            history.fault(other, "delay", false);
        }
        history.held(6_000, lease, TTL);
        history.lost(lost, lease);
        let verdict = history.verdict();
        (verdict.figures.wiped, verdict.violations.iter().map(|it| it.rule).collect::<Vec<_>>())
    };
    assert_eq!(told(6_050, None), (1, vec![]));
    assert_eq!(told(6_150, None), (1, vec![Rule::LossAfterWipe]));
    assert_eq!(told(6_150, Some((5_500, 5_600))), (0, vec![]), "the renewal was in trouble");
}
