//! Two clients of one server, whose scripts know its time differently: by `TIME`, or by the millisecond, where they may not run it.

mod world;

use std::time::Duration;

use leasehold_core::{Input, OpId};
use world::{NAME, World, options};

/// Client 0 may not run `TIME`, client 1 may. A millisecond of the server begins.
fn world() -> World {
    let mut world = World::new(2);
    world.without_time[0] = true;
    let lease = world.acquire(1, options());
    world.call(1, |op| Input::Release { op, lease });
    // The first fences of a server are ahead of its clock.
    world.pass(Duration::from_millis(10));
    world
}

/// Time passes in which nobody does anything.
fn pass(world: &mut World, micros: u64) {
    world.clients.iter_mut().for_each(|client| client.now += micros);
}

fn fence(world: &World, place: usize, op: OpId) -> u64 {
    world.clients[place].grant_of(op).fence
}

#[test]
fn the_next_fence_is_above_those_that_a_client_without_time_used_in_the_same_millisecond() {
    let mut world = world();
    let callers: Vec<OpId> = (0..5).map(|_| world.clients[0].acquire(NAME, options())).collect();
    world.serve();
    for op in &callers {
        let lease = world.clients[0].grant_of(*op).lease;
        pass(&mut world, 10);
        world.call(0, |op| Input::Release { op, lease });
    }
    let used = fence(&world, 0, callers[4]);
    let next = world.clients[1].acquire(NAME, options());
    world.serve();
    let next = fence(&world, 1, next);
    assert!(next > used, "{next} after {used}");
}

#[test]
fn a_grant_by_a_client_with_time_counts_within_the_millisecond_of_the_question_before_it() {
    let mut world = world();
    let lease = world.acquire(1, options());
    let waits = world.clients[0].acquire(NAME, options());
    world.serve();
    pass(&mut world, 300);
    world.call(1, |op| Input::Release { op, lease });
    assert!(world.clients[0].result_of(waits).is_some(), "the client didn't take the lock that it was granted");
}

#[test]
fn an_answer_from_before_a_grant_in_the_same_millisecond_takes_no_lease_away() {
    let mut world = world();
    // It subscribes when it waits for the first time.
    let lease = world.acquire(1, options());
    let first = world.clients[0].acquire(NAME, options());
    world.serve();
    world.call(1, |op| Input::Release { op, lease });
    world.pass(Duration::from_millis(2));
    let lease = world.clients[0].grant_of(first).lease;
    world.call(0, |op| Input::Release { op, lease });
    let lease = world.acquire(1, options());
    let waits = world.clients[0].acquire(NAME, options());
    let (id, late) = loop {
        let (id, reply) = world.carry_out(0);
        if world.carried_out.last() == Some(&"acquire") {
            break (id, reply);
        }
        world.clients[0].reply(id, reply);
    };
    pass(&mut world, 200);
    world.call(1, |op| Input::Release { op, lease });
    world.clients[0].grant_of(waits);
    world.clients[0].reply(id, late);
    assert_eq!(world.clients[0].lost, [], "the lock was granted after that answer");
}
