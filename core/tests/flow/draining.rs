//! A client that drains: it grants nothing more, renews what is held, and ends when the last lease is given back or its time
//! is over.

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, Config, Error, Input, Instant, Kind, LeaseId, Mode, NodeId, OpId, Outcome, Owner, Part,
    ReleaseOutcome, Wait,
};

use super::client::{Client, SERVER_US, denied, entries, fixed, name_of, status, words};

const MINUTE: Duration = Duration::from_secs(60);
const OWN: &str = "leasehold:07070707-0707-0707-0707-070707070707";

fn renewed() -> AcquireOptions {
    AcquireOptions { wait: Wait::Forever, ..AcquireOptions::default() }
}

/// Its commands are those whose answers the harness knows for every kind.
fn without_batches() -> Client {
    Client::new(Config { batches: false, ..Config::default() })
}

fn acquires_all(client: &mut Client, names: [&str; 2]) -> OpId {
    let (options, parts) = (renewed(), Part::mutexes(&names));
    client.call(|op| Input::AcquireAll { op, parts: &parts, options: &options, one_script: false })
}

fn drains(client: &mut Client, grace: Duration) -> OpId {
    client.call(|op| Input::Drain { op, grace })
}

/// The server answers everything. It still has the leases for which the client asks for more fences.
fn serves(client: &mut Client) {
    while let Some((id, command)) = client.unanswered.first().cloned() {
        if words(&command).iter().any(|word| word == "refill") {
            client.unanswered.remove(0);
            let server = SERVER_US + client.now as i64;
            client.reply(id, Ok(status("again", [server, 33, server, 30_000, 0, 0])));
        } else {
            client.answer();
        }
    }
}

fn closes(client: &mut Client) -> Option<(u32, u32)> {
    let op = client.call(|op| Input::Close { op });
    client.serve(Duration::from_micros(10));
    match client.result_of(op) {
        Some(Ok(Outcome::Closed { lost, unreleased })) => Some((*lost, *unreleased)),
        _ => None,
    }
}

fn is_closed(client: &Client, op: OpId) -> bool {
    client.result_of(op) == Some(&Err(Error::Closed))
}

fn is_drained(client: &Client, op: OpId) -> bool {
    match client.result_of(op) {
        None => false,
        Some(result) => *result == Ok(Outcome::Drained) || panic!("{result:?}"),
    }
}

/// Gives a lease back, and answers that. Other commands stay unanswered.
fn releases(client: &mut Client, lease: LeaseId) {
    client.call(|op| Input::Release { op, lease });
    client.serve(Duration::from_micros(10));
}

#[test]
fn a_drain_lets_the_holders_finish_and_nobody_begin() {
    let mut client = Client::new(Config::default());
    let held = client.hold(1, renewed())[0];
    let elsewhere = client.acquire("busy", renewed());
    client.leave_undone();
    client.answer_with(Ok(denied("busy")));
    let behind = client.acquire("n0", renewed());
    let op = drains(&mut client, 10 * MINUTE);
    assert!(is_closed(&client, behind) && is_closed(&client, elsewhere), "{:?}", client.ended);
    for options in [renewed(), AcquireOptions { wait: Wait::No, ..renewed() }] {
        let late = client.acquire("free", options);
        assert!(is_closed(&client, late), "a lock that is free");
        let late = client.acquire("n0", options);
        assert!(is_closed(&client, late), "a lock that is held here");
    }
    let several = acquires_all(&mut client, ["a", "b"]);
    assert!(is_closed(&client, several));
    assert!(client.unanswered.iter().all(|(_, command)| ["busy", "n0"].contains(&&*name_of(command))));
    serves(&mut client);

    // Nine minutes are many renewals.
    for _ in 0..9 * 60 {
        client.pass(Duration::from_secs(1));
        client.serve(Duration::from_micros(10));
    }
    assert_eq!((&client.lost[..], is_drained(&client, op)), (&[][..], false));
    let extend = client.call(|op| Input::Extend { op, lease: held, ttl: MINUTE });
    let verify = client.call(|op| Input::Verify { op, lease: held });
    let nested = client.call(|op| Input::Hold { op, lease: held });
    client.serve(Duration::from_micros(10));
    assert!(matches!(client.result_of(extend), Some(Ok(Outcome::Extended { .. }))));
    assert_eq!(client.result_of(verify), Some(&Ok(Outcome::Verified(true))));
    assert_eq!(client.result_of(nested), Some(&Ok(Outcome::Held(2))));
    releases(&mut client, held);
    assert!(!is_drained(&client, op), "one hold is left");

    let last = client.call(|op| Input::Release { op, lease: held });
    assert!(is_drained(&client, op), "at once, and not when the server has answered");
    assert_eq!(closes(&mut client), Some((0, 0)));
    assert_eq!(client.result_of(last), Some(&Ok(Outcome::Released(ReleaseOutcome::Released))));
    assert!(client.engine.is_idle());
}

