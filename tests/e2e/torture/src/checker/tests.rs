//! For each rule, a small history that keeps it and one that breaks it.

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
        self.server(at, Entry::Admitted { name, token, exclusive, clock: at });
    }

    fn verdict(mut self) -> Verdict {
        self.events.sort_by_key(|event| event.at);
        judge(&self.events)
    }

    fn broken(self) -> Vec<Rule> {
        self.verdict().violations.iter().map(|violation| violation.rule).collect()
    }
}

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
        if let Some(fault) = fault {
            history.fault((50, 400), fault, false);
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
