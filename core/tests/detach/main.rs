//! A lease that ends for its client and stays on the server.

mod at_least;
#[path = "../world/mod.rs"]
mod world;

use leasehold_core::{
    AcquireOptions, ClientId, Config, Engine, Error, Failure, Input, Kind, LeaseToken, LossReason, Mode, Outcome,
    Owner, Part, ReleaseOutcome, Wait,
};
use leasehold_harness::Client;

use self::world::{World, options, scripts, seconds, token};

/// The lock lasts for this time, and for what clocks may differ by.
fn lasts_for(world: &World, least: u64) {
    let left = world.left();
    assert!((least..=least + least / 50 + 2_000).contains(&left), "{left} ms, not {least} ms");
}

#[test]
fn the_lock_stays_taken_for_its_time_and_nothing_renews_or_releases_it() {
    for (time, least) in [(Some(seconds(5)), 5_000), (Some(seconds(600)), 600_000), (None, 30_000)] {
        let mut world = World::new(1);
        let lease = world.acquire(0, options());
        world.pass(seconds(9));
        world.detach(0, lease, time);
        lasts_for(&world, least);
        assert!(world.clients[0].engine.is_idle(), "nothing is left over");
        let released = world.call(0, |op| Input::Release { op, lease });
        assert_eq!(released, Some(Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired))));
        assert_eq!(world.clients[0].engine.unreleased(leasehold_core::Instant::default()), 0);
        let closed = world.call(0, |op| Input::Close { op });
        assert_eq!(closed, Some(Ok(Outcome::Closed { lost: 0, unreleased: 0 })));
        lasts_for(&world, least);
        assert!(world.clients[0].lost.is_empty());
    }
}

#[test]
fn a_fixed_lease_keeps_its_end_and_max_hold_bounds_each_detached_one() {
    let mut world = World::new(1);
    let fixed = world.acquire(0, AcquireOptions { renew: false, ..options() });
    world.pass(seconds(10));
    world.detach(0, fixed, None);
    lasts_for(&world, 19_700);

    let mut world = World::new(1);
    let bounded = world.acquire(0, AcquireOptions { max_hold: Some(seconds(60)), ..options() });
    world.pass(seconds(45));
    world.detach(0, bounded, Some(seconds(600)));
    lasts_for(&world, 15_000);
}

#[test]
fn a_lease_that_was_granted_for_a_claim_window_is_detached_for_a_ttl() {
    let mut world = World::new(2);
    let first = world.acquire(0, options());
    let waits = world.clients[1].acquire("job", options());
    world.serve();
    world.serve();
    world.clients[0].call(|op| Input::Release { op, lease: first });
    world.serve();
    let lease = world.clients[1].grant_of(waits).lease;
    assert!(world.left() <= 3_000);
    world.detach(1, lease, None);
    lasts_for(&world, 30_000);
}

#[test]
fn the_same_client_and_another_one_adopt_it_later_and_draw_greater_fences() {
    let mut world = World::new(2);
    let (mut lease, mut holder, mut fence) = (world.acquire(0, options()), 0, 0);
    for place in [0, 1, 0, 1, 1] {
        let token = world.detach(holder, lease, Some(seconds(100)));
        let adopted = world.adopt(place, token, options()).unwrap().unwrap().grant().unwrap();
        assert!(adopted.fence > fence);
        (fence, lease, holder) = (adopted.fence, adopted.lease, place);
        // The token works once.
        assert_eq!(world.adopt(1 - place, token, options()), Some(Err(Error::NotHeld)));
        assert_eq!(world.adopt(place, token, options()), Some(Err(Error::NotHeld)));
    }
}

#[test]
fn a_client_that_adopts_its_own_lease_draws_a_fence_above_those_that_it_used_by_local_hand_overs() {
    let mut world = World::new(1);
    // The server's counter is behind its clock.
    assert!(world.is_free_for(0, options()));
    world.pass(seconds(1));
    let first = world.clients[0].acquire("job", options());
    let waits: Vec<_> = (0..20).map(|_| world.clients[0].acquire("job", options())).collect();
    world.serve();
    let mut grant = world.clients[0].grant_of(first);
    // All in the same microsecond.
    for next in waits {
        let lease = grant.lease;
        world.call(0, |op| Input::Release { op, lease });
        grant = world.clients[0].grant_of(next);
        assert!(grant.local);
    }
    let lease = grant.lease;
    let token = token(world.call(0, |op| Input::Export { op, lease }));
    let adopted = world.adopt(0, token, options()).unwrap().unwrap().grant().unwrap();
    assert!(adopted.fence > grant.fence, "{} after {}", adopted.fence, grant.fence);
}

