//! Calls that are refused because so many callers wait already.

mod world;

use std::time::Duration;

use leasehold_core::{AcquireOptions, Config, Error, Input, Kind, Mode, OpId, Owner, Part, Wait};
use leasehold_harness::answers::SERVER_US;
use world::{NAME, World, options, scripts, seconds};

/// A call that waits behind at most so many others.
fn behind(most: u32) -> AcquireOptions {
    AcquireOptions { max_waiters: Some(most), ..options() }
}

/// Client 0 holds the lock.
fn held(clients: u8) -> World {
    held_as(clients, options())
}

fn held_as(clients: u8, options: AcquireOptions) -> World {
    let mut world = World::new(clients);
    world.acquire(0, options);
    world
}

fn begin(world: &mut World, place: usize, options: AcquireOptions) -> OpId {
    let op = world.clients[place].acquire(NAME, options);
    world.serve();
    world.serve();
    op
}

/// The number that a refused call found. None if it still waits.
fn found(world: &World, place: usize, op: OpId) -> Option<u32> {
    match world.clients[place].result_of(op) {
        None => None,
        Some(Err(Error::Busy { waiters: Some(found), waited, .. })) => {
            assert!(waited.is_zero(), "at once");
            Some(*found)
        }
        Some(other) => panic!("{other:?}"),
    }
}

fn waiters_on_server(world: &World) -> usize {
    world.server.fields(SERVER_US as u64 + world.clients[0].now, b"leasehold:{job}:waiters").len()
}

#[test]
fn the_first_caller_of_a_client_is_refused_by_the_server_and_leaves_nothing_there() {
    for kind in [Kind::Lock, Kind::Semaphore { permits: 1, limit: 1 }, Kind::Once { keep: seconds(60) }] {
        let of = |options| AcquireOptions { kind, ..options };
        let mut world = held_as(4, of(options()));
        for place in 1..=2 {
            let op = begin(&mut world, place, of(behind(2)));
            assert_eq!(found(&world, place, op), None, "{kind:?}");
        }
        let op = begin(&mut world, 3, of(behind(2)));
        assert_eq!(found(&world, 3, op), Some(2), "{kind:?}");
        assert_eq!(waiters_on_server(&world), 2);
        assert!(scripts(&world.clients[3]).is_empty(), "it has nothing to give back");
        assert!(!world.carried_out.iter().any(|script| script.ends_with("release")), "{:?}", world.carried_out);
        world.pass(seconds(5));
        assert!(world.clients[3].engine.is_idle());
    }
}

#[test]
fn a_client_counts_its_own_callers_exactly_and_without_a_command() {
    for kind in [Kind::Lock, Kind::Semaphore { permits: 1, limit: 1 }] {
        let of = |options| AcquireOptions { kind, ..options };
        let mut world = held_as(2, of(options()));
        let first = begin(&mut world, 1, of(behind(30)));
        let before = world.carried_out.len();
        let ops: Vec<_> = (0..40).map(|_| begin(&mut world, 1, of(behind(30)))).collect();
        assert_eq!(found(&world, 1, first), None);
        let refused: Vec<_> = ops.iter().filter_map(|op| found(&world, 1, *op)).collect();
        assert_eq!(refused, [30; 11], "{kind:?}");
        assert_eq!(world.carried_out.len(), before, "{kind:?}");
    }
}

#[test]
fn a_burst_is_admitted_up_to_the_number_in_its_order() {
    for kind in [Kind::Lock, Kind::Semaphore { permits: 1, limit: 1 }] {
        let of = |options| AcquireOptions { kind, ..options };
        let mut world = held_as(2, of(options()));
        let ops: Vec<_> = (0..50).map(|_| world.clients[1].acquire(NAME, of(behind(10)))).collect();
        world.serve();
        world.serve();
        world.serve();
        let waits: Vec<_> = (0..50).filter(|at| found(&world, 1, ops[*at]).is_none()).collect();
        assert_eq!(waits, (0..10).collect::<Vec<_>>(), "{kind:?}");
    }
}