#[test]
fn a_drain_ends_when_its_time_is_over_and_the_close_counts_what_it_takes() {
    let mut client = Client::new(Config::default());
    client.hold(3, renewed());
    let op = drains(&mut client, MINUTE);
    for _ in 0..59 {
        client.pass(Duration::from_secs(1));
        client.serve(Duration::ZERO);
    }
    assert!(!is_drained(&client, op) && client.lost.is_empty());
    client.pass(Duration::from_secs(1));
    assert!(is_drained(&client, op));
    assert_eq!(closes(&mut client), Some((3, 0)));
    assert_eq!(closes(&mut client), Some((3, 0)), "a second close gets the same answer");
    assert!(client.engine.is_idle());
}

#[test]
fn a_drain_without_leases_ends_at_once_and_so_does_one_without_time() {
    let mut client = Client::new(Config::default());
    let op = drains(&mut client, MINUTE);
    assert!(is_drained(&client, op));
    let mut client = Client::new(Config::default());
    client.hold(1, renewed());
    let op = drains(&mut client, Duration::ZERO);
    assert!(is_drained(&client, op));
    assert_eq!(closes(&mut client), Some((1, 0)));
}

#[test]
fn a_close_ends_every_drain_and_the_shortest_of_several_ends_first() {
    let mut client = Client::new(Config::default());
    client.hold(1, fixed());
    let long = drains(&mut client, 2 * MINUTE);
    let short = drains(&mut client, MINUTE);
    client.pass(MINUTE);
    assert!(is_drained(&client, short) && !is_drained(&client, long));
    assert_eq!(closes(&mut client), Some((1, 0)));
    assert!(is_drained(&client, long));
    let late = drains(&mut client, MINUTE);
    assert!(is_drained(&client, late), "nothing is left to drain");
    assert_eq!(client.lost, [], "a driver tells the holders before it closes the engine");
}

#[test]
fn a_pause_of_the_process_gives_a_drain_no_more_time() {
    let mut client = Client::new(Config::default());
    client.hold(1, fixed());
    let op = drains(&mut client, MINUTE);
    client.now += 60_500_000;
    client.engine.catch_up(Instant::from_micros(client.now));
    client.feed(Input::Wake);
    assert!(is_drained(&client, op), "the time that the process has before it is killed goes on in a pause");
}

#[test]
fn a_lost_lease_is_not_waited_for() {
    let mut client = Client::new(Config::default());
    client.hold(1, AcquireOptions { max_hold: Some(MINUTE), ..renewed() });
    let op = drains(&mut client, 10 * MINUTE);
    for _ in 0..60 {
        assert!(!is_drained(&client, op));
        client.pass(Duration::from_secs(1));
        client.serve(Duration::ZERO);
    }
    assert_eq!(client.lost.len(), 1);
    assert!(is_drained(&client, op));
    assert_eq!(closes(&mut client), Some((0, 0)));
}

#[test]
fn leases_that_linger_go_back_at_once_and_no_lease_lingers_any_more() {
    let mut client = Client::new(Config::default());
    let linger = AcquireOptions { linger: Some(Duration::from_secs(30)), ..renewed() };
    let leases = client.hold(2, linger);
    client.feed(Input::Subscribed { node: NodeId(0), channel: OWN });
    releases(&mut client, leases[0]);
    assert_eq!(client.engine.lingering(), [("n0", Mode::Exclusive)]);
    let op = drains(&mut client, MINUTE);
    assert!(client.engine.lingering().is_empty());
    let released = |client: &mut Client| client.unanswered.drain(..).map(|(_, it)| name_of(&it)).collect::<Vec<_>>();
    assert_eq!(released(&mut client), ["n0"]);
    client.call(|op| Input::Release { op, lease: leases[1] });
    assert_eq!(released(&mut client), ["n1"]);
    assert!(is_drained(&client, op));
}

