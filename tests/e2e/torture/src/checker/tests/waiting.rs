//! How long calls take, and who is next.

use super::{EXCLUSIVE, Granted, History, Rule, SHARED, TTL};
use crate::history::{Entry, HARNESS, Op, What};

#[test]
fn a_call_that_ends_late_or_never_is_found() {
    for (end, broken) in [(Some(740), 0), (Some(760), 1), (None, 1)] {
        let mut history = History::default();
        let call = history.call(0, "a", Op::Try, EXCLUSIVE, 500);
        if let Some(end) = end {
            history.add(end, "a", What::Ended { call, outcome: "unreachable".to_owned() });
        }
        history.add(3_000, HARNESS, What::Started { process: "b".to_owned() });
        assert_eq!(history.broken(), vec![Rule::Bounds; broken], "{end:?}");
    }
}

#[test]
fn a_release_may_wait_in_its_client_for_a_silent_server_and_not_otherwise() {
    let release = |fault: Option<&str>, end: u64| {
        let mut history = History::default();
        let lease = history.lease(0, "a", EXCLUSIVE, 1, TTL);
        match fault {
            Some("silence") => history.add(400, "server", What::Silent { from: 50_000 }),
            Some(fault) => history.fault((50, 400), fault, false),
            None => {}
        }
        let what = What::Began {
            call: 99,
            op: Op::Release,
            name: "m".to_owned(),
            share: None,
            owner: None,
            lease: Some(lease.lease),
            within: 500,
        };
        history.add(100, "a", what);
        history.add(end, "a", What::Ended { call: 99, outcome: "unreachable".to_owned() });
        history.broken()
    };
    assert_eq!(release(None, 860), [Rule::Bounds]);
    assert_eq!(release(Some("kill"), 860), [Rule::Bounds], "this strikes another client");
    assert_eq!(release(Some("server-pause"), 860), []);
    assert_eq!(release(Some("silence"), 860), []);
    assert_eq!(release(Some("server-pause"), 1_360), [Rule::Bounds]);
}

#[test]
fn a_call_of_a_process_that_could_not_run_may_end_late_or_never() {
    let mut history = History::default();
    let call = history.call(0, "a", Op::Try, EXCLUSIVE, 500);
    history.call(0, "b", Op::Acquire, EXCLUSIVE, 500);
    history.add(1_500, "a", What::Stalled { from: 400_000 });
    history.add(1_600, "a", What::Ended { call, outcome: "busy".to_owned() });
    history.add(100, HARNESS, What::Killed { process: "b".to_owned() });
    history.add(9_000, HARNESS, What::Started { process: "c".to_owned() });
    assert_eq!(history.broken(), []);
}

#[test]
fn waiters_in_the_order_of_the_queue_break_nothing_and_one_that_overtakes_is_found() {
    for (order, broken) in [(["w:1", "w:2"], vec![]), (["w:2", "w:1"], vec![Rule::ServerOrder])] {
        let mut history = History::default();
        history.waits(10, "w:1", 10, 900);
        history.waits(20, "w:2", 20, 900);
        for (at, token) in [(100, order[0]), (200, order[1])] {
            history.leaves(at, token);
            history.admitted(at, token, true);
        }
        let verdict = history.verdict();
        assert_eq!(verdict.figures.queue_grants, 2);
        assert_eq!(verdict.violations.iter().map(|it| it.rule).collect::<Vec<_>>(), broken);
    }
}

#[test]
fn a_client_that_enters_without_waiting_while_another_one_waits_is_found() {
    let entered = |dead: bool, exclusive: bool| {
        let mut history = History::default();
        history.waits(10, "w:1", 10, if dead { 90 } else { 900 });
        history.admitted(100, "x:1", exclusive);
        history.broken()
    };
    assert_eq!(entered(false, true), [Rule::ServerOrder]);
    assert_eq!(entered(true, true), [], "a waiter without a heartbeat doesn't count");
    assert_eq!(entered(false, false), [], "a reader may only renew");
}

