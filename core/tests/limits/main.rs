//! One lease of several locks of any kind.

#[path = "../world/mod.rs"]
mod world;

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, ClientId, Config, Engine, Error, Failure, Input, Kind, LeaseId, LossReason, Mode, OpId, Outcome,
    Owner, Part, ReleaseOutcome, Wait,
};
use leasehold_harness::Client;

use self::world::{World, scripts, seconds};

const TRY: AcquireOptions = AcquireOptions { wait: Wait::No, ..DEFAULT };
const FOREVER: AcquireOptions = AcquireOptions { wait: Wait::Forever, ..DEFAULT };
const DEFAULT: AcquireOptions = AcquireOptions::DEFAULT;

const fn mutex(name: &str) -> Part<'_> {
    Part { name, kind: Kind::Lock, mode: Mode::Exclusive }
}

const fn reader(name: &str) -> Part<'_> {
    Part { mode: Mode::Shared, ..mutex(name) }
}

const fn permits(name: &str, permits: u32, limit: u32) -> Part<'_> {
    Part { kind: Kind::Semaphore { permits, limit }, ..mutex(name) }
}

/// Begins to acquire these parts.
fn want(world: &mut World, place: usize, parts: &[Part<'_>], options: &AcquireOptions) -> OpId {
    let op = world.clients[place].call(|op| Input::AcquireAll { op, parts, options, one_script: false });
    settle(world);
    op
}

/// The server answers until no client has anything more to say.
fn settle(world: &mut World) {
    while world.clients.iter().zip(&world.still).any(|(client, still)| !still && !client.unanswered.is_empty()) {
        world.serve();
    }
    // A client may have subscribed with its last input.
    world.serve();
}

fn granted(world: &World, place: usize, op: OpId) -> Option<(LeaseId, Vec<u64>)> {
    match world.clients[place].result_of(op) {
        None => None,
        Some(Ok(Outcome::AcquiredAll { lease, fences, .. })) => Some((*lease, fences.clone())),
        other => panic!("{other:?}"),
    }
}

fn held(world: &mut World, place: usize, parts: &[Part<'_>]) -> LeaseId {
    let op = want(world, place, parts, &DEFAULT);
    granted(world, place, op).unwrap_or_else(|| panic!("not acquired")).0
}

fn give_back(world: &mut World, place: usize, lease: LeaseId) {
    let op = world.clients[place].call(|op| Input::Release { op, lease });
    settle(world);
    let released = Ok(Outcome::Released(ReleaseOutcome::Released));
    assert_eq!(world.clients[place].result_of(op), Some(&released));
}

/// Whether a try of this client gets this lock alone. It gives it back.
fn is_free(world: &mut World, place: usize, part: Part<'_>) -> bool {
    let options = AcquireOptions { kind: part.kind, mode: part.mode, ..TRY };
    let op = world.clients[place].acquire(part.name, options);
    settle(world);
    match world.clients[place].result_of(op) {
        Some(Ok(Outcome::Acquired(grant))) => {
            let lease = grant.lease;
            give_back(world, place, lease);
            true
        }
        Some(Err(Error::Busy { .. })) => false,
        other => panic!("{other:?}"),
    }
}

fn assert_idle(world: &World) {
    for client in &world.clients {
        assert!(client.engine.is_idle(), "something is left over");
    }
}

/// Drops what a client keeps for the next calls of its users.
fn close(world: &mut World) {
    for place in 0..world.clients.len() {
        world.clients[place].call(|op| Input::Close { op });
    }
    settle(world);
    assert_idle(world);
}

#[test]
fn one_lease_has_mutexes_readers_and_permits() {
    let mut world = World::new(2);
    let parts = [permits("tenant", 2, 3), mutex("order"), reader("page"), permits("all", 1, 25)];
    let op = want(&mut world, 0, &parts, &DEFAULT);
    let (lease, fences) = granted(&world, 0, op).unwrap();
    assert_eq!(fences.len(), 4);

    assert!(!is_free(&mut world, 1, mutex("order")));
    assert!(!is_free(&mut world, 1, mutex("page")) && is_free(&mut world, 1, reader("page")));
    assert!(!is_free(&mut world, 1, permits("tenant", 2, 3)) && is_free(&mut world, 1, permits("tenant", 1, 3)));
    assert!(!is_free(&mut world, 1, permits("all", 25, 25)) && is_free(&mut world, 1, permits("all", 24, 25)));

    let verified = world.call(0, |op| Input::Verify { op, lease });
    assert_eq!(verified, Some(Ok(Outcome::Verified(true))));
    let extended = world.call(0, |op| Input::Extend { op, lease, ttl: seconds(600) });
    assert!(matches!(extended, Some(Ok(Outcome::Extended { .. }))), "{extended:?}");
    // All parts are renewed.
    world.pass(seconds(900));
    assert!(!is_free(&mut world, 1, permits("tenant", 2, 3)) && !is_free(&mut world, 1, mutex("order")));

    give_back(&mut world, 0, lease);
    for part in [mutex("order"), mutex("page"), permits("tenant", 3, 3), permits("all", 25, 25)] {
        assert!(is_free(&mut world, 1, part), "{part:?}");
    }
    close(&mut world);
}

#[test]
fn groups_in_opposite_orders_never_deadlock() {
    let mut world = World::new(3);
    let parts = [permits("a", 1, 1), mutex("b"), permits("c", 2, 3), reader("d")];
    let calls: Vec<(usize, OpId)> = (0..30)
        .map(|number| {
            let (place, mut parts) = (number % 3, parts);
            parts.rotate_left(number % 4);
            (place, want(&mut world, place, &parts, &FOREVER))
        })
        .collect();
    let mut open = calls;
    while !open.is_empty() {
        let held: Vec<_> =
            open.iter().filter_map(|(place, op)| Some((*place, *op, granted(&world, *place, *op)?.0))).collect();
        assert_eq!(held.len(), 1, "one at a time has all parts");
        for (place, op, lease) in held {
            give_back(&mut world, place, lease);
            open.retain(|call| *call != (place, op));
        }
        world.pass(seconds(1));
    }
    close(&mut world);
}

#[test]
fn a_lost_permit_ends_the_whole_lease() {
    let mut world = World::new(2);
    let lease = held(&mut world, 0, &[mutex("order"), permits("tenant", 1, 1)]);
    world.call(1, |op| Input::ForceRelease { op, name: "tenant", foreign: false });
    // The next renewal finds out.
    world.pass(seconds(30));
    assert!(matches!(world.clients[0].lost[..], [(lost, _, LossReason::Gone)] if lost == lease));
    assert!(is_free(&mut world, 1, mutex("order")) && is_free(&mut world, 1, permits("tenant", 1, 1)));
}

#[test]
fn a_call_that_ends_while_it_waits_gives_everything_back() {
    let mut world = World::new(2);
    let holder = held(&mut world, 0, &[permits("tenant", 2, 2)]);
    let parts = [mutex("order"), permits("tenant", 1, 2)];
    // More callers than lanes that ask.
    let calls: Vec<OpId> = (0..20).map(|_| want(&mut world, 1, &parts, &FOREVER)).collect();
    let limited = AcquireOptions { wait: Wait::For(seconds(5)), ..DEFAULT };
    let late = want(&mut world, 1, &parts, &limited);
    let tried = want(&mut world, 1, &parts, &TRY);
    assert!(matches!(world.clients[1].result_of(tried), Some(Err(Error::Busy { .. }))));
    world.pass(seconds(6));
    match world.clients[1].result_of(late) {
        Some(Err(Error::Busy { waited, .. })) => assert_eq!(*waited, seconds(5)),
        other => panic!("{other:?}"),
    }
    for op in calls {
        world.clients[1].feed(Input::Cancel { op });
        assert_eq!(world.clients[1].result_of(op), Some(&Err(Error::Cancelled)));
    }
    settle(&mut world);
    give_back(&mut world, 0, holder);
    assert!(is_free(&mut world, 0, mutex("order")) && is_free(&mut world, 0, permits("tenant", 2, 2)));
    close(&mut world);
}

#[test]
fn a_busy_error_names_the_first_part_that_is_not_free() {
    for (wait, place) in [(Wait::No, 0), (Wait::No, 1), (Wait::For(seconds(1)), 0), (Wait::For(seconds(1)), 1)] {
        let mut world = World::new(2);
        held(&mut world, 0, &[permits("tenant", 2, 2)]);
        let parts = [mutex("order"), permits("tenant", 1, 2), permits("all", 1, 25)];
        let op = want(&mut world, place, &parts, &AcquireOptions { wait, ..DEFAULT });
        world.pass(seconds(2));
        settle(&mut world);
        match world.clients[place].result_of(op) {
            Some(Err(error @ Error::Busy { busy_name: Some(name), .. })) => {
                assert_eq!(name, "tenant");
                assert!(error.to_string().contains(", because of `tenant`"), "{error}");
            }
            other => panic!("{wait:?} of client {place}: {other:?}"),
        }
    }
}

#[test]
fn other_kinds_and_rates_and_semaphores_of_a_quorum_are_unsupported() {
    let refuses_with = |client: &mut Client, parts: &[Part<'_>], options: &AcquireOptions| {
        let op = client.call(|op| Input::AcquireAll { op, parts, options, one_script: false });
        assert!(client.unanswered.is_empty(), "nothing is sent");
        assert!(matches!(client.result_of(op), Some(Err(Error::Unsupported(_)))), "{:?}", client.result_of(op));
    };
    let refuses = |client: &mut Client, part| refuses_with(client, &[mutex("a"), part], &TRY);
    let kind = |kind| Part { kind, ..mutex("b") };
    let mut client = Client::new(Config::default());
    let rate = AcquireOptions { per: Some(seconds(60)), ..TRY };
    refuses_with(&mut client, &[permits("a", 1, 2), permits("b", 1, 2)], &rate);
    for other in [Kind::Reentrant(Owner(1)), Kind::Once { keep: seconds(60) }, Kind::Election] {
        refuses(&mut client, kind(other));
    }
    let id = ClientId::from_random([7; 16]);
    let mut quorum = Client::of(Engine::quorum(id, Config::default(), &["a", "b", "c"]).unwrap());
    refuses(&mut quorum, permits("b", 1, 1));
    let parts = [mutex("a"), permits("b", 3, 2)];
    let op = client.call(|op| Input::AcquireAll { op, parts: &parts, options: &TRY, one_script: false });
    assert!(matches!(client.result_of(op), Some(Err(Error::InvalidOption { field: "permits", .. }))));
}

/// A client with many callers of one tenant, which has this limit.
fn crowd(world: &mut World, place: usize, tenant: &str, callers: usize) -> Vec<OpId> {
    let parts = [permits(tenant, 1, 2), permits("openai", 1, 25)];
    (0..callers).map(|_| want(world, place, &parts, &FOREVER)).collect()
}

#[test]
fn waiters_of_a_full_tenant_hold_nothing_of_what_tenants_share() {
    for one_client in [true, false] {
        let mut world = World::new(4);
        let calls = crowd(&mut world, 0, "tenant:a", 102);
        let running = calls.iter().filter(|op| granted(&world, 0, **op).is_some()).count();
        assert_eq!(running, 2, "of tenant a");

        let place = if one_client { 0 } else { 1 };
        let began = world.clients[place].now;
        let op = crowd(&mut world, place, "tenant:b", 1)[0];
        assert!(granted(&world, place, op).is_some(), "tenant b starts at once");
        assert_eq!(world.clients[place].now, began);
        assert!(is_free(&mut world, 2, permits("openai", 22, 25)), "the waiters hold nothing");
        assert!(!is_free(&mut world, 2, permits("openai", 23, 25)));
    }
}

#[test]
fn a_tenants_callers_are_served_in_order() {
    let mut world = World::new(2);
    let calls = crowd(&mut world, 0, "tenant:a", 20);
    for at in 0..20 {
        let (lease, _) = granted(&world, 0, calls[at]).unwrap_or_else(|| panic!("call {at}"));
        let later = calls.iter().skip(at + 2);
        assert!(later.clone().all(|op| granted(&world, 0, *op).is_none()));
        give_back(&mut world, 0, lease);
    }
    close(&mut world);
}

#[test]
fn a_caller_with_many_limits_is_served_under_steady_load_of_others() {
    let mut world = World::new(4);
    let names = ["a", "b", "c", "d"];
    let parts: Vec<_> = names.iter().map(|name| permits(name, 1, 1)).collect();
    let alone = |world: &mut World, place: usize, name: &str| {
        let options = AcquireOptions { kind: permits(name, 1, 1).kind, ..FOREVER };
        (place, world.clients[place].acquire(name, options))
    };
    // Two clients with a caller for each limit, so that there is always one that waits.
    let mut open: Vec<_> = (0..8).map(|at| (names[at % 4], alone(&mut world, at / 4, names[at % 4]))).collect();
    settle(&mut world);
    let many: Vec<_> = [2, 2, 3].map(|place| (place, want(&mut world, place, &parts, &FOREVER))).into();
    let mut served = 0;
    for turn in 0..400 {
        world.pass(Duration::from_millis(100));
        for (place, op) in &many {
            if let Some((lease, _)) = granted(&world, *place, *op)
                && world.clients[*place].engine.lease(lease).is_some()
            {
                give_back(&mut world, *place, lease);
                served += 1;
            }
        }
        if served == many.len() {
            break;
        }
        assert!(turn < 399, "{served} served");
        // One of the holders after the other gives its limit back, and comes again.
        let at = turn % open.len();
        let (name, (place, op)) = open[at];
        if let Some(Ok(Outcome::Acquired(grant))) = world.clients[place].result_of(op) {
            let lease = grant.lease;
            give_back(&mut world, place, lease);
            open[at] = (name, alone(&mut world, place, name));
            settle(&mut world);
        }
    }
}

#[test]
fn a_client_that_dies_with_several_limits_gives_them_back_within_one_ttl() {
    let mut world = World::new(2);
    let parts = [permits("a", 2, 2), mutex("b"), reader("c")];
    let options = AcquireOptions { ttl: seconds(5), ..DEFAULT };
    let op = want(&mut world, 0, &parts, &options);
    assert!(granted(&world, 0, op).is_some());
    let waits = want(&mut world, 1, &[permits("a", 1, 2), mutex("b"), mutex("c")], &FOREVER);
    world.still[0] = true;
    world.pass(seconds(4));
    assert!(granted(&world, 1, waits).is_none());
    world.pass(seconds(3));
    assert!(granted(&world, 1, waits).is_some());
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    ReplyLost,
    ReplyLate,
    CommandLost,
    CommandTwice,
}

#[test]
fn a_script_whose_call_or_reply_is_lost_late_or_doubled_takes_each_part_once() {
    let parts = [permits("a", 2, 3), mutex("b"), reader("c"), permits("d", 1, 1)];
    for fault in [Fault::ReplyLost, Fault::ReplyLate, Fault::CommandLost, Fault::CommandTwice] {
        let mut world = World::new(2);
        let op =
            world.clients[0].call(|op| Input::AcquireAll { op, parts: &parts, options: &DEFAULT, one_script: false });
        assert_eq!(scripts(&world.clients[0]), ["multi"]);
        let late = match fault {
            Fault::ReplyLost | Fault::ReplyLate => Some(world.carry_out(0)),
            Fault::CommandLost => {
                world.clients[0].unanswered.clear();
                None
            }
            Fault::CommandTwice => {
                world.carry_out_copy(0);
                None
            }
        };
        world.pass(seconds(5));
        let (lease, fences) = granted(&world, 0, op).unwrap_or_else(|| panic!("{fault:?}"));
        assert_eq!(fences.len(), 4);
        if let Some((id, reply)) = late.filter(|_| fault == Fault::ReplyLate) {
            world.clients[0].reply(id, reply);
        }
        assert!(is_free(&mut world, 1, permits("a", 1, 3)) && !is_free(&mut world, 1, permits("a", 2, 3)), "{fault:?}");
        give_back(&mut world, 0, lease);
        for part in [permits("a", 3, 3), mutex("b"), mutex("c"), permits("d", 1, 1)] {
            assert!(is_free(&mut world, 1, part), "{fault:?}: {part:?}");
        }
        close(&mut world);
    }
}

#[test]
fn a_call_that_is_cancelled_while_its_script_is_on_the_way_keeps_nothing() {
    let parts = [permits("a", 1, 1), mutex("b"), reader("c")];
    let mut world = World::new(2);
    let op = world.clients[0].call(|op| Input::AcquireAll { op, parts: &parts, options: &FOREVER, one_script: false });
    let (id, reply) = world.carry_out(0);
    world.clients[0].feed(Input::Cancel { op });
    world.clients[0].reply(id, reply);
    settle(&mut world);
    for part in [permits("a", 1, 1), mutex("b"), mutex("c")] {
        assert!(is_free(&mut world, 1, part), "{part:?}");
    }
    close(&mut world);
}

#[test]
fn a_caller_that_takes_the_place_of_a_part_asks_for_itself_when_the_script_fails() {
    let mut world = World::new(2);
    let permit = AcquireOptions { kind: permits("s", 1, 2).kind, ..FOREVER };
    let first = world.clients[0].acquire("s", permit);
    settle(&mut world);
    let lease = world.clients[0].grant_of(first).lease;
    let parts = [mutex("m"), permits("s", 1, 2)];
    let group =
        world.clients[0].call(|op| Input::AcquireAll { op, parts: &parts, options: &FOREVER, one_script: false });
    let (script, _) = world.clients[0].unanswered.remove(0);
    let next = world.clients[0].acquire("s", permit);
    // The part gets this permit, and the next caller the part's place.
    world.clients[0].call(|op| Input::Release { op, lease });
    world.clients[0].unanswered.clear();
    world.clients[0].reply(script, Err(Failure::TimedOut));
    assert!(scripts(&world.clients[0]).contains(&"semaphore-acquire"), "{:?}", scripts(&world.clients[0]));
    world.pass(seconds(60));
    assert!(world.clients[0].result_of(next).is_some() && granted(&world, 0, group).is_some());
}

#[test]
fn local_callers_that_wait_at_a_limit_come_first() {
    let mut world = World::new(2);
    let other = held(&mut world, 1, &[permits("s", 1, 1)]);
    let permit = AcquireOptions { kind: permits("s", 1, 1).kind, ..FOREVER };
    let first = world.clients[0].acquire("s", permit);
    settle(&mut world);
    let group = want(&mut world, 0, &[mutex("m"), permits("s", 1, 1)], &FOREVER);
    assert!(is_free(&mut world, 1, mutex("m")), "it holds nothing while it waits");
    give_back(&mut world, 1, other);
    settle(&mut world);
    let lease = world.clients[0].grant_of(first).lease;
    assert!(granted(&world, 0, group).is_none());
    give_back(&mut world, 0, lease);
    assert!(granted(&world, 0, group).is_some());
}

#[test]
fn a_group_that_has_waited_holds_nothing_while_it_waits_for_a_lock_that_its_client_reads() {
    let mut world = World::with(3, &Config { local_handoffs: Some(0), ..Config::default() });
    let other = held(&mut world, 1, &[mutex("a")]);
    // The script has reserved one fence for each part, so the next reader has to ask.
    let reads = held(&mut world, 0, &[reader("b"), mutex("c")]);
    let first = world.clients[0].acquire("a", FOREVER);
    settle(&mut world);
    let group = want(&mut world, 0, &[mutex("a"), reader("b")], &FOREVER);
    // A writer comes, and the message that it waits is lost.
    world.still[0] = true;
    let writer = world.clients[2].acquire("b", FOREVER);
    settle(&mut world);
    world.still[0] = false;
    give_back(&mut world, 1, other);
    settle(&mut world);
    let lease = world.clients[0].grant_of(first).lease;
    give_back(&mut world, 0, lease);
    settle(&mut world);
    assert!(granted(&world, 0, group).is_none(), "a writer waits before it");
    assert!(is_free(&mut world, 1, mutex("a")), "it holds nothing");

    give_back(&mut world, 0, reads);
    settle(&mut world);
    let lease = world.clients[2].grant_of(writer).lease;
    give_back(&mut world, 2, lease);
    settle(&mut world);
    assert!(granted(&world, 0, group).is_some());
}

#[test]
fn of_the_callers_that_waited_often_in_vain_one_of_a_client_holds_parts_while_it_waits() {
    let mut world = World::new(3);
    let all = |name| permits(name, 3, 3);
    let mut held_by_other = [("o", held(&mut world, 1, &[all("o")])), ("t", held(&mut world, 1, &[all("t")]))];
    let parts = [permits("o", 1, 3), permits("t", 1, 3)];
    let groups: Vec<_> = (0..3).map(|_| want(&mut world, 0, &parts, &FOREVER)).collect();
    // One limit or the other is always full, so each group waits here and there in turn, until one keeps what it has.
    for turn in 0.. {
        assert!(turn < 20, "nobody keeps anything");
        let (name, lease) = held_by_other[turn % 2];
        let next = want(&mut world, 1, &[all(name)], &FOREVER);
        give_back(&mut world, 1, lease);
        settle(&mut world);
        match granted(&world, 1, next) {
            Some((lease, _)) => held_by_other[turn % 2].1 = lease,
            None => {
                assert_eq!(name, "o", "in order");
                world.clients[1].feed(Input::Cancel { op: next });
                settle(&mut world);
                break;
            }
        }
    }
    assert!(is_free(&mut world, 2, permits("o", 2, 3)), "the others hold nothing");
    assert!(!is_free(&mut world, 2, permits("o", 3, 3)), "one takes its parts in order");
    give_back(&mut world, 1, held_by_other[1].1);
    settle(&mut world);
    assert!(groups.iter().all(|op| granted(&world, 0, *op).is_some()));
}
