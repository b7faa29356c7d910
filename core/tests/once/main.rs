//! `once`: one client does the work and stores its result, and all others get the result in place of a lease.

#[path = "../world/mod.rs"]
mod world;

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, Config, Error, Failure, Input, Kind, LeaseId, Mode, Outcome, ReleaseOutcome, Reply, Scalar, Wait,
};
use leasehold_harness::answers::{SERVER_US, words};

use crate::world::{Ended, NAME, World, options, scripts, seconds};

fn once() -> AcquireOptions {
    AcquireOptions { kind: Kind::Once { keep: seconds(3_600) }, wait: Wait::Forever, ..options() }
}

fn store(world: &mut World, place: usize, lease: LeaseId, value: &'static [u8]) -> Ended {
    world.call(place, |op| Input::Store { op, lease, value })
}

const RELEASED: Ended = Some(Ok(Outcome::Released(ReleaseOutcome::Released)));

fn result_of(ended: Option<&Result<Outcome, Error>>) -> &[u8] {
    match ended {
        Some(Ok(Outcome::Stored { value, .. })) => value,
        other => panic!("no result: {other:?}"),
    }
}

/// What an acquire of this client gets.
fn asks(world: &mut World, place: usize) -> Ended {
    let op = world.clients[place].acquire(NAME, once());
    world.serve();
    world.clients[place].result_of(op).cloned()
}

#[test]
fn a_client_that_comes_later_gets_the_result_and_its_fence_by_one_command() {
    let mut world = World::new(2);
    let op = world.clients[0].acquire(NAME, once());
    world.serve();
    let grant = world.clients[0].grant_of(op);
    assert_eq!(store(&mut world, 0, grant.lease, b"[1]"), RELEASED);
    for place in [0, 1] {
        let op = world.clients[place].acquire(NAME, once());
        assert_eq!(scripts(&world.clients[place]), ["once-acquire"]);
        world.serve();
        let expected = Outcome::Stored { fence: grant.fence, value: b"[1]".to_vec() };
        assert_eq!(world.clients[place].result_of(op), Some(&Ok(expected)));
        assert!(world.clients[place].unanswered.is_empty() && world.clients[place].engine.is_idle());
    }
}

#[test]
fn all_waiting_callers_of_all_clients_get_the_result_at_once() {
    let mut world = World::new(4);
    let lease = world.acquire(0, once());
    let mut waits = Vec::new();
    for place in [1, 2, 3, 0] {
        for _ in 0..10 {
            waits.push((place, world.clients[place].acquire(NAME, once())));
            world.serve();
        }
    }
    world.pass(seconds(20));
    assert!(waits.iter().all(|(place, op)| world.clients[*place].result_of(*op).is_none()));

    let before = world.clients[0].now;
    assert_eq!(store(&mut world, 0, lease, b"\"done\""), RELEASED);
    world.serve();
    assert_eq!(world.clients[0].now, before);
    for (place, op) in waits {
        assert_eq!(result_of(world.clients[place].result_of(op)), b"\"done\"");
    }
    for client in &world.clients {
        assert!(client.engine.is_idle());
    }
}

#[test]
fn a_release_without_a_result_lets_the_next_one_try_and_so_does_a_crash() {
    let mut world = World::new(2);
    let lease = world.acquire(0, once());
    let here = world.clients[0].acquire(NAME, once());
    let next = world.clients[1].acquire(NAME, once());
    world.serve();
    assert_eq!(world.call(0, |op| Input::Release { op, lease }), RELEASED);
    world.serve();
    let lease = world.clients[0].grant_of(here).lease;
    assert_eq!(world.call(0, |op| Input::Release { op, lease }), RELEASED);
    world.serve();
    let lease = world.clients[1].grant_of(next).lease;
    let after = world.clients[0].acquire(NAME, once());
    world.serve();
    // The client that does the work is gone.
    let until = world.clients[0].now + 31_000_000;
    world.clients[1].unanswered.clear();
    let gone = world.clients.pop().unwrap();
    world.pass(seconds(31));
    assert!(world.clients[0].now >= until);
    let second = world.clients[0].grant_of(after).lease;
    world.clients.push(gone);
    world.clients[1].now = world.clients[0].now;
    // It comes back.
    let late = world.call(1, |op| Input::Store { op, lease, value: b"late" });
    assert_eq!(late, Some(Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired))));
    assert_eq!(store(&mut world, 0, second, b"good"), RELEASED);
    assert_eq!(result_of(asks(&mut world, 1).as_ref()), b"good");
}