#[test]
fn another_client_adopts_it_after_the_first_has_closed() {
    let mut world = World::new(2);
    let lease = world.acquire(0, options());
    let token = world.detach(0, lease, Some(seconds(100)));
    world.call(0, |op| Input::Close { op });
    world.pass(seconds(90));
    let adopted = world.adopt(1, token, options()).unwrap().unwrap().grant().unwrap();
    world.pass(seconds(60));
    assert!(world.clients[1].engine.lease(adopted.lease).is_some_and(|lease| lease.lost.is_none()), "it is renewed");
}

#[test]
fn readers_and_permits_are_detached_and_adopted_in_their_mode() {
    let permits = |permits, limit| AcquireOptions { kind: Kind::Semaphore { permits, limit }, ..options() };
    let reader = AcquireOptions { mode: Mode::Shared, ..options() };
    // The limit is not what a lease has.
    for (as_acquired, adopts, other) in
        [(reader, reader, options()), (permits(2, 3), permits(2, 4), permits(1, 3)), (options(), options(), reader)]
    {
        let mut world = World::new(2);
        let lease = world.acquire(0, as_acquired);
        let token = world.detach(0, lease, Some(seconds(100)));
        assert!(matches!(world.adopt(1, token, other), Some(Err(Error::Conflict(_)))));
        let adopted = world.adopt(1, token, adopts).unwrap().unwrap().grant().unwrap();
        assert_eq!(adopted.mode, as_acquired.mode);
        let lease = adopted.lease;
        let released = world.call(1, |op| Input::Release { op, lease });
        assert_eq!(released, Some(Ok(Outcome::Released(ReleaseOutcome::Released))));
        assert_eq!(world.left(), 0);
    }
}

#[test]
fn tokens_of_readers_and_permits_that_are_held_can_be_adopted() {
    let permits = AcquireOptions { kind: Kind::Semaphore { permits: 2, limit: 3 }, ..options() };
    for options in [permits, AcquireOptions { mode: Mode::Shared, ..options() }] {
        for adopter in [0, 1] {
            let mut world = World::new(2);
            let lease = world.acquire(0, options);
            let token = token(world.call(0, |op| Input::Export { op, lease }));
            world.serve();
            world.adopt(adopter, token, options).unwrap().unwrap();
            let lost: Vec<_> = world.clients[0].lost.iter().map(|(lost, _, reason)| (*lost, *reason)).collect();
            assert_eq!(lost, [(lease, LossReason::Revoked)]);
        }
    }
}

#[test]
fn while_others_share_the_lease_it_is_neither_detached_nor_given_away() {
    let mut world = World::new(1);
    let reader = AcquireOptions { mode: Mode::Shared, ..options() };
    let (one, _two) = (world.acquire(0, reader), world.acquire(0, reader));
    for input in [|op, lease| Input::Detach { op, lease, time: None }, |op, lease| Input::Export { op, lease }] {
        let refused = world.call(0, |op| input(op, one));
        assert!(matches!(refused, Some(Err(Error::Conflict(_)))), "{refused:?}");
    }

    let mut world = World::new(1);
    let lease = world.acquire(0, options());
    world.call(0, |op| Input::Hold { op, lease });
    let refused = world.call(0, |op| Input::Detach { op, lease, time: None });
    assert!(matches!(refused, Some(Err(Error::Conflict(_)))), "{refused:?}");
    world.call(0, |op| Input::Release { op, lease });
    world.detach(0, lease, None);
}

#[test]
fn a_reader_that_was_handed_a_writers_lease_is_detached_for_its_time() {
    let mut world = World::new(2);
    let writer = world.clients[0].acquire("job", options());
    let reader = world.clients[0].acquire("job", AcquireOptions { mode: Mode::Shared, ..options() });
    world.serve();
    let lease = world.clients[0].grant_of(writer).lease;
    world.call(0, |op| Input::Release { op, lease });
    let grant = world.clients[0].grant_of(reader);
    assert!(grant.local);
    world.detach(0, grant.lease, Some(seconds(2)));
    lasts_for(&world, 2_000);
}

