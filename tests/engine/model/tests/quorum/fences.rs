//! Fences rise whatever majority comes next, and whatever the servers' clocks say.

use crate::world::{Health, MS, World};

#[test]
fn the_fence_is_the_greatest_of_the_majority_and_that_majority_remembers_it() {
    let mut world = World::new(5, 1);
    world.ahead[1] = 3_600_000 * MS;
    let grant = world.acquired(0, 30_000);
    let knowing = (0..5).filter(|server| world.last_fence(*server) >= grant.fence).count();
    assert!(knowing >= 3, "{knowing} servers know the fence");
    world.settle();
    assert!((0..5).all(|server| world.last_fence(server) >= grant.fence), "those that joined later as well");
}

#[test]
fn another_majority_draws_a_greater_fence_though_its_clocks_are_behind() {
    let mut world = World::new(5, 2);
    // Server 2 is an hour ahead, and alone in both majorities.
    world.ahead[2] = 3_600_000 * MS;
    world.set([3, 4], Health::Dead);
    let first = world.acquired(0, 30_000);
    world.release(0, first.lease).unwrap();
    // The fast clock is away now; two of those that remember are left in the next majority.
    world.set([2], Health::Dead);
    world.set([3, 4], Health::Well);
    let second = world.acquired(1, 30_000);
    assert!(second.fence > first.fence, "{} after {}", second.fence, first.fence);
}

#[test]
fn a_server_that_forgot_before_the_raise_does_not_count() {
    let mut world = World::new(3, 1);
    world.ahead[0] = 10 * MS;
    world.warm();
    world.set([2], Health::Dead);
    let op = world.acquire(0, 30_000, leasehold_core::Wait::No);
    // Both have granted, and server 1 is to be raised: it loses everything first.
    world.pass(MS + MS / 4);
    assert_eq!(world.held(), 2);
    world.servers[1].0.flush_all();
    assert!(world.result(0, op).is_err());
    world.settle();
    assert_eq!(world.held(), 0);
}
