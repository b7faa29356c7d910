//! Elections: one leads, the others wait, and observers learn who leads.

mod observing;
#[path = "../world/mod.rs"]
mod world;

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, ClientId, Config, Engine, Error, Failure, Grant, Input, Kind, LeaseId, LossReason, Mode, NodeId,
    OpId, Outcome, Owner, ReleaseOutcome, Reply, Scalar, Wait,
};
use leasehold_harness::Client;

use self::world::{NAME, World, scripts, seconds};

const VALUES: [&str; 5] = ["10.0.0.1:80", "web 2", "", "{\"host\": \"c\"}", "ö"];

fn campaign(world: &mut World, place: usize) -> OpId {
    let op = stand(world, place);
    settle(world);
    op
}

fn stand(world: &mut World, place: usize) -> OpId {
    let options = AcquireOptions::default();
    world.clients[place].call(|op| Input::Campaign { op, name: NAME, value: VALUES[place], options: &options })
}

/// The server answers until no client has anything more to say.
fn settle(world: &mut World) {
    for _ in 0..4 {
        world.serve();
    }
}

fn term(world: &World, place: usize, op: OpId) -> Option<Grant> {
    match world.clients[place].result_of(op) {
        None => None,
        Some(Ok(Outcome::Acquired(grant))) => Some(*grant),
        other => panic!("{other:?}"),
    }
}

fn resign(world: &mut World, place: usize, lease: LeaseId) {
    world.clients[place].call(|op| Input::Release { op, lease });
    settle(world);
}

/// Runs until one of these campaigns has a term. Returns it, and how long that took.
fn next_term(world: &mut World, campaigns: &[(usize, OpId)], most: Duration) -> (usize, Grant, Duration) {
    let began = world.clients[0].now;
    loop {
        let found = campaigns.iter().find_map(|(place, op)| Some((*place, term(world, *place, *op)?)));
        let took = Duration::from_micros(world.clients[0].now - began);
        if let Some((place, grant)) = found {
            return (place, grant, took);
        }
        assert!(took <= most, "nobody leads after {took:?}");
        world.pass(Duration::from_millis(10));
    }
}

#[test]
fn one_leads_and_the_first_of_the_others_follows_at_the_moment_of_its_resignation() {
    let mut world = World::new(3);
    let campaigns = [0, 1, 2].map(|place| campaign(&mut world, place));
    let mut fence = 0;
    for place in 0..3 {
        let leader = term(&world, place, campaigns[place]).unwrap();
        assert!(leader.fence > fence && leader.mode == Mode::Exclusive);
        fence = leader.fence;
        let waiting = (place + 1..3).all(|other| term(&world, other, campaigns[other]).is_none());
        assert!(waiting, "{place}");
        world.pass(seconds(100));
        resign(&mut world, place, leader.lease);
    }
    settle(&mut world);
    assert!(world.clients.iter().all(|client| client.engine.is_idle() && client.lost.is_empty()));
    assert_eq!(world.left(), 0);
}

#[test]
fn a_leader_that_dies_is_followed_within_its_ttl_and_a_second() {
    let mut world = World::new(3);
    let leads = campaign(&mut world, 0);
    let others = [1, 2].map(|place| (place, campaign(&mut world, place)));
    assert!(term(&world, 0, leads).is_some());
    world.pass(seconds(12));
    world.still[0] = true;
    let (place, _, took) = next_term(&mut world, &others, seconds(31));
    assert_eq!(place, 1);
    assert!(took >= seconds(15), "the leader may have been alive for {took:?}");
}

#[test]
fn a_dead_candidate_ahead_costs_one_claim_window() {
    let mut world = World::new(3);
    let leads = campaign(&mut world, 0);
    let others = [1, 2].map(|place| (place, campaign(&mut world, place)));
    let lease = term(&world, 0, leads).unwrap().lease;
    world.pass(seconds(12));
    world.still[1] = true;
    resign(&mut world, 0, lease);
    let (place, _, took) = next_term(&mut world, &others, seconds(4));
    assert_eq!((place, took > Duration::ZERO), (2, true));
}

#[test]
fn nobody_leads_after_the_ttl_of_an_outage_and_all_campaign_on() {
    let mut world = World::new(3);
    let leads = campaign(&mut world, 0);
    let others = [1, 2].map(|place| (place, campaign(&mut world, place)));
    let leader = term(&world, 0, leads).unwrap();
    world.pass(seconds(12));
    let until = world.clients[0].engine.valid_until(leader.lease).unwrap();
    world.outage = true;
    world.pass(seconds(300));
    let [(lease, at, LossReason::Expired)] = world.clients[0].lost[..] else { panic!("{:?}", world.clients[0].lost) };
    assert_eq!((lease, at), (leader.lease, until.as_micros()));
    assert!(others.iter().all(|(place, op)| term(&world, *place, *op).is_none()), "no call has ended");
    let again = campaign(&mut world, 0);
    world.pass(seconds(300));
    // The answers to what was sent meanwhile never come.
    world.clients.iter_mut().for_each(|client| client.unanswered.clear());
    world.outage = false;
    let all = [(0, again), others[0], others[1]];
    let (_, grant, _) = next_term(&mut world, &all, seconds(4));
    assert!(grant.fence > leader.fence);
    world.pass(seconds(60));
    let terms = all.iter().filter(|(place, op)| term(&world, *place, *op).is_some()).count();
    assert_eq!(terms, 1);
}