#[test]
fn the_callers_of_other_clients_count_as_their_last_heartbeats_say() {
    for kind in [Kind::Lock, Kind::Semaphore { permits: 1, limit: 1 }] {
        let of = |options| AcquireOptions { kind, ..options };
        let mut world = held_as(3, of(options()));
        for _ in 0..5 {
            begin(&mut world, 1, of(options()));
        }
        let early = begin(&mut world, 2, of(behind(4)));
        assert_eq!(found(&world, 2, early), None, "one was known");
        world.pass(seconds(1));
        let late = begin(&mut world, 2, of(behind(6)));
        assert_eq!(found(&world, 2, late), Some(6), "five, and one of its own");
        assert_eq!(found(&world, 2, early), None, "an admitted caller stays");
    }
}

#[test]
fn a_caller_that_gives_up_makes_room_with_the_next_heartbeat() {
    let mut world = held(3);
    let ops: Vec<_> = (0..3).map(|_| begin(&mut world, 1, options())).collect();
    world.pass(seconds(1));
    let refused = begin(&mut world, 2, behind(3));
    assert_eq!(found(&world, 2, refused), Some(3));
    world.clients[1].feed(Input::Cancel { op: ops[1] });
    let refused = begin(&mut world, 2, behind(3));
    assert_eq!(found(&world, 2, refused), Some(3), "the server does not know it yet");
    world.pass(seconds(1));
    let waits = begin(&mut world, 2, behind(3));
    assert_eq!(found(&world, 2, waits), None);
}

#[test]
fn a_caller_that_comes_to_a_waiting_client_asks_once_how_many_wait_elsewhere() {
    let mut world = held(3);
    for _ in 0..5 {
        begin(&mut world, 1, options());
    }
    begin(&mut world, 2, options());
    world.pass(Duration::from_millis(1_100));
    let before = world.carried_out.len();
    let refused = begin(&mut world, 2, behind(6));
    world.pass(Duration::from_millis(1));
    assert_eq!(found(&world, 2, refused), Some(6));
    assert_eq!(world.carried_out.len(), before + 1, "a heartbeat that comes early");
    let refused = begin(&mut world, 2, behind(3));
    assert_eq!(found(&world, 2, refused), Some(6));
    assert_eq!(world.carried_out.len(), before + 1);
}

#[test]
fn a_call_that_waits_behind_nobody_gets_a_free_lock_and_is_refused_while_it_is_held() {
    let mut world = World::new(2);
    let op = begin(&mut world, 0, behind(0));
    let lease = world.clients[0].grant_of(op).lease;
    for place in [0, 1] {
        let op = begin(&mut world, place, behind(0));
        assert_eq!(found(&world, place, op), Some(0));
    }
    world.call(0, |op| Input::Release { op, lease });
    let op = begin(&mut world, 1, behind(0));
    world.clients[1].grant_of(op);
}

#[test]
fn a_caller_that_can_be_granted_is_not_refused_and_waiting_readers_count() {
    let reader = |most| AcquireOptions { mode: Mode::Shared, ..behind(most) };
    let mut world = World::new(3);
    for place in 0..2 {
        for _ in 0..3 {
            let op = begin(&mut world, place, reader(0));
            world.clients[place].grant_of(op);
        }
    }
    let writer = begin(&mut world, 2, behind(1));
    assert_eq!(found(&world, 2, writer), None);
    world.pass(seconds(1));
    for place in 0..2 {
        let op = begin(&mut world, place, reader(1));
        assert_eq!(found(&world, place, op), Some(1), "it would wait behind the writer");
    }
    let waits = begin(&mut world, 0, AcquireOptions { max_waiters: None, ..reader(0) });
    assert_eq!(found(&world, 0, waits), None);
    world.pass(seconds(1));
    let op = begin(&mut world, 2, behind(2));
    assert_eq!(found(&world, 2, op), Some(2));
}

