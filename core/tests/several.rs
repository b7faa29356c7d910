//! Several limits as one lease: what its client has to give, and what a late script may still take.

mod world;

use std::time::Duration;

use leasehold_core::{AcquireOptions, Input, Kind, LeaseId, Mode, OpId, Outcome, Part, Wait};
use leasehold_harness::answers::SERVER_US;
use world::{World, options, scripts};

const TTL: Duration = Duration::from_millis(500);

fn group(world: &mut World, names: &[&str]) -> OpId {
    let (parts, options) = (Part::mutexes(names), AcquireOptions { ttl: TTL, wait: Wait::Forever, ..options() });
    let op = world.clients[0].call(|op| Input::AcquireAll { op, parts: &parts, options: &options, one_script: false });
    world.serve();
    world.serve();
    op
}

fn holds(world: &mut World, place: usize, name: &str) -> LeaseId {
    let op = world.clients[place].acquire(name, options());
    world.serve();
    world.clients[place].grant_of(op).lease
}

/// The first part was granted, and the script for all parts waits for room. Meanwhile the server loses the part.
#[test]
fn a_script_that_waited_for_room_takes_no_part_that_was_lost_meanwhile() {
    let mut world = World::new(2);
    let lease = holds(&mut world, 1, "a");
    let op = group(&mut world, &["a", "b"]);
    for place in 0..64 {
        world.clients[0].acquire(&format!("fill{place}"), options());
    }
    world.clients[1].call(|op| Input::Release { op, lease });
    let (id, reply) = world.carry_out(1);
    world.clients[1].reply(id, reply);
    assert!(!scripts(&world.clients[0]).contains(&"multi"), "no room");

    while !scripts(&world.clients[0]).contains(&"renew") {
        world.pass_in_silence(Duration::from_millis(10));
    }
    world.server.execute(SERVER_US as u64 + world.clients[0].now, &[b"DEL", b"a"]).unwrap();
    world.clients[0].unanswered.rotate_right(1);
    let (id, reply) = world.carry_out(0);
    world.clients[0].reply(id, reply);
    world.serve();
    world.pass(Duration::from_millis(20));
    let result = world.clients[0].result_of(op);
    assert!(matches!(result, Some(Ok(Outcome::AcquiredAll { .. }))), "{result:?}: its own token is in the way");
}

/// A group that takes its parts in order waits. Another one wants shares of locks that callers of this client read already.
#[test]
fn shares_that_this_client_can_give_at_once_are_no_endless_round() {
    let mut world = World::new(2);
    let shared = AcquireOptions { mode: Mode::Shared, ..options() };
    for name in ["a", "b"] {
        let op = world.clients[0].acquire(name, shared);
        world.serve();
        world.clients[0].grant_of(op);
    }
    holds(&mut world, 1, "z");
    let part = |name, mode| Part { name, kind: Kind::Lock, mode };
    let shares = [part("a", Mode::Shared), part("b", Mode::Shared)];
    let with_z = [shares[0], shares[1], part("z", Mode::Exclusive)];
    let options = AcquireOptions { wait: Wait::Forever, ..options() };
    let [first, second] = [&with_z[..], &shares[..]].map(|parts| {
        let op = world.clients[0].call(|op| Input::AcquireAll { op, parts, options: &options, one_script: false });
        world.serve();
        world.serve();
        op
    });
    assert_eq!(world.clients[0].result_of(first), None);
    assert!(matches!(world.clients[0].result_of(second), Some(Ok(Outcome::AcquiredAll { .. }))));
}

/// What this client can give at once is not busy: shares of a lock that it reads, and a lock that it keeps while nobody holds it.
#[test]
fn a_try_gets_what_its_own_client_has_to_give() {
    let shared = AcquireOptions { mode: Mode::Shared, ..options() };
    let lingers = AcquireOptions { linger: Some(Duration::from_secs(10)), ..options() };
    for held in [shared, lingers] {
        let mut world = World::new(1);
        for name in ["a", "b"] {
            let op = world.clients[0].acquire(name, held);
            world.serve();
            let lease = world.clients[0].grant_of(op).lease;
            if held.linger.is_some() {
                world.call(0, |op| Input::Release { op, lease });
            }
        }
        let parts = ["a", "b", "c"].map(|name| Part { name, kind: Kind::Lock, mode: held.mode });
        let tries = AcquireOptions { wait: Wait::No, ..options() };
        let op =
            world.clients[0].call(|op| Input::AcquireAll { op, parts: &parts, options: &tries, one_script: false });
        world.serve();
        world.serve();
        let result = world.clients[0].result_of(op);
        assert!(matches!(result, Some(Ok(Outcome::AcquiredAll { .. }))), "{result:?}");
    }
}