#[test]
fn a_client_has_one_campaign_or_term_and_a_later_one_may_have_another_value() {
    let mut world = World::new(2);
    let observer = world.clients[1].call(|op| Input::Observe { op, name: NAME });
    settle(&mut world);
    let first = campaign(&mut world, 0);
    let options = AcquireOptions::default();
    let second = |op| Input::Campaign { op, name: NAME, value: "other", options: &options };
    let refused = world.clients[0].call(second);
    assert!(matches!(world.clients[0].result_of(refused), Some(Err(Error::Conflict(_)))));
    let lease = term(&world, 0, first).unwrap().lease;
    resign(&mut world, 0, lease);
    let op = world.clients[0].call(second);
    settle(&mut world);
    assert!(term(&world, 0, op).is_some());
    let values: Vec<_> = observing::values(&world, 1, observer);
    assert_eq!(values, [None, Some(VALUES[0].to_owned()), None, Some("other".to_owned())]);
    let waits = campaign(&mut world, 1);
    let cancelled = world.clients[1].call(second);
    assert!(matches!(world.clients[1].result_of(cancelled), Some(Err(Error::Conflict(_)))));
    world.clients[1].feed(Input::Cancel { op: waits });
    assert_eq!(world.clients[1].result_of(waits), Some(&Err(Error::Cancelled)));
}

#[test]
fn a_name_is_an_election_or_another_kind_of_lock() {
    let kinds = [Kind::Lock, Kind::Reentrant(Owner(1)), Kind::Semaphore { permits: 1, limit: 2 }];
    for kind in kinds {
        for mode in [Mode::Exclusive, Mode::Shared] {
            if mode == Mode::Shared && kind != Kind::Lock {
                continue;
            }
            let options = AcquireOptions { kind, mode, wait: Wait::No, ..AcquireOptions::default() };
            let mut world = World::new(2);
            campaign(&mut world, 0);
            let op = world.clients[1].acquire(NAME, options);
            settle(&mut world);
            assert!(matches!(world.clients[1].result_of(op), Some(Err(Error::WrongKind(_)))), "{kind:?} {mode:?}");

            let mut world = World::new(2);
            let op = world.clients[1].acquire(NAME, options);
            settle(&mut world);
            assert!(matches!(world.clients[1].result_of(op), Some(Ok(Outcome::Acquired(_)))));
            let op = campaign(&mut world, 0);
            assert!(matches!(world.clients[0].result_of(op), Some(Err(Error::WrongKind(_)))), "{kind:?} {mode:?}");
            let op = world.clients[0].call(|op| Input::Observe { op, name: NAME });
            settle(&mut world);
            assert!(matches!(world.clients[0].result_of(op), Some(Err(Error::WrongKind(_)))), "{kind:?} {mode:?}");
            assert!(world.clients[0].engine.is_idle());
        }
    }
}

#[test]
fn a_waiter_of_another_kind_is_not_elected() {
    let mut world = World::new(3);
    // A reader holds the name, and a writer waits for it.
    let shared = AcquireOptions { mode: Mode::Shared, renew: false, ttl: seconds(2), ..AcquireOptions::default() };
    world.acquire(0, shared);
    let writer = world.clients[1].acquire(NAME, AcquireOptions { wait: Wait::Forever, ..AcquireOptions::default() });
    settle(&mut world);
    // Both stop, and the reader's lease ends. The campaign waits until the writer's place is over, and grants it nothing.
    (world.still[0], world.still[1]) = (true, true);
    world.pass(Duration::from_millis(2_100));
    let op = campaign(&mut world, 2);
    assert_eq!(world.clients[2].result_of(op), None);
    world.pass(seconds(2));
    assert!(term(&world, 2, op).is_some());
    assert_eq!(world.clients[1].result_of(writer), None);
}

#[test]
fn an_operator_sees_the_leader_and_deposes_it() {
    let mut world = World::new(3);
    let leads = campaign(&mut world, 0);
    let waits = campaign(&mut world, 1);
    world.pass(seconds(40));
    let fence = term(&world, 0, leads).unwrap().fence;
    let Some(Ok(Outcome::Inspected(seen))) = world.call(2, |op| Input::Inspect { op, name: NAME }) else { panic!() };
    let [holder] = &seen.holders[..] else { panic!("{seen:?}") };
    assert_eq!((holder.mode, holder.foreign, seen.waiting), (Mode::Exclusive, false, 1));
    assert_eq!(seen.last_fence.map(|fence| fence.get()), Some(fence));
    assert!(holder.held.is_some_and(|held| (39_990..=40_010).contains(&held.as_millis())), "{holder:?}");

    let revoked = world.call(2, |op| Input::ForceRelease { op, name: NAME, foreign: false });
    assert_eq!(revoked, Some(Ok(Outcome::Revoked(1))));
    settle(&mut world);
    assert!(matches!(world.clients[0].lost[..], [(_, _, LossReason::Revoked)]));
    assert!(term(&world, 1, waits).unwrap().fence > fence);
}

