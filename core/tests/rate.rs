//! Semaphores with a rate: at most so many permits in any window, in order, and nothing is held.

mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_core::{
    AcquireOptions, Error, Failure, Input, Kind, LeaseId, Mode, OpId, Outcome, ReleaseOutcome, Replicas, Reply, Scalar,
    Wait,
};
use leasehold_harness::Rng;
use leasehold_harness::answers::SERVER_US;

use self::world::{NAME, World, options, scripts, seconds};

const PER: Duration = Duration::from_secs(10);

fn rate(permits: u32, limit: u32) -> AcquireOptions {
    AcquireOptions {
        kind: Kind::Semaphore { permits, limit },
        per: Some(PER),
        wait: Wait::Forever,
        ttl: seconds(1),
        ..options()
    }
}

fn grant(world: &World, place: usize, op: OpId) -> Option<u64> {
    match world.clients[place].result_of(op) {
        Some(Ok(Outcome::Acquired(grant))) => Some(grant.fence),
        None => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_start_leaves_nothing_behind_and_nothing_renews_releases_or_loses_it() {
    let mut world = World::new(1);
    let lease = world.acquire(0, rate(1, 1));
    assert!(world.clients[0].engine.is_idle());
    let before = world.left();
    assert_eq!(before, 10_001);
    let released = world.call(0, |op| Input::Release { op, lease });
    assert_eq!(released, Some(Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired))));
    for input in [
        |op, lease| Input::Verify { op, lease },
        |op, lease| Input::Extend { op, lease, ttl: seconds(60) },
        |op, lease| Input::Detach { op, lease, time: None },
        |op, lease| Input::Export { op, lease },
        |op, lease| Input::Convert { op, lease, mode: Mode::Shared },
    ] as [fn(OpId, LeaseId) -> Input<'static>; 5]
    {
        assert_eq!(world.call(0, |op| input(op, lease)), Some(Err(Error::NotHeld)));
    }
    let drained = world.call(0, |op| Input::Drain { op, grace: seconds(60) });
    assert_eq!(drained, Some(Ok(Outcome::Drained)));
    let closed = world.call(0, |op| Input::Close { op });
    assert_eq!(closed, Some(Ok(Outcome::Closed { lost: 0, unreleased: 0 })));
    assert_eq!(world.left(), before);
    assert!(world.clients[0].lost.is_empty());
}

#[test]
fn callers_start_in_order_as_soon_as_they_may_and_nobody_polls() {
    let mut world = World::new(3);
    for place in [0, 1] {
        world.acquire(place, rate(1, 2));
        world.pass(seconds(4));
    }
    let waits: Vec<_> = [2, 1, 0]
        .map(|place| {
            let op = world.clients[place].acquire(NAME, rate(1, 2));
            world.serve();
            world.serve();
            world.pass(seconds(1) / 10);
            (place, op)
        })
        .to_vec();
    let started = |world: &World| waits.iter().filter(|(place, op)| grant(world, *place, *op).is_some()).count();
    // Permits end 10 s and 14 s after the first.
    for (time, count) in [(1_690, 0), (20, 1), (3_970, 1), (40, 2), (5_970, 2), (40, 3)] {
        world.pass(Duration::from_millis(time));
        assert_eq!(started(&world), count, "{} µs", world.clients[0].now);
        let order = waits.iter().map(|(place, op)| grant(&world, *place, *op)).collect::<Vec<_>>();
        assert!(order.iter().take(count).all(Option::is_some), "in order: {order:?}");
    }
    // An acquire for each of five callers, four more for those that have waited, and heartbeats.
    let asked = world.carried_out.iter().filter(|script| **script == "semaphore-acquire").count();
    assert!(asked <= 5 + 4 + 30, "{asked}");
    assert!(world.carried_out.iter().all(|script| *script == "semaphore-acquire"), "{:?}", world.carried_out);
}

#[test]
fn a_crowd_starts_at_the_rate_and_not_at_the_pace_of_heartbeats() {
    let mut world = World::new(6);
    let options = AcquireOptions { per: Some(Duration::from_millis(100)), ..rate(1, 1) };
    let waits: Vec<_> = (0..60).map(|call| (call % 6, world.clients[call % 6].acquire(NAME, options))).collect();
    world.serve();
    world.serve();
    world.pass(Duration::from_millis(3_000));
    let started = waits.iter().filter(|(place, op)| grant(&world, *place, *op).is_some()).count();
    assert!((25..=30).contains(&started), "{started} in 3 s");
}

#[test]
fn an_acquire_whose_answer_is_lost_starts_once() {
    let mut world = World::new(2);
    let op = world.clients[0].acquire(NAME, rate(1, 2));
    drop(world.carry_out(0));
    world.pass(seconds(3));
    world.serve();
    assert!(grant(&world, 0, op).is_some(), "it was asked for again");
    world.acquire(1, rate(1, 2));
    assert!(!world.is_free_for(1, rate(1, 2)));
    world.pass(seconds(7) + Duration::from_millis(2));
    assert!(world.is_free_for(1, rate(1, 2)), "its window began with the first copy");
}

#[test]
fn a_heartbeat_that_is_on_its_way_at_the_grant_takes_no_more() {
    let mut world = World::new(2);
    world.acquire(0, rate(1, 1));
    let op = world.clients[1].acquire(NAME, rate(1, 1));
    world.serve();
    world.serve();
    world.pass(Duration::from_millis(9_500));
    world.pass_in_silence(Duration::from_millis(600));
    assert_eq!(scripts(&world.clients[1])[0], "semaphore-acquire");
    let late: Vec<Vec<u8>> = world.clients[1].unanswered[0].1.words().map(<[u8]>::to_vec).collect();
    // Another client's call grants the token.
    world.clients[0].acquire(NAME, AcquireOptions { wait: Wait::No, ..rate(1, 1) });
    drop(world.carry_out(0));
    assert!(grant(&world, 1, op).is_some());
    assert_eq!(scripts(&world.clients[1]).last(), Some(&"semaphore-release"), "the token is buried");
    world.serve();
    world.pass(seconds(11));
    let words: Vec<&[u8]> = late.iter().map(Vec::as_slice).collect();
    let now = SERVER_US as u64 + world.clients[0].now;
    let reply = world.server.execute(now, &words).unwrap().reply.unwrap();
    assert!(matches!(&reply, Reply::List(list) if list[0] == Scalar::Text((*b"gone").into())), "{reply:?}");
    assert!(world.is_free_for(0, rate(1, 1)));
}

#[test]
fn a_grant_that_its_client_hears_of_late_is_its_callers_start() {
    let mut world = World::new(2);
    let options = AcquireOptions { per: Some(Duration::from_millis(10)), ..rate(1, 1) };
    let op = world.clients[0].acquire(NAME, options);
    let (id, reply) = world.carry_out(0);
    world.pass_in_silence(seconds(1));
    world.clients[0].reply(id, reply);
    assert!(grant(&world, 0, op).is_some(), "the window was over before the answer came");
    world.serve();
    assert!(world.clients[0].engine.is_idle());
}

#[test]
fn a_cancelled_caller_that_was_granted_counts_and_one_that_waited_does_not() {
    let mut world = World::new(3);
    let op = world.clients[0].acquire(NAME, rate(1, 1));
    drop(world.carry_out(0));
    world.clients[0].feed(Input::Cancel { op });
    world.serve();
    assert!(!world.is_free_for(1, rate(1, 1)), "the server had granted it");
    let [gone, stays] = [1, 2].map(|place| {
        let op = world.clients[place].acquire(NAME, rate(1, 1));
        world.serve();
        world.serve();
        op
    });
    world.clients[1].feed(Input::Cancel { op: gone });
    world.serve();
    // A heartbeat comes just before, and there are at least 5 ms between two commands.
    world.pass(PER + Duration::from_millis(6));
    assert!(grant(&world, 2, stays).is_some());
    assert!(world.clients[1].engine.is_idle());
}

#[test]
fn another_window_or_none_is_another_kind() {
    let mut world = World::new(2);
    world.acquire(0, rate(1, 2));
    for per in [None, Some(seconds(9))] {
        let op = world.clients[1].acquire(NAME, AcquireOptions { per, ..rate(1, 2) });
        world.serve();
        let result = world.clients[1].result_of(op);
        assert!(matches!(result, Some(Err(Error::WrongKind(_)))), "{result:?}");
    }
    world.pass(seconds(11));
    world.acquire(1, AcquireOptions { per: None, ..rate(1, 2) });
}

#[test]
fn options_that_need_a_lease_are_refused() {
    let mut world = World::new(1);
    let replicas = Some(Replicas { min: 1, timeout: seconds(1) });
    let token = "00000001-0000-4000-8000-00000000000f:1";
    let of = |options: AcquireOptions, world: &mut World| {
        let op = world.clients[0].acquire(NAME, options);
        world.clients[0].result_of(op).cloned()
    };
    for options in
        [AcquireOptions { at_least: Some(seconds(1)), ..rate(1, 2) }, AcquireOptions { replicas, ..rate(1, 2) }]
    {
        let result = of(options, &mut world);
        assert!(matches!(result, Some(Err(Error::Unsupported(_)))), "{result:?}");
    }
    let read = leasehold_core::LeaseToken::read(token).unwrap();
    let result = world.adopt(0, read, rate(1, 2));
    assert!(matches!(result, Some(Err(Error::Unsupported(_)))), "{result:?}");
    for options in [
        AcquireOptions { kind: Kind::Lock, ..rate(1, 2) },
        AcquireOptions { per: Some(Duration::from_millis(9)), ..rate(1, 2) },
        AcquireOptions { per: Some(seconds(31 * 86_400)), ..rate(1, 2) },
    ] {
        let result = of(options, &mut world);
        assert!(matches!(result, Some(Err(Error::InvalidOption { field: "per", .. }))), "{result:?}");
    }
}

/// Callers of several clients under faults: lost answers, cancelled calls, clients that stand still or fail for good.
#[test]
fn no_window_has_more_permits_than_the_limit_whatever_happens_to_the_clients() {
    let mut full = 0;
    for seed in 0..60 {
        let (most, limit) = most_in_a_window(seed);
        assert!(most <= limit, "seed {seed}: {most} of {limit}");
        full += u32::from(most == limit);
    }
    assert!(full > 30, "the limit was reached in {full} runs only");
}

fn most_in_a_window(seed: u64) -> (u64, u64) {
    let mut rng = Rng::new(seed);
    let limit = 1 + rng.below(4);
    let mut world = World::new(4);
    let mut open = Vec::new();
    // By the server's record, in its milliseconds.
    let mut grants: Vec<(u64, u64)> = Vec::new();
    let mut seen = BTreeSet::new();
    for _ in 0..150 {
        let place = rng.below(4) as usize;
        match rng.below(9) {
            0..=3 => {
                let permits = 1 + rng.below(limit);
                let wait = if rng.once_in(4) { Wait::No } else { Wait::For(seconds(30)) };
                let options = AcquireOptions { wait, ..rate(permits as u32, limit as u32) };
                open.push((place, world.clients[place].acquire(NAME, options)));
            }
            4 if !open.is_empty() => {
                let (place, op) = open[rng.below(open.len() as u64) as usize];
                world.clients[place].feed(Input::Cancel { op });
            }
            5 if !world.clients[place].unanswered.is_empty() => {
                let (id, reply) = world.carry_out(place);
                if rng.once_in(2) {
                    world.clients[place].reply(id, reply);
                } else {
                    world.clients[place].reply(id, Err(Failure::TimedOut));
                }
            }
            6 => world.still[place] = !world.still[place],
            7 => world.pass(Duration::from_millis(*rng.pick(&[1, 40, 900, 9_999]))),
            _ => world.serve(),
        }
        for (token, started, permits) in permits_of(&world) {
            if seen.insert(token) {
                grants.push((started, permits));
            }
        }
    }
    let in_window = |from: u64| {
        let to = from + PER.as_millis() as u64;
        grants.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, permits)| permits).sum()
    };
    (grants.iter().map(|(at, _)| in_window(*at)).max().unwrap_or(0), limit)
}

/// What the server has recorded: the tokens with the time of their grant and their permits.
fn permits_of(world: &World) -> Vec<(Vec<u8>, u64, u64)> {
    let now = SERVER_US as u64 + world.clients[0].now;
    let key = format!("leasehold:{{{NAME}}}:permits");
    let modes: BTreeMap<_, _> = world.server.fields(now, key.as_bytes()).collect();
    let of = |mode: &[u8]| std::str::from_utf8(mode).unwrap().split('/').next().unwrap().parse().unwrap();
    let member =
        |(token, expiry): (&[u8], f64)| (token.to_vec(), expiry as u64 - PER.as_millis() as u64 - 1, of(modes[token]));
    world.server.members(now, NAME.as_bytes()).map(member).collect()
}