#[test]
fn a_queue_begins_anew_after_its_data_was_lost() {
    let mut history = History::default();
    history.waits(10, "w:1", 10, 900);
    history.waits(20, "w:2", 20, 900);
    history.fault((30, 40), "wipe", true);
    history.waits(200, "w:2", 200, 900);
    history.leaves(210, "w:2");
    history.admitted(210, "w:2", true);
    assert_eq!(history.broken(), []);

    let mut history = History::default();
    history.waits(10, "w:1", 10, 900);
    history.server(20, Entry::Forgot);
    history.admitted(30, "x:1", true);
    assert_eq!(history.broken(), []);

    // This waiter joined the queue before the gap in the log.
    let mut history = History::default();
    history.server(5, Entry::Forgot);
    history.waits(10, "w:2", 20, 900);
    history.server(20, Entry::Alive { name: "m".to_owned(), token: "w:1".to_owned(), until: 900 });
    history.leaves(30, "w:1");
    history.admitted(30, "w:1", true);
    assert_eq!(history.broken(), []);
}

#[test]
fn callers_of_one_client_that_overtake_each_other_are_found() {
    for (first_call, broken) in [(0, vec![Rule::LocalOrder]), (18, vec![])] {
        let mut history = History::default();
        let first = history.call(first_call, "a", Op::Acquire, EXCLUSIVE, 5_000);
        let second = history.call(20, "a", Op::Acquire, SHARED, 5_000);
        history.grant(30, "a", second, 1, TTL);
        history.release(40, Granted { by: "a", lease: second });
        history.grant(50, "a", first, 2, TTL);
        history.release(60, Granted { by: "a", lease: first });
        assert_eq!(history.broken(), broken, "{first_call}");
    }
}

#[test]
fn a_process_that_ends_by_itself_and_a_record_without_a_call_are_found() {
    let mut history = History::default();
    history.add(10, HARNESS, What::Exited { process: "a".to_owned(), expected: false });
    history.grant(20, "b", 77, 1, TTL);
    assert_eq!(history.broken(), [Rule::Processes; 2]);
}

/// `b` waits behind `a` in the queue of a quorum's first server, and then gets the lock.
fn quorum(change: impl FnOnce(&mut History)) -> Vec<Rule> {
    let mut history = History::default();
    for by in ["a", "b", "c"] {
        history.add(0, by, What::Client { id: format!("id-of-{by}") });
    }
    let first = history.lease(10, "c", EXCLUSIVE, 1, TTL);
    history.waits(100, "id-of-a:1", 100, 5_000);
    history.waits(200, "id-of-b:1", 200, 5_000);
    history.release(350, first);
    let call = history.call(190, "b", Op::Acquire, EXCLUSIVE, 5_000);
    history.grant(650, "b", call, 3, TTL);
    history.release(660, Granted { by: "b", lease: call });
    change(&mut history);
    history.broken()
}

#[test]
fn a_client_of_a_quorum_that_waits_and_gets_the_lock_before_its_turn_is_found() {
    assert_eq!(quorum(|_| ()), [Rule::Turns]);
    let leaves = |history: &mut History, token| history.leaves(610, token);
    assert_eq!(quorum(|history| leaves(history, "id-of-a:1")), [], "it was the first in the queue");
    assert_eq!(quorum(|history| leaves(history, "id-of-b:1")), [], "it had left the queue, and has just come");
    assert_eq!(quorum(|history| history.fault((300, 400), "server-pause", false)), [], "the server was silent");
    assert_eq!(
        quorum(|history| history.fault((300, 400), "kill", false)),
        [Rule::Turns],
        "this strikes another client"
    );
    assert_eq!(quorum(|history| history.add(300, "b", What::Stalled { from: 200_000 })), [], "it was paused");
    assert_eq!(quorum(|history| history.server(300, Entry::Forgot)), [], "the queue is not known");
}