#[test]
fn what_cant_be_detached_says_so_and_stays_as_it_was() {
    let mut world = World::new(1);
    let owner = AcquireOptions { kind: Kind::Reentrant(Owner(1)), ..options() };
    let lease = world.acquire(0, owner);
    let refused = world.call(0, |op| Input::Detach { op, lease, time: None });
    assert!(matches!(refused, Some(Err(Error::Unsupported(_)))), "{refused:?}");
    assert!(world.clients[0].engine.lease(lease).is_some());

    let mut world = World::new(1);
    let lease = world.acquire(0, options());
    for time in [seconds(0), seconds(31 * 24 * 3_600)] {
        let refused = world.call(0, |op| Input::Detach { op, lease, time: Some(time) });
        assert!(matches!(refused, Some(Err(Error::InvalidOption { field: "ttl", .. }))), "{refused:?}");
    }
    world.clients[0].call(|op| Input::Convert { op, lease, mode: Mode::Shared });
    let refused = world.clients[0].call(|op| Input::Detach { op, lease, time: None });
    assert!(matches!(world.clients[0].result_of(refused), Some(Err(Error::Conflict(_)))));
    world.serve();
    world.detach(0, lease, None);
    assert_eq!(world.call(0, |op| Input::Detach { op, lease, time: None }), Some(Err(Error::NotHeld)));

    let parts = Part::mutexes(&["a", "b"]);
    let several = world.clients[0].call(|op| Input::AcquireAll {
        op,
        parts: &parts,
        options: Box::leak(Box::new(options())),
        one_script: false,
    });
    world.serve();
    let lease = match world.clients[0].result_of(several) {
        Some(Ok(outcome)) => outcome.grant().unwrap().lease,
        other => panic!("{other:?}"),
    };
    let refused = world.call(0, |op| Input::Detach { op, lease, time: None });
    assert!(matches!(refused, Some(Err(Error::Unsupported(_)))), "{refused:?}");

    let engine = Engine::quorum(ClientId::from_random([7; 16]), Config::default(), &["a", "b", "c"]).unwrap();
    let mut quorum = Client::of(engine);
    let refused = quorum.call(|op| Input::Detach { op, lease, time: None });
    assert!(matches!(quorum.result_of(refused), Some(Err(Error::Unsupported(_)))));
}

#[test]
fn a_lease_that_was_lost_before_or_meanwhile_fails_with_the_reason() {
    let mut world = World::new(1);
    let lease = world.acquire(0, AcquireOptions { renew: false, ..options() });
    world.pass(seconds(31));
    let lost = world.call(0, |op| Input::Detach { op, lease, time: None });
    assert_eq!(lost, Some(Err(Error::Lost(LossReason::Expired))));

    for (command, reason) in [
        (&[&b"DEL"[..], b"job"][..], LossReason::Gone),
        (&[b"SET", b"job", b"another library's", b"PX", b"60000"], LossReason::Taken),
    ] {
        let mut world = World::new(1);
        let lease = world.acquire(0, options());
        world.server.call(command).unwrap();
        let lost = world.call(0, |op| Input::Detach { op, lease, time: Some(seconds(5)) });
        assert_eq!(lost, Some(Err(Error::Lost(reason))));
        world.pass(seconds(120));
        assert!(world.clients[0].lost.is_empty(), "its holder knows of it by the call");
        assert!(world.clients[0].engine.is_idle());
    }
}

#[test]
fn a_lost_reply_is_asked_for_again_and_neither_that_nor_a_late_copy_changes_the_lease() {
    let mut world = World::new(1);
    let lease = world.acquire(0, options());
    let op = world.clients[0].call(|op| Input::Detach { op, lease, time: Some(seconds(20)) });
    // The reply is lost, and the network keeps a copy.
    let (id, reply) = world.carry_out(0);
    world.pass_in_silence(seconds(1));
    assert_eq!(scripts(&world.clients[0]), ["convert"], "it is sent again");
    let copy = world.carry_out_copy(0);
    world.serve();
    let first = token(world.clients[0].result_of(op).cloned());
    lasts_for(&world, 19_000);

    // The reply that was late, and again.
    world.clients[0].reply(id, reply.clone());
    world.clients[0].reply(id, reply);
    assert_eq!(world.clients[0].ended.iter().filter(|(ended, _)| *ended == op).count(), 1);
    assert!(world.clients[0].engine.is_idle());

    // The copy arrives after the lease was adopted: it changes nothing.
    world.adopt(0, first, options()).unwrap().unwrap();
    world.pass(seconds(1));
    let before = world.left();
    let words: Vec<&[u8]> = copy.iter().map(Vec::as_slice).collect();
    world.server.call(&words).unwrap();
    assert_eq!(world.left(), before);
    assert_eq!(world.adopt(0, first, options()), Some(Err(Error::NotHeld)));
}

