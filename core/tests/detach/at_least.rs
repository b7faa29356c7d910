//! A lock that stays taken for a time from its grant on, even if its holder gives it back before.

use leasehold_core::{
    AcquireOptions, Error, Input, Kind, LossReason, Mode, Outcome, Owner, ReleaseOutcome, Replicas, Reply, Scalar, Wait,
};
use leasehold_harness::answers::status;

use super::lasts_for;
use crate::world::{World, options, scripts, seconds};

fn at_least() -> AcquireOptions {
    AcquireOptions { at_least: Some(seconds(60)), ..options() }
}

#[test]
fn a_release_before_that_time_leaves_the_rest_to_the_server() {
    let permits = AcquireOptions { kind: Kind::Semaphore { permits: 1, limit: 1 }, ..at_least() };
    for options in [at_least(), permits, AcquireOptions { linger: Some(seconds(1)), ..at_least() }] {
        let mut world = World::new(2);
        let lease = world.acquire(0, options);
        world.pass(seconds(20));
        let released = world.call(0, |op| Input::Release { op, lease });
        assert_eq!(released, Some(Ok(Outcome::Released(ReleaseOutcome::Detached))));
        lasts_for(&world, 40_000);
        assert!(world.clients[0].engine.is_idle());
        let tries = AcquireOptions { at_least: None, linger: None, ..options };
        assert!(!world.is_free_for(0, tries) && !world.is_free_for(1, tries));
        world.pass(seconds(41));
        assert!(world.is_free_for(0, tries) && world.is_free_for(1, tries));
    }
}

#[test]
fn a_release_after_that_time_frees_the_lock() {
    let mut world = World::new(1);
    let lease = world.acquire(0, at_least());
    world.pass(seconds(61));
    let released = world.call(0, |op| Input::Release { op, lease });
    assert_eq!(released, Some(Ok(Outcome::Released(ReleaseOutcome::Released))));
    assert_eq!(world.left(), 0);
}

#[test]
fn a_close_and_a_cancelled_caller_leave_it_too() {
    let mut world = World::new(1);
    world.acquire(0, at_least());
    let closed = world.call(0, |op| Input::Close { op });
    assert_eq!(closed, Some(Ok(Outcome::Closed { lost: 1, unreleased: 0 })));
    lasts_for(&world, 60_000);
}

#[test]
fn no_local_caller_gets_it_in_that_time_but_readers_share_it_while_one_of_them_reads() {
    let mut world = World::new(1);
    let lease = world.acquire(0, at_least());
    let waits = world.clients[0].acquire("job", AcquireOptions { wait: Wait::Forever, ..options() });
    world.serve();
    world.call(0, |op| Input::Release { op, lease });
    world.pass(seconds(10));
    assert_eq!(world.clients[0].result_of(waits), None);
    lasts_for(&world, 50_000);

    let mut world = World::new(1);
    let reader = AcquireOptions { mode: Mode::Shared, ..options() };
    let first = world.acquire(0, AcquireOptions { at_least: Some(seconds(60)), ..reader });
    let second = world.acquire(0, reader);
    let released = world.call(0, |op| Input::Release { op, lease: first });
    assert_eq!(released, Some(Ok(Outcome::Released(ReleaseOutcome::Released))), "the other one has it");
    let released = world.call(0, |op| Input::Release { op, lease: second });
    assert_eq!(released, Some(Ok(Outcome::Released(ReleaseOutcome::Detached))));
    lasts_for(&world, 60_000);
}

#[test]
fn a_release_during_a_conversion_waits_for_it() {
    let mut world = World::new(1);
    let lease = world.acquire(0, at_least());
    world.clients[0].call(|op| Input::Convert { op, lease, mode: Mode::Shared });
    let released = world.clients[0].call(|op| Input::Release { op, lease });
    assert_eq!(scripts(&world.clients[0]), ["convert"]);
    assert_eq!(world.clients[0].result_of(released), None);
    world.serve();
    world.serve();
    let detached = Ok(Outcome::Released(ReleaseOutcome::Detached));
    assert_eq!(world.clients[0].result_of(released), Some(&detached));
    lasts_for(&world, 60_000);
    assert!(world.clients[0].engine.is_idle());
}