#[test]
fn a_result_has_the_fence_that_its_writer_got_although_an_answer_was_lost() {
    let mut world = World::new(2);
    let op = world.clients[0].acquire(NAME, once());
    // The server grants the lock, and the answer is lost.
    let (id, _) = world.carry_out(0);
    world.clients[0].reply(id, Err(Failure::Interrupted("reset".into())));
    world.pass(seconds(1));
    let grant = world.clients[0].grant_of(op);
    assert_eq!(store(&mut world, 0, grant.lease, b"7"), RELEASED);
    let expected = Outcome::Stored { fence: grant.fence, value: b"7".to_vec() };
    assert_eq!(asks(&mut world, 1), Some(Ok(expected)));
}

#[test]
fn a_client_that_got_a_result_leaves_the_queue_although_a_heartbeat_was_late() {
    let mut world = World::new(2);
    let lease = world.acquire(0, once());
    let waits = world.clients[1].acquire(NAME, once());
    (0..4).for_each(|_| world.serve());
    // A heartbeat is under way when the result is stored, and arrives after that was forgotten.
    world.clients[1].pass(Duration::from_millis(1_050));
    let [late] = &world.clients[1].unanswered[..] else { panic!("{:?}", world.clients[1].unanswered) };
    let late = late.clone();
    world.clients[1].unanswered.clear();
    world.clients[0].now = world.clients[1].now;
    world.clients[0].call(|op| Input::Store { op, lease, value: b"7" });
    let (stored, answer) = world.carry_out(0);
    world.clients[0].reply(stored, answer);
    let (id, done) = world.carry_out(1);
    assert_eq!(world.call(0, |op| Input::Forget { op, name: NAME }), Some(Ok(Outcome::Forgotten(true))));
    let again = world.acquire(0, once());
    world.clients[1].unanswered.push(late);
    let (late, queued) = world.carry_out(1);
    world.clients[1].reply(late, queued);
    world.clients[1].reply(id, done);
    assert_eq!(result_of(world.clients[1].result_of(waits)), b"7");
    world.serve();
    assert_eq!(scripts(&world.clients[1]), [""; 0]);
    assert_eq!(world.call(0, |op| Input::Release { op, lease: again }), RELEASED);
    assert_eq!(world.left(), 0);
}

#[test]
fn a_copy_of_the_release_that_stored_the_result_answers_released() {
    let mut world = World::new(2);
    let lease = world.acquire(0, once());
    let op = world.clients[0].call(|op| Input::Store { op, lease, value: b"7" });
    // The reply to the first one is lost.
    let (id, _) = world.carry_out(0);
    world.clients[0].reply(id, Err(Failure::Interrupted("reset".into())));
    world.pass(seconds(1));
    assert_eq!(world.clients[0].result_of(op).cloned(), RELEASED);
    assert_eq!(result_of(asks(&mut world, 1).as_ref()), b"7");
}

#[test]
fn a_copy_that_finds_no_result_does_not_say_that_it_is_stored() {
    for other_works in [false, true] {
        let mut world = World::new(2);
        let lease = world.acquire(0, once());
        let waits = other_works.then(|| world.clients[1].acquire(NAME, once()));
        let op = world.clients[0].call(|op| Input::Store { op, lease, value: b"7" });
        // An operator takes the lock first. Both messages about that are lost.
        world.clients[0].channels.clear();
        let (id, _) = world.clients[0].unanswered.remove(0);
        let forced = world.call(1, |op| Input::ForceRelease { op, name: NAME, foreign: false });
        assert_eq!(forced, Some(Ok(Outcome::Revoked(1))));
        world.serve();
        world.clients[0].reply(id, Err(Failure::Interrupted("reset".into())));
        world.pass(seconds(1));
        let outcome = if other_works { ReleaseOutcome::NotOwner } else { ReleaseOutcome::AlreadyExpired };
        assert_eq!(world.clients[0].result_of(op), Some(&Ok(Outcome::Released(outcome))));
        if let Some(waits) = waits {
            let lease = world.clients[1].grant_of(waits).lease;
            assert_eq!(store(&mut world, 1, lease, b"8"), RELEASED);
            assert_eq!(result_of(asks(&mut world, 0).as_ref()), b"8");
        }
    }
}

#[test]
fn a_lease_that_the_server_lost_stores_no_result_although_a_late_copy_of_its_acquire_took_the_lock_again() {
    let mut world = World::new(2);
    let op = world.clients[0].acquire(NAME, once());
    let late = world.clients[0].unanswered[0].clone();
    world.serve();
    let lease = world.clients[0].grant_of(op).lease;
    let now = SERVER_US as u64 + world.clients[0].now;
    world.server.execute(now, &[b"DEL", NAME.as_bytes()]).unwrap().reply.unwrap();
    let other = world.acquire(1, once());
    assert_eq!(world.call(1, |op| Input::Release { op, lease: other }), RELEASED);
    world.clients[0].unanswered.push(late);
    let (_, again) = world.carry_out(0);
    assert!(matches!(again, Ok(Reply::List(list)) if list[0] == Scalar::Text(b"entered".to_vec())));
    assert_eq!(store(&mut world, 0, lease, b"7"), Some(Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired))));
    let op = world.clients[1].acquire(NAME, once());
    world.serve();
    assert!(world.clients[1].grant_of(op).fence > 0);
}