#[test]
fn a_renewal_that_arrives_late_does_not_lengthen_the_lease() {
    let mut world = World::new(1);
    let lease = world.acquire(0, options());
    world.pass_in_silence(seconds(10));
    assert_eq!(scripts(&world.clients[0]), ["renew"]);
    let (renewal, command) = world.clients[0].unanswered.remove(0);
    world.detach(0, lease, Some(seconds(2)));
    let words: Vec<&[u8]> = command.words().collect();
    let reply = world.server.call(&words).unwrap();
    world.clients[0].reply(renewal, Ok(reply.into()));
    lasts_for(&world, 2_000);
    world.pass(seconds(3));
    assert_eq!(world.left(), 0);
    assert!(world.clients[0].lost.is_empty() && world.clients[0].engine.is_idle());
}

#[test]
fn an_unanswered_call_fails_in_time_and_the_client_goes_on_asking_for_as_long_as_the_lease_is_valid() {
    let mut world = World::new(1);
    let lease = world.acquire(0, options());
    let op = world.clients[0].call(|op| Input::Detach { op, lease, time: Some(seconds(600)) });
    world.clients[0].unanswered.clear();
    world.pass_in_silence(seconds(2));
    assert!(matches!(world.clients[0].result_of(op), Some(Err(Error::Unreachable { .. }))));
    assert!(world.clients[0].engine.lease(lease).is_none(), "it has ended here");
    world.clients[0].unanswered.clear();
    world.pass_in_silence(seconds(20));
    let last = world.clients[0].unanswered.pop().expect("it still asks");
    world.clients[0].unanswered = vec![last];
    world.serve();
    lasts_for(&world, 578_000);
    world.pass(seconds(3));
    assert!(world.clients[0].engine.is_idle() && world.clients[0].lost.is_empty());
}

#[test]
fn if_the_answer_never_comes_the_new_token_is_not_given_back() {
    let mut world = World::new(1);
    let lease = world.acquire(0, options());
    world.clients[0].call(|op| Input::Detach { op, lease, time: Some(seconds(600)) });
    drop(world.carry_out(0));
    // The server carries out each copy, and its replies are lost.
    for _ in 0..40 {
        world.pass_in_silence(seconds(1));
        while !world.clients[0].unanswered.is_empty() {
            drop(world.carry_out(0));
        }
    }
    world.pass(seconds(120));
    lasts_for(&world, 440_000);
    assert!(world.clients[0].engine.is_idle() && world.clients[0].lost.is_empty());
}

#[test]
fn an_error_of_the_server_ends_the_call_and_leaves_the_lock_until_its_ttl() {
    let mut world = World::new(1);
    let lease = world.acquire(0, options());
    let op = world.clients[0].call(|op| Input::Detach { op, lease, time: Some(seconds(600)) });
    let (id, _) = world.clients[0].unanswered.remove(0);
    world.clients[0].reply(id, Err(Failure::Refused("NOPERM no".into())));
    assert!(matches!(world.clients[0].result_of(op), Some(Err(Error::Auth(_)))));
    assert!(world.clients[0].engine.is_idle());
    assert!(world.left() > 29_000);
}

#[test]
fn a_close_waits_for_the_answer_and_gives_nothing_back() {
    let mut world = World::new(1);
    let lease = world.acquire(0, options());
    let detached = world.clients[0].call(|op| Input::Detach { op, lease, time: Some(seconds(600)) });
    let closed = world.clients[0].call(|op| Input::Close { op });
    assert_eq!(world.clients[0].result_of(closed), None);
    assert_eq!(scripts(&world.clients[0]), ["convert"]);
    world.serve();
    token(world.clients[0].result_of(detached).cloned());
    assert_eq!(world.clients[0].result_of(closed), Some(&Ok(Outcome::Closed { lost: 0, unreleased: 0 })));
    lasts_for(&world, 600_000);

    // The server is silent: the close ends all the same, and has nothing to report.
    let mut world = World::new(1);
    let lease = world.acquire(0, options());
    world.clients[0].call(|op| Input::Detach { op, lease, time: Some(seconds(600)) });
    let closed = world.clients[0].call(|op| Input::Close { op });
    world.pass_in_silence(seconds(2));
    assert_eq!(world.clients[0].result_of(closed), Some(&Ok(Outcome::Closed { lost: 0, unreleased: 0 })));
}