#[test]
fn a_release_during_a_conversion_tells_what_became_of_the_lease() {
    // The server answers after that time; it has lost the lease; it never answers.
    for (passed, has_lease, answers) in [(200, true, true), (0, false, true), (0, true, false)] {
        let mut world = World::new(1);
        let lease = world.acquire(0, AcquireOptions { at_least: Some(seconds(1) / 10), ..options() });
        world.clients[0].call(|op| Input::Convert { op, lease, mode: Mode::Shared });
        let released = world.clients[0].call(|op| Input::Release { op, lease });
        if !has_lease {
            world.server.call(&[b"DEL", b"job"]).unwrap();
        }
        world.clients[0].now += passed * 1_000;
        if answers {
            world.serve();
            world.serve();
        } else {
            world.pass_in_silence(seconds(3));
        }
        match world.clients[0].result_of(released) {
            Some(Ok(Outcome::Released(ReleaseOutcome::Released))) => assert!(has_lease && answers),
            Some(Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired))) => assert!(!has_lease),
            Some(Err(Error::Unreachable { .. })) => assert!(!answers),
            other => panic!("{other:?}"),
        }
        world.pass(seconds(40));
        assert!(world.clients[0].engine.is_idle());
    }
}

#[test]
fn a_close_during_a_conversion_waits_for_it() {
    // Before and after that time is over.
    for (passed, left) in [(0, 60_000), (70, 0)] {
        let mut world = World::new(1);
        let lease = world.acquire(0, at_least());
        world.pass(seconds(passed));
        world.clients[0].call(|op| Input::Convert { op, lease, mode: Mode::Shared });
        let closed = world.clients[0].call(|op| Input::Close { op });
        assert_eq!(world.clients[0].result_of(closed), None);
        world.serve();
        world.serve();
        assert_eq!(world.clients[0].result_of(closed), Some(&Ok(Outcome::Closed { lost: 1, unreleased: 0 })));
        lasts_for(&world, left);
        assert!(world.clients[0].engine.is_idle());
    }
}

#[test]
fn a_release_that_is_not_answered_fails_in_time_and_never_frees_the_lock() {
    let mut world = World::new(1);
    let lease = world.acquire(0, at_least());
    let released = world.clients[0].call(|op| Input::Release { op, lease });
    drop(world.carry_out(0));
    world.pass_in_silence(seconds(2));
    assert!(matches!(world.clients[0].result_of(released), Some(Err(Error::Unreachable { .. }))));
    world.pass(seconds(50));
    lasts_for(&world, 8_000);
}

#[test]
fn a_lease_that_was_lost_is_not_kept() {
    let mut world = World::new(1);
    let lease = world.acquire(0, at_least());
    world.server.call(&[b"DEL", b"job"]).unwrap();
    let released = world.call(0, |op| Input::Release { op, lease });
    assert_eq!(released, Some(Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired))));
    assert_eq!(world.left(), 0);

    let mut world = World::new(1);
    world.acquire(0, AcquireOptions { renew: false, ..at_least() });
    world.pass(seconds(40));
    assert_eq!(world.clients[0].lost.first().map(|(_, _, reason)| *reason), Some(LossReason::Expired));
    assert_eq!(world.left(), 0);
}

#[test]
fn a_lease_that_its_caller_never_got_is_not_kept() {
    let replicas = Some(Replicas { min: 1, timeout: seconds(1) });
    for (confirmed, left) in [(0, 0), (1, 60_000)] {
        let mut world = World::new(1);
        let op = world.clients[0].acquire("job", AcquireOptions { replicas, ..at_least() });
        world.serve();
        let renewed = status("renewed", [1, 1, 0, 30_000, 0, 0]);
        world.clients[0].feed(Input::DedicatedReply { op, result: Ok(renewed) });
        let result = Ok(Reply::One(Scalar::Int(confirmed)));
        world.clients[0].feed(Input::DedicatedReply { op, result });
        world.serve();
        if let Some(Ok(outcome)) = world.clients[0].result_of(op) {
            let lease = outcome.grant().unwrap().lease;
            let released = world.call(0, |op| Input::Release { op, lease });
            assert_eq!(released, Some(Ok(Outcome::Released(ReleaseOutcome::Detached))));
        }
        lasts_for(&world, left);
    }
}

#[test]
fn options_that_cant_be_kept_are_refused() {
    let of = |kind, max_hold| AcquireOptions { kind, max_hold, ..at_least() };
    let mut world = World::new(1);
    let refusal = |world: &mut World, options| {
        let op = world.clients[0].acquire("job", options);
        world.clients[0].result_of(op).cloned()
    };
    let refused = refusal(&mut world, of(Kind::Lock, Some(seconds(59))));
    assert!(matches!(refused, Some(Err(Error::InvalidOption { field: "at_least", .. }))), "{refused:?}");
    for time in [0, 31 * 24 * 3_600] {
        let refused = refusal(&mut world, AcquireOptions { at_least: Some(seconds(time)), ..options() });
        assert!(matches!(refused, Some(Err(Error::InvalidOption { field: "at_least", .. }))), "{refused:?}");
    }
    let refused = refusal(&mut world, of(Kind::Reentrant(Owner(1)), None));
    assert!(matches!(refused, Some(Err(Error::Unsupported(_)))), "{refused:?}");
}