#[test]
fn only_the_owner_of_a_reentrant_lock_may_take_more_holds_of_it() {
    let mut client = without_batches();
    let of = |owner| AcquireOptions { kind: Kind::Reentrant(Owner(owner)), ..renewed() };
    let lease = client.hold(1, of(1))[0];
    let op = drains(&mut client, MINUTE);
    let other = client.acquire("n0", of(2));
    assert!(is_closed(&client, other));
    let mutex = client.acquire("n0", renewed());
    assert!(is_closed(&client, mutex));
    let again = client.acquire("n0", of(1));
    assert_eq!(client.grant_of(again).lease, lease);
    releases(&mut client, lease);
    assert!(!is_drained(&client, op));
    releases(&mut client, lease);
    assert!(is_drained(&client, op));
    let late = client.acquire("n0", of(1));
    assert!(is_closed(&client, late));
}

#[test]
fn callers_of_a_semaphore_end_and_its_holders_finish() {
    let mut client = without_batches();
    let permit = AcquireOptions { kind: Kind::Semaphore { permits: 1, limit: 40 }, ..renewed() };
    let held = client.acquire("reports", permit);
    client.serve(Duration::ZERO);
    let waiting: Vec<_> = (0..100).map(|_| client.acquire("reports", permit)).collect();
    let op = drains(&mut client, MINUTE);
    assert!(waiting.iter().all(|op| is_closed(&client, *op)));
    client.serve(Duration::ZERO);
    let lease = client.grant_of(held).lease;
    releases(&mut client, lease);
    assert!(is_drained(&client, op));
    assert_eq!(closes(&mut client), Some((0, 0)));
    assert!(client.engine.is_idle());
}

#[test]
fn a_lease_of_several_names_is_one_that_is_waited_for_and_one_that_is_lost() {
    for gives_back in [true, false] {
        let mut client = Client::new(Config::default());
        // Its names are in several slots, so the first one is held while the other one is waited for.
        client.engine.set_cluster(NodeId(0));
        let first = acquires_all(&mut client, ["a", "b"]);
        client.serve(Duration::ZERO);
        let Some(Ok(Outcome::AcquiredAll { lease, .. })) = client.result_of(first) else {
            panic!("{:?}", client.ended)
        };
        let lease = *lease;
        // It has one of its names, and waits for the other.
        let half = acquires_all(&mut client, ["0", "a"]);
        client.answer();
        let op = drains(&mut client, MINUTE);
        assert!(is_closed(&client, half), "{:?}", client.ended);
        let releases_0 =
            |(_, command): &(_, _)| entries(command).is_some_and(|all| all[0].what == "release" && all[0].name == "0");
        assert!(client.unanswered.iter().any(releases_0), "what it had goes back");
        serves(&mut client);
        assert!(!is_drained(&client, op));
        if gives_back {
            releases(&mut client, lease);
            assert!(is_drained(&client, op));
            assert_eq!(closes(&mut client), Some((0, 0)));
        } else {
            assert_eq!(closes(&mut client), Some((1, 0)));
            assert!(is_drained(&client, op));
        }
        assert!(client.engine.is_idle());
    }
}

#[test]
fn a_time_that_is_too_long_is_refused_and_the_client_stays_open() {
    let mut client = Client::new(Config::default());
    let op = drains(&mut client, 31 * 24 * 60 * MINUTE);
    let error = client.result_of(op).cloned();
    assert!(matches!(error, Some(Err(Error::InvalidOption { field: "drain", .. }))), "{error:?}");
    client.ended.clear();
    client.hold(1, renewed());
}

#[test]
fn who_holds_a_lock_can_be_asked_while_the_client_drains() {
    let mut client = Client::new(Config::default());
    client.hold(1, renewed());
    drains(&mut client, MINUTE);
    let op = client.call(|op| Input::Inspect { op, name: "n0" });
    assert_eq!(client.result_of(op), None);
    assert!(words(&client.unanswered[0].1)[3].contains("n0"));
}