#[test]
fn a_drain_ends_when_the_last_lease_is_detached_and_the_close_waits_for_the_answer() {
    let mut world = World::new(1);
    let lease = world.acquire(0, options());
    let drained = world.clients[0].call(|op| Input::Drain { op, grace: seconds(60) });
    assert_eq!(world.clients[0].result_of(drained), None);
    let op = world.clients[0].call(|op| Input::Detach { op, lease, time: Some(seconds(600)) });
    assert_eq!(world.clients[0].result_of(drained), Some(&Ok(Outcome::Drained)), "before the server has answered");
    assert_eq!(world.clients[0].result_of(op), None);
    let closed = world.clients[0].call(|op| Input::Close { op });
    assert_eq!(world.clients[0].result_of(closed), None);
    world.serve();
    token(world.clients[0].result_of(op).cloned());
    assert_eq!(world.clients[0].result_of(closed), Some(&Ok(Outcome::Closed { lost: 0, unreleased: 0 })));
    lasts_for(&world, 600_000);
    assert!(world.clients[0].engine.is_idle());

    // A detach that is refused leaves the lease with its holder.
    let mut world = World::new(1);
    let reentrant = AcquireOptions { kind: Kind::Reentrant(Owner(1)), ..options() };
    let lease = world.acquire(0, reentrant);
    let drained = world.clients[0].call(|op| Input::Drain { op, grace: seconds(60) });
    let refused = world.call(0, |op| Input::Detach { op, lease, time: None });
    assert!(matches!(refused, Some(Err(Error::Unsupported(_)))), "{refused:?}");
    assert_eq!(world.clients[0].result_of(drained), None);
}

#[test]
fn the_next_local_caller_asks_the_server_and_waits_in_its_queue() {
    let mut world = World::new(1);
    let lease = world.acquire(0, AcquireOptions { linger: None, ..options() });
    let waits = world.clients[0].acquire("job", AcquireOptions { wait: Wait::Forever, ..options() });
    world.serve();
    world.detach(0, lease, Some(seconds(5)));
    assert!(!world.is_free_for(0, options()));
    world.serve();
    assert_eq!(world.clients[0].result_of(waits), None);
    world.pass(seconds(4));
    assert_eq!(world.clients[0].result_of(waits), None);
    world.pass(seconds(2));
    world.clients[0].grant_of(waits);
}

#[test]
fn a_force_release_takes_a_lock_that_was_detached() {
    let mut world = World::new(1);
    let lease = world.acquire(0, options());
    let token = world.detach(0, lease, Some(seconds(600)));
    let forced = world.call(0, |op| Input::ForceRelease { op, name: "job", foreign: false });
    assert_eq!(forced, Some(Ok(Outcome::Revoked(1))));
    assert_eq!(world.adopt(0, token, options()), Some(Err(Error::NotHeld)));
    assert!(world.is_free_for(0, options()));
}

#[test]
fn an_upgrade_without_a_convert_asks_the_server_first_if_another_client_may_have_adopted_the_lease() {
    let mut world = World::new(2);
    // A new counter is ahead of the clock. Later, the server reserves many fences for a lease that may linger.
    assert!(world.is_free_for(0, options()));
    world.pass(seconds(1));
    let lingers = AcquireOptions { linger: Some(seconds(1)), ..options() };
    let writer = world.acquire(0, lingers);
    let reader = AcquireOptions { mode: Mode::Shared, ..lingers };
    let waits = world.clients[0].acquire("job", AcquireOptions { wait: Wait::Forever, ..reader });
    world.call(0, |op| Input::Release { op, lease: writer });
    let lease = world.clients[0].grant_of(waits).lease;
    world.pass(seconds(3));
    let holders = match world.call(1, |op| Input::Inspect { op, name: "job" }) {
        Some(Ok(Outcome::Inspected(inspection))) => inspection.holders,
        other => panic!("{other:?}"),
    };
    // The message about the adoption is lost.
    world.clients[0].channels.clear();
    let adopted = world.adopt(1, LeaseToken::read(&holders[0].token).unwrap(), options());
    assert!(matches!(adopted, Some(Ok(Outcome::Acquired(_)))), "{adopted:?}");
    let upgraded = world.call(0, |op| Input::Convert { op, lease, mode: Mode::Exclusive });
    assert_eq!(upgraded, Some(Err(Error::Lost(LossReason::Gone))));
}