#[test]
fn the_client_that_holds_the_lock_counts_its_own_callers_and_each_other_client_once() {
    let mut world = held(3);
    for _ in 0..4 {
        begin(&mut world, 1, options());
    }
    // The holder hears of waiters with the next answer about its lease.
    begin(&mut world, 0, options());
    world.pass(seconds(1));
    let op = begin(&mut world, 0, behind(1));
    assert!(found(&world, 0, op).is_some_and(|found| found >= 1));
}

#[test]
fn the_next_caller_waits_after_a_refused_one_at_the_same_client() {
    let mut world = held(3);
    for _ in 0..3 {
        begin(&mut world, 1, options());
    }
    world.pass(seconds(1));
    let [refused, waits] = [behind(2), options()].map(|options| world.clients[2].acquire(NAME, options));
    world.serve();
    world.serve();
    world.serve();
    assert_eq!(found(&world, 2, refused), Some(3));
    assert_eq!(found(&world, 2, waits), None);
    assert_eq!(waiters_on_server(&world), 2);
}

#[test]
fn a_refusal_that_arrives_after_a_newer_answer_changes_nothing() {
    let mut world = held(3);
    let subscribes = begin(&mut world, 2, options());
    world.clients[2].feed(Input::Cancel { op: subscribes });
    let other = begin(&mut world, 1, options());
    let op = world.clients[2].acquire(NAME, behind(1));
    let (id, refusal) = world.carry_out(2);
    world.clients[1].feed(Input::Cancel { op: other });
    world.serve();
    world.pass_in_silence(seconds(1));
    let (again, waits) = world.carry_out(2);
    world.clients[2].reply(again, waits);
    world.clients[2].reply(id, refusal);
    assert!(scripts(&world.clients[2]).is_empty(), "it waits already");
    assert_eq!(found(&world, 2, op), None);
    world.clients[2].feed(Input::Cancel { op });
    world.serve();
    assert_eq!(waiters_on_server(&world), 0, "its client knows that it has to leave the queue");
}

/// Client 0 has the only permit, and client 1 waits with two tokens and ten callers behind them.
fn two_tokens_wait() -> (World, impl Fn(AcquireOptions) -> AcquireOptions) {
    let of = |options| AcquireOptions { kind: Kind::Semaphore { permits: 1, limit: 1 }, ..options };
    let mut world = World::new(3);
    let lease = world.acquire(0, of(options()));
    world.clients[1].acquire(NAME, of(behind(20)));
    world.clients[1].acquire(NAME, of(behind(20)));
    (0..3).for_each(|_| world.serve());
    assert_eq!(waiters_on_server(&world), 2);
    for _ in 0..10 {
        begin(&mut world, 1, of(behind(20)));
    }
    // Each token hears of the other one's callers.
    world.pass(seconds(5));
    world.call(0, |op| Input::Release { op, lease });
    assert_eq!(waiters_on_server(&world), 1);
    (world, of)
}

#[test]
fn a_caller_counts_once_after_another_token_of_its_client_was_granted() {
    let (mut world, of) = two_tokens_wait();
    let op = begin(&mut world, 1, of(behind(15)));
    assert_eq!(found(&world, 1, op), None, "11 wait");
    for expected in [None, Some(13), Some(13)] {
        let op = begin(&mut world, 1, of(behind(13)));
        assert_eq!(found(&world, 1, op), expected);
    }
}