#[test]
fn a_result_is_kept_for_its_time_and_until_it_is_forgotten() {
    let mut world = World::new(2);
    let lease = world.acquire(0, once());
    assert_eq!(world.call(1, |op| Input::Forget { op, name: NAME }), Some(Ok(Outcome::Forgotten(false))));
    assert_eq!(store(&mut world, 0, lease, b"1"), RELEASED);
    world.pass(seconds(3_599));
    assert_eq!(result_of(asks(&mut world, 1).as_ref()), b"1");
    world.pass(seconds(2));
    let lease = world.acquire(1, once());
    // Whoever deletes the result does not stop the work.
    assert_eq!(world.call(0, |op| Input::Forget { op, name: NAME }), Some(Ok(Outcome::Forgotten(false))));
    assert_eq!(store(&mut world, 1, lease, b"2"), RELEASED);
    assert_eq!(world.call(0, |op| Input::Forget { op, name: NAME }), Some(Ok(Outcome::Forgotten(true))));
    assert!(matches!(asks(&mut world, 0), Some(Ok(Outcome::Acquired(_)))));
}

#[test]
fn a_caller_that_comes_after_a_forget_does_not_get_the_forgotten_result() {
    let mut world = World::new(2);
    let lease = world.acquire(0, once());
    assert_eq!(store(&mut world, 0, lease, b"old"), RELEASED);
    let early = world.clients[1].acquire(NAME, once());
    let (id, reply) = world.carry_out(1);
    assert_eq!(world.call(0, |op| Input::Forget { op, name: NAME }), Some(Ok(Outcome::Forgotten(true))));
    world.clients[1].pass(std::time::Duration::from_millis(1));
    let late = world.clients[1].acquire(NAME, once());
    world.clients[1].reply(id, reply);
    assert_eq!(result_of(world.clients[1].result_of(early)), b"old");
    assert_eq!(world.clients[1].result_of(late), None);
    world.serve();
    let lease = world.clients[1].grant_of(late).lease;
    assert_eq!(store(&mut world, 1, lease, b"new"), RELEASED);
    assert!(world.clients[1].engine.is_idle());
}

#[test]
fn a_forget_whose_reply_is_lost_is_not_sent_again() {
    let mut world = World::new(1);
    let op = world.clients[0].call(|op| Input::Forget { op, name: NAME });
    let [(id, command)] = &world.clients[0].unanswered[..] else { panic!() };
    assert_eq!(words(command), ["DEL", "leasehold:{job}:result"]);
    let id = *id;
    world.clients[0].unanswered.clear();
    world.clients[0].reply(id, Err(Failure::TimedOut));
    assert!(matches!(world.clients[0].result_of(op), Some(Err(Error::Unreachable { .. }))));
    assert!(world.clients[0].unanswered.is_empty());
}

#[test]
fn a_force_release_ends_the_work_and_keeps_the_result() {
    let mut world = World::new(2);
    let lease = world.acquire(0, once());
    let next = world.clients[1].acquire(NAME, once());
    world.serve();
    let force = |op| Input::ForceRelease { op, name: NAME, foreign: false };
    assert_eq!(world.call(0, force), Some(Ok(Outcome::Revoked(1))));
    world.serve();
    let lost = store(&mut world, 0, lease, b"lost");
    assert_eq!(lost, Some(Ok(Outcome::Released(ReleaseOutcome::NotOwner))));
    let lease = world.clients[1].grant_of(next).lease;
    assert_eq!(store(&mut world, 1, lease, b"kept"), RELEASED);
    assert_eq!(world.call(0, force), Some(Ok(Outcome::Revoked(0))));
    assert_eq!(result_of(asks(&mut world, 0).as_ref()), b"kept");
}

#[test]
fn a_result_that_is_too_long_is_refused_before_anything_is_sent_and_the_next_one_tries() {
    static LONG: [u8; 65_537] = [b'1'; 65_537];
    let mut world = World::new(2);
    let lease = world.acquire(0, once());
    let next = world.clients[1].acquire(NAME, once());
    world.serve();
    let op = world.clients[0].call(|op| Input::Store { op, lease, value: &LONG });
    let Some(Err(error @ Error::InvalidOption { field: "result", .. })) = world.clients[0].result_of(op) else {
        panic!("{:?}", world.clients[0].result_of(op))
    };
    assert!(error.to_string().contains("65537 bytes"), "{error}");
    world.serve();
    let lease = world.clients[1].grant_of(next).lease;
    assert_eq!(store(&mut world, 1, lease, &LONG[1..]), RELEASED);
    assert_eq!(result_of(asks(&mut world, 0).as_ref()).len(), 65_536);
}

