//! One lease of several locks of any kind.

#[path = "../world/mod.rs"]
mod world;

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, ClientId, Config, Engine, Error, Input, Kind, LeaseId, LossReason, Mode, OpId, Outcome, Owner,
    Part, ReleaseOutcome, Wait,
};
use leasehold_harness::Client;

use self::world::{World, seconds};

const TRY: AcquireOptions = AcquireOptions { wait: Wait::No, ..DEFAULT };
const FOREVER: AcquireOptions = AcquireOptions { wait: Wait::Forever, ..DEFAULT };
const DEFAULT: AcquireOptions = AcquireOptions {
    kind: Kind::Lock,
    mode: Mode::Exclusive,
    ttl: Duration::from_secs(30),
    renew: true,
    max_hold: None,
    wait: Wait::For(Duration::from_secs(60)),
    within: None,
    replicas: None,
    linger: None,
    at_least: None,
    per: None,
    max_waiters: None,
};

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