#[test]
fn a_caller_counts_once_after_the_answer_to_an_earlier_token_comes_late() {
    let of = |options| AcquireOptions { kind: Kind::Semaphore { permits: 1, limit: 1 }, ..options };
    let mut world = World::new(3);
    world.acquire(0, of(options()));
    let subscribes = begin(&mut world, 1, of(options()));
    world.clients[1].feed(Input::Cancel { op: subscribes });
    world.serve();
    (0..2).for_each(|_| _ = world.clients[1].acquire(NAME, of(behind(20))));
    let _late = world.carry_out(1);
    (0..10).for_each(|_| _ = begin(&mut world, 1, of(behind(20))));
    world.pass(Duration::from_millis(2_005));
    let op = begin(&mut world, 1, of(behind(15)));
    assert_eq!(found(&world, 1, op), None, "13 wait");
    let op = begin(&mut world, 1, of(behind(13)));
    assert_eq!(found(&world, 1, op), Some(13));
}

#[test]
fn callers_of_a_semaphore_that_gave_up_do_not_count_after_the_next_heartbeat() {
    let of = |options| AcquireOptions { kind: Kind::Semaphore { permits: 1, limit: 1 }, ..options };
    let mut world = World::new(3);
    world.acquire(0, of(options()));
    begin(&mut world, 1, of(options()));
    let ops: Vec<_> = (0..5).map(|_| begin(&mut world, 1, of(options()))).collect();
    world.pass(seconds(1));
    ops.into_iter().for_each(|op| world.clients[1].feed(Input::Cancel { op }));
    world.pass(seconds(1));
    let op = begin(&mut world, 2, of(behind(2)));
    assert_eq!(found(&world, 2, op), None, "one waits");
}

#[test]
fn a_caller_of_a_semaphore_counts_once_when_its_client_asks_with_another_token() {
    let of = |options| AcquireOptions { kind: Kind::Semaphore { permits: 1, limit: 1 }, ..options };
    let mut world = World::new(3);
    let lease = world.acquire(0, of(options()));
    (0..6).for_each(|_| _ = begin(&mut world, 1, of(options())));
    world.pass(seconds(1));
    // The message with the grant is lost, and an operator takes the permit before the next heartbeat.
    world.still[1] = true;
    world.call(0, |op| Input::Release { op, lease });
    world.call(2, |op| Input::ForceRelease { op, name: NAME, foreign: false });
    world.acquire(0, of(options()));
    world.still[1] = false;
    world.pass(Duration::from_millis(1_100));
    let op = begin(&mut world, 2, of(behind(7)));
    assert_eq!(found(&world, 2, op), None, "six wait");
}

#[test]
fn what_has_no_queue_on_one_server_refuses_the_option() {
    let reentrant = AcquireOptions { kind: Kind::Reentrant(Owner(1)), ..behind(3) };
    let unsupported = |world: &mut World, options| {
        let op = begin(world, 0, options);
        let result = world.clients[0].result_of(op).cloned();
        assert!(matches!(result, Some(Err(Error::Unsupported(_)))), "{result:?}");
    };
    unsupported(&mut World::new(1), reentrant);
    let mixed = Config { mixed_fleet: true, ..Config::default() };
    unsupported(&mut World::with(1, &mixed), behind(3));
    let mut world = World::new(1);
    let (parts, all) = (Part::mutexes(&["a", "b"]), behind(3));
    let op = world.clients[0].call(|op| Input::AcquireAll { op, parts: &parts, options: &all, one_script: false });
    assert!(matches!(world.clients[0].result_of(op), Some(Err(Error::Unsupported(_)))));
    let op = begin(&mut world, 0, behind(1_000_001));
    let result = world.clients[0].result_of(op).cloned();
    assert!(matches!(result, Some(Err(Error::InvalidOption { field: "max_waiters", .. }))), "{result:?}");
    let tries = begin(&mut world, 0, AcquireOptions { wait: Wait::No, ..behind(0) });
    world.clients[0].grant_of(tries);
}

#[test]
fn the_error_says_why() {
    let mut world = held(2);
    begin(&mut world, 0, options());
    let op = begin(&mut world, 0, behind(1));
    let text = world.clients[0].result_of(op).and_then(|result| result.as_ref().err()).unwrap().to_string();
    assert!(text.starts_with("busy: the limit of waiting callers is reached (1); the holder's lease"), "{text}");
}