#[test]
fn a_client_of_a_quorum_may_hand_the_lock_over_after_a_try_that_came_before_others() {
    let tries = |at: u64| {
        move |history: &mut History| {
            let call = history.call(at, "b", Op::Try, EXCLUSIVE, 500);
            history.grant(at, "b", call, 2, TTL);
            history.release(at + 10, Granted { by: "b", lease: call });
        }
    };
    assert_eq!(quorum(tries(620)), []);
    assert_eq!(quorum(tries(380)), [Rule::Turns], "the lock was free for too long");
}

#[test]
fn a_waiter_that_is_dead_or_has_just_come_or_whose_server_came_back_empty_does_not_count() {
    let mut history = History::default();
    history.add(0, "b", What::Client { id: "id-of-b".to_owned() });
    history.waits(100, "id-of-a:1", 100, 5_000);
    history.waits(800, "id-of-b:1", 800, 5_000);
    let lease = history.lease(900, "b", EXCLUSIVE, 1, TTL);
    history.release(910, lease);
    assert_eq!(history.broken(), [], "no heartbeat for more than a claim window");

    let mut history = History::default();
    history.add(0, "b", What::Client { id: "id-of-b".to_owned() });
    history.waits(100, "id-of-a:1", 100, 5_000);
    let lease = history.lease(150, "b", EXCLUSIVE, 1, TTL);
    history.waits(160, "id-of-b:1", 160, 5_000);
    history.release(190, lease);
    assert_eq!(history.broken(), [], "it joined for another call");

    let mut history = History::default();
    history.waits(10, "w:1", 10, 900);
    history.fault((20, 30), "member-down", false);
    history.admitted(200, "x:1", true);
    assert_eq!(history.broken(), []);
}

#[test]
fn a_lock_that_stays_free_while_callers_wait_is_found() {
    let waits = |end: u64, change: &dyn Fn(&mut History)| {
        let mut history = History::default();
        let first = history.lease(0, "a", EXCLUSIVE, 1, TTL);
        history.release(100, first);
        // The first caller gives up, and the second one waits on.
        for (began, end) in [(50, 1_000), (900, end)] {
            let call = history.call(began, "b", Op::Acquire, EXCLUSIVE, 5_000);
            history.ended(end, "b", call, "busy");
        }
        change(&mut history);
        history.add(9_000, HARNESS, What::Started { process: "c".to_owned() });
        let verdict = history.verdict();
        (verdict.figures.longest_free, verdict.violations.iter().map(|it| it.rule).collect::<Vec<_>>())
    };
    assert_eq!(waits(2_650, &|_| ()), (2_550_000, vec![]));
    assert_eq!(waits(2_750, &|_| ()), (2_650_000, vec![Rule::Progress]));
    let delay = |history: &mut History| history.fault((300, 400), "delay", false);
    assert_eq!(waits(2_750, &delay), (2_050_000, vec![]), "the fault and half a second after it don't count");
    let kill = |history: &mut History| history.fault((300, 400), "kill", false);
    assert_eq!(waits(2_750, &kill), (2_650_000, vec![Rule::Progress]), "this strikes a client");
    let pause = |history: &mut History| history.add(2_500, "b", What::Stalled { from: 2_000_000 });
    assert_eq!(waits(2_750, &pause), (2_150_000, vec![]), "the caller was paused");
}

#[test]
fn a_lock_that_is_held_or_whose_waiter_is_dead_may_take_its_time() {
    let mut history = History::default();
    let first = history.lease(0, "a", EXCLUSIVE, 1, TTL);
    for at in [1_000, 2_000, 3_000, 4_000] {
        history.held(at, first, TTL);
    }
    let call = history.call(50, "b", Op::Acquire, EXCLUSIVE, 5_000);
    history.release(4_500, first);
    history.ended(5_000, "b", call, "busy");
    history.call(5_100, "c", Op::Acquire, EXCLUSIVE, 5_000);
    history.add(5_500, HARNESS, What::Killed { process: "c".to_owned() });
    history.add(9_000, HARNESS, What::Started { process: "d".to_owned() });
    assert_eq!(history.broken(), []);
}