#[test]
fn another_kind_of_that_name_is_refused_both_ways() {
    let mut world = World::new(2);
    let lease = world.acquire(0, once());
    let kinds = [Kind::Lock, Kind::Reentrant(leasehold_core::Owner(1)), Kind::Semaphore { permits: 1, limit: 2 }];
    for kind in kinds {
        let op = world.clients[1].acquire(NAME, AcquireOptions { kind, ..options() });
        world.serve();
        assert!(matches!(world.clients[1].result_of(op), Some(Err(Error::WrongKind(_)))), "{kind:?}");
    }
    world.call(0, |op| Input::Release { op, lease });
    for kind in kinds {
        let lease = world.acquire(1, AcquireOptions { kind, ..options() });
        assert!(matches!(asks(&mut world, 0), Some(Err(Error::WrongKind(_)))), "{kind:?}");
        world.call(1, |op| Input::Release { op, lease });
    }
}

#[test]
fn a_try_gets_the_result_or_is_busy() {
    let tries = AcquireOptions { wait: Wait::No, ..once() };
    let mut world = World::new(2);
    let lease = world.acquire(0, once());
    for place in [0, 1] {
        let op = world.clients[place].acquire(NAME, tries);
        world.serve();
        assert!(matches!(world.clients[place].result_of(op), Some(Err(Error::Busy { .. }))));
    }
    store(&mut world, 0, lease, b"1");
    let op = world.clients[1].acquire(NAME, tries);
    world.serve();
    assert_eq!(result_of(world.clients[1].result_of(op)), b"1");
}

#[test]
fn its_lease_gets_no_other_token_and_no_readers() {
    let mut world = World::new(1);
    let lease = world.acquire(0, once());
    for input in [
        |op, lease| Input::Export { op, lease },
        |op, lease| Input::Detach { op, lease, time: None },
        |op, lease| Input::Shorten { op, lease, ttl: seconds(1) },
    ] {
        let ended = world.call(0, |op| input(op, lease));
        assert!(matches!(ended, Some(Err(Error::Unsupported(_)))), "{ended:?}");
    }
    let ended = world.call(0, |op| Input::Convert { op, lease, mode: Mode::Shared });
    assert!(matches!(ended, Some(Err(_))), "{ended:?}");
    assert_eq!(store(&mut world, 0, lease, b"1"), RELEASED);
    for wrong in [
        AcquireOptions { mode: Mode::Shared, ..once() },
        AcquireOptions { linger: Some(seconds(1)), ..once() },
        AcquireOptions { at_least: Some(seconds(1)), ..once() },
        AcquireOptions { kind: Kind::Once { keep: seconds(0) }, ..once() },
    ] {
        let op = world.clients[0].acquire(NAME, wrong);
        assert!(matches!(world.clients[0].result_of(op), Some(Err(_))), "{wrong:?}");
    }
    let lease = world.acquire(0, AcquireOptions { kind: Kind::Lock, ..options() });
    let ended = store(&mut world, 0, lease, b"1");
    assert!(matches!(ended, Some(Err(Error::Unsupported(_)))), "{ended:?}");
    assert!(world.clients[0].engine.is_idle(), "the lease is given back");
}

#[test]
fn a_dead_waiter_delays_nobody() {
    let mut world = World::new(3);
    let lease = world.acquire(0, once());
    world.clients[1].acquire(NAME, once());
    world.serve();
    let waits = world.clients[2].acquire(NAME, once());
    world.serve();
    world.clients[1].channels.clear();
    assert_eq!(store(&mut world, 0, lease, b"1"), RELEASED);
    world.serve();
    assert_eq!(result_of(world.clients[2].result_of(waits)), b"1");
}

#[test]
fn in_a_mixed_fleet_waiters_poll_for_the_result() {
    let mut world = World::with(2, &Config { mixed_fleet: true, ..Config::default() });
    let lease = world.acquire(0, once());
    let waits = [0, 1].map(|place| (place, world.clients[place].acquire(NAME, once())));
    world.serve();
    world.pass(seconds(3));
    assert_eq!(store(&mut world, 0, lease, b"1"), RELEASED);
    world.pass(seconds(1));
    for (place, op) in waits {
        assert_eq!(result_of(world.clients[place].result_of(op)), b"1");
    }
}
