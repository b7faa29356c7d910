//! Who gets the lock, and when that is certain.

use std::time::Duration;

use leasehold_core::{Error, Input, Outcome, ReleaseOutcome, Wait};

use crate::world::{Health, MS, World};

#[test]
fn a_majority_is_enough_and_the_rest_is_not_waited_for() {
    let mut world = World::new(5, 1);
    world.ahead = vec![3 * MS, MS, 2 * MS, 4 * MS, 5 * MS];
    world.warm();
    world.set([3, 4], Health::Slow(90 * MS));
    let began = world.now;
    let grant = world.acquired(0, 30_000);
    // One round trip for the lock, one for the fence.
    assert_eq!(world.now - began, 2 * MS);
    let validity = grant.valid_until.as_micros() - began;
    assert_eq!(
        validity,
        30_000 * MS - 352 * MS,
        "1 % and 2 ms for clocks and 50 ms for late timers are taken off, from the sending"
    );
}

#[test]
fn slower_servers_join_the_lease_and_give_it_back_with_it() {
    let mut world = World::new(5, 1);
    world.set([3, 4], Health::Slow(90 * MS));
    let grant = world.acquired(0, 30_000);
    world.settle();
    assert_eq!(world.held(), 5);
    assert_eq!(world.release(0, grant.lease), Ok(Outcome::Released(ReleaseOutcome::Released)));
    world.settle();
    assert_eq!(world.held(), 0);
    assert!(world.is_idle(0));
}

#[test]
fn a_lease_that_was_released_before_slow_servers_answered_is_given_back_there_too() {
    let mut world = World::new(5, 1);
    world.set([3, 4], Health::Slow(90 * MS));
    let grant = world.acquired(0, 30_000);
    world.release(0, grant.lease).unwrap();
    world.settle();
    assert_eq!(world.held(), 0);
    assert!(world.is_idle(0));
}

#[test]
fn a_minority_that_is_dead_is_done_without() {
    let mut world = World::new(5, 1);
    world.set([0, 1], Health::Dead);
    let grant = world.acquired(0, 30_000);
    assert_eq!(world.release(0, grant.lease), Ok(Outcome::Released(ReleaseOutcome::Released)));
}

#[test]
fn whoever_comes_second_waits_and_gets_it_after_the_release() {
    let mut world = World::new(5, 2);
    let first = world.acquired(0, 30_000);
    let op = world.acquire(1, 30_000, Wait::Forever);
    world.settle();
    assert!(world.clients[1].results.is_empty());
    world.release(0, first.lease).unwrap();
    let Ok(Outcome::Acquired(second)) = world.result(1, op) else { panic!("not acquired") };
    assert!(second.fence > first.fence);
}

#[test]
fn callers_of_one_client_have_it_one_after_the_other_in_their_order() {
    let mut world = World::new(3, 1);
    let ops: Vec<_> = (0..5).map(|_| world.acquire(0, 30_000, Wait::Forever)).collect();
    let mut fences = Vec::new();
    for op in ops {
        let Ok(Outcome::Acquired(grant)) = world.result(0, op) else { panic!("not acquired") };
        fences.push(grant.fence);
        world.release(0, grant.lease).unwrap();
    }
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
    assert!(world.now < 25 * MS, "the next asks at once: {} us", world.now);
}

#[test]
fn a_try_is_busy_at_once_while_another_client_or_caller_holds_it() {
    let mut world = World::new(5, 2);
    world.acquired(0, 30_000);
    for client in [0, 1] {
        let began = world.now;
        assert!(matches!(world.tried(client, 30_000), Err(Error::Busy { holder_remaining: Some(_), .. })));
        assert!(world.now - began <= 2 * MS);
    }
}

#[test]
fn a_wait_that_is_cancelled_or_over_leaves_nothing_behind() {
    let mut world = World::new(5, 2);
    let first = world.acquired(0, 30_000);
    let op = world.acquire(1, 30_000, Wait::For(Duration::from_millis(300)));
    assert!(matches!(world.result(1, op), Err(Error::Busy { .. })));
    let op = world.acquire(1, 30_000, Wait::Forever);
    world.call(1, |_| Input::Cancel { op });
    assert_eq!(world.result(1, op), Err(Error::Cancelled));
    world.release(0, first.lease).unwrap();
    world.settle();
    assert_eq!(world.held(), 0);
    assert!(world.is_idle(0) && world.is_idle(1));
}

#[test]
fn servers_whose_answers_were_lost_are_given_back_to_as_well() {
    let mut world = World::new(5, 2);
    world.set([0, 1, 2], Health::Mute);
    assert!(matches!(world.tried(0, 30_000), Err(Error::Unreachable { .. })));
    world.set([0, 1, 2], Health::Well);
    world.pass(2_000 * MS);
    assert_eq!(world.held(), 0, "the releases were sent again");
    world.acquired(1, 30_000);
}

#[test]
fn a_split_vote_is_resolved_by_chance() {
    let mut world = World::new(4 + 1, 3);
    let ops = [0, 1, 2].map(|client| world.acquire(client, 30_000, Wait::Forever));
    for client in [0, 1, 2] {
        // Whoever is first has it for a while.
        let (winner, lease) = loop {
            let found = (0..3).find_map(|client| {
                let results = world.clients[client].results.iter();
                results.rev().find_map(|(op, _, result)| match result {
                    Ok(Outcome::Acquired(grant)) if *op == ops[client] => Some((client, grant.lease)),
                    _ => None,
                })
            });
            match found {
                Some(found) if world.valid_until(found.0, found.1).is_some() => break found,
                _ => world.pass(MS),
            }
            assert!(world.now < 10_000 * MS, "nobody wins after {client} had it");
        };
        world.release(winner, lease).unwrap();
        world.clients[winner].results.clear();
    }
}

#[test]
fn readers_and_conversions_are_refused_at_once() {
    let mut world = World::new(3, 1);
    let grant = world.acquired(0, 30_000);
    let options = leasehold_core::AcquireOptions { mode: leasehold_core::Mode::Shared, ..Default::default() };
    let op = world.call(0, |op| Input::Acquire { op, name: "another", options });
    assert!(matches!(world.result(0, op), Err(Error::Unsupported(_))));
    let (lease, mode) = (grant.lease, leasehold_core::Mode::Shared);
    let op = world.call(0, |op| Input::Convert { op, lease, mode });
    assert!(matches!(world.result(0, op), Err(Error::Unsupported(_))));
}

#[test]
fn a_client_that_closes_gives_everything_back() {
    let mut world = World::new(3, 1);
    world.acquired(0, 30_000);
    let waiting = world.acquire(0, 30_000, Wait::Forever);
    let op = world.call(0, |op| Input::Close { op });
    assert_eq!(world.result(0, op), Ok(Outcome::Closed { unreleased: 0 }));
    assert_eq!(world.result(0, waiting), Err(Error::Closed));
    assert_eq!(world.held(), 0);
    assert!(world.is_idle(0));
    assert_eq!(world.tried(0, 30_000), Err(Error::Closed));
}