#[test]
fn what_needs_another_token_is_unsupported_and_a_term_is_renewed_extended_and_verified() {
    let mut world = World::new(1);
    let op = campaign(&mut world, 0);
    let lease = term(&world, 0, op).unwrap().lease;
    let ttl = seconds(60);
    let unsupported: [fn(OpId, LeaseId) -> Input<'static>; 4] = [
        |op, lease| Input::Detach { op, lease, time: None },
        |op, lease| Input::Export { op, lease },
        |op, lease| Input::Shorten { op, lease, ttl: seconds(1) },
        |op, lease| Input::Convert { op, lease, mode: Mode::Shared },
    ];
    for input in unsupported {
        let result = world.call(0, |op| input(op, lease));
        assert!(matches!(result, Some(Err(Error::Unsupported(_)))), "{result:?}");
    }
    assert!(matches!(world.call(0, |op| Input::Extend { op, lease, ttl }), Some(Ok(Outcome::Extended { .. }))));
    assert_eq!(world.call(0, |op| Input::Verify { op, lease }), Some(Ok(Outcome::Verified(true))));
    world.pass(seconds(1_000));
    assert!(world.clients[0].lost.is_empty());
    let released = world.call(0, |op| Input::Release { op, lease });
    assert_eq!(released, Some(Ok(Outcome::Released(ReleaseOutcome::Released))));
}

#[test]
fn a_value_is_a_short_line() {
    let mut client = Client::new(Config::default());
    let options = AcquireOptions::default();
    let long = "v".repeat(1_025);
    for value in [&*long, "a\nb", "a\0b"] {
        let op = client.call(|op| Input::Campaign { op, name: NAME, value, options: &options });
        assert!(matches!(client.result_of(op), Some(Err(Error::InvalidOption { field: "value", .. }))));
    }
    for (name, ttl, field) in [("", seconds(30), "name"), (NAME, Duration::ZERO, "ttl")] {
        let options = AcquireOptions { ttl, ..options };
        let op = client.call(|op| Input::Campaign { op, name, value: &long[1..], options: &options });
        let Some(Err(Error::InvalidOption { field: refused, .. })) = client.result_of(op) else { panic!() };
        assert_eq!(*refused, field);
    }
    assert!(client.engine.is_idle());
}

#[test]
fn a_drain_ends_campaigns_and_a_close_ends_terms_and_observers_too() {
    let mut world = World::new(2);
    let leads = campaign(&mut world, 0);
    let observes = world.clients[0].call(|op| Input::Observe { op, name: NAME });
    let waits = campaign(&mut world, 1);
    let drain = |op| Input::Drain { op, grace: seconds(10) };
    world.clients[1].call(drain);
    assert_eq!(world.clients[1].result_of(waits), Some(&Err(Error::Closed)));
    world.clients[0].call(drain);
    world.pass(seconds(1));
    assert!(world.clients[0].lost.is_empty() && world.clients[0].result_of(observes).is_none());
    let refused = campaign(&mut world, 0);
    assert!(matches!(world.clients[0].result_of(refused), Some(Err(Error::Closed | Error::Conflict(_)))));
    assert!(term(&world, 0, leads).is_some());
    let closed = world.call(0, |op| Input::Close { op });
    assert_eq!(closed, Some(Ok(Outcome::Closed { lost: 1, unreleased: 0 })));
    assert_eq!(world.clients[0].result_of(observes), Some(&Err(Error::Closed)));
    assert_eq!(world.left(), 0);
    assert!(world.clients[0].engine.is_idle());
}

#[test]
fn a_reply_that_was_lost_or_is_late_leaves_a_term_its_number() {
    // The reply to the first acquire is lost, so the next one finds the term.
    let mut world = World::new(2);
    let observes = world.clients[1].call(|op| Input::Observe { op, name: NAME });
    settle(&mut world);
    let op = stand(&mut world, 0);
    let (id, _) = world.carry_out(0);
    world.clients[0].reply(id, Err(Failure::Interrupted("reset".into())));
    world.pass(seconds(3));
    let fence = term(&world, 0, op).unwrap().fence;
    assert_eq!(observing::fences(&world, 1, observes), [None, Some(fence)]);
}

#[test]
fn a_quorum_has_no_elections() {
    let engine = Engine::quorum(ClientId::from_random([7; 16]), Config::default(), &["a", "b", "c"]).unwrap();
    let mut client = Client::of(engine);
    let options = AcquireOptions::default();
    let op = client.call(|op| Input::Campaign { op, name: NAME, value: "", options: &options });
    assert!(matches!(client.result_of(op), Some(Err(Error::Unsupported(_)))));
    let op = client.call(|op| Input::Observe { op, name: NAME });
    assert!(matches!(client.result_of(op), Some(Err(Error::Unsupported(_)))));
}
