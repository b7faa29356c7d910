//! A lease is lost once, in time, with a reason.

use leasehold_core::{Error, LossReason, Outcome, ReleaseOutcome, Wait};

use crate::world::{Health, MS, World};

#[test]
fn without_a_majority_it_is_lost_when_the_majority_ends_by_the_clock() {
    let mut world = World::new(5, 2);
    let grant = world.acquired(0, 1_000);
    world.settle();
    world.set([0, 1, 2], Health::Mute);
    let told = loop {
        let until = world.valid_until(0, grant.lease).unwrap();
        world.pass(until - world.now);
        if let [(lease, at, reason)] = world.clients[0].lost[..] {
            assert_eq!((lease, reason), (grant.lease, LossReason::Expired));
            break at == until;
        }
    };
    assert!(told, "told at the deadline");
    world.set([0, 1, 2], Health::Well);
    world.acquired(1, 1_000);
    world.pass(5_000 * MS);
    assert_eq!(world.clients[0].lost.len(), 1, "told once");
}

#[test]
fn a_majority_that_restarts_empty_is_a_loss_by_the_next_renewal() {
    let mut world = World::new(5, 1);
    let grant = world.acquired(0, 3_000);
    world.settle();
    (0..3).for_each(|server| world.servers[server].0.flush_all());
    world.pass(1_100 * MS);
    assert!(matches!(world.clients[0].lost[..], [(lease, _, LossReason::Gone)] if lease == grant.lease));
    world.settle();
    assert_eq!(world.held(), 0, "the others have it back");
    assert!(world.is_idle(0));
    let again = world.release(0, grant.lease);
    assert_eq!(again, Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired)));
}

#[test]
fn after_a_loss_the_next_local_caller_asks_anew() {
    let mut world = World::new(3, 1);
    let first = world.acquired(0, 1_000);
    let op = world.acquire(0, 1_000, Wait::Forever);
    world.settle();
    world.servers[0].0.flush_all();
    world.servers[1].0.flush_all();
    let Ok(Outcome::Acquired(second)) = world.result(0, op) else { panic!("not acquired") };
    assert!(second.fence > first.fence);
    assert_eq!(world.clients[0].lost.len(), 1);
}

#[test]
fn a_holder_that_died_is_followed_after_its_ttl() {
    let mut world = World::new(5, 2);
    let began = world.now;
    world.acquired(0, 1_000);
    // It sends nothing any more.
    world.clients[0] = World::new(5, 1).clients.remove(0);
    world.acquired(1, 1_000);
    assert!(world.now - began < 1_300 * MS, "after {} us", world.now - began);
}

#[test]
fn a_holder_that_woke_up_late_is_told_before_it_may_do_anything() {
    let mut world = World::new(3, 1);
    let grant = world.acquired(0, 1_000);
    world.now += 10_000 * MS;
    let lease = grant.lease;
    let op = world.call(0, |op| leasehold_core::Input::Verify { op, lease });
    assert_eq!(world.result(0, op), Err(Error::NotHeld));
    assert!(matches!(world.clients[0].lost[..], [(_, _, LossReason::Expired)]));
}
