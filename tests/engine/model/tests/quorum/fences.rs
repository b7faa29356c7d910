//! Fences rise with any next majority, and with any server clocks.

use crate::world::{Health, MS, ScriptedQuorum};

#[test]
fn the_fence_is_the_greatest_of_the_majority_and_that_majority_remembers_it() {
    let mut quorum = ScriptedQuorum::new(5, 1);
    quorum.ahead[1] = 3_600_000 * MS;
    let grant = quorum.acquired(0, 30_000);
    let knowing = (0..5).filter(|server| quorum.last_fence(*server) >= grant.fence).count();
    assert!(knowing >= 3, "{knowing} servers know the fence");
    quorum.settle();
    assert!((0..5).all(|server| quorum.last_fence(server) >= grant.fence), "those that joined later as well");
}

#[test]
fn another_majority_draws_a_greater_fence_though_its_clocks_are_behind() {
    let mut quorum = ScriptedQuorum::new(5, 2);
    // Server 2 is an hour ahead. It is the only server in both majorities.
    quorum.ahead[2] = 3_600_000 * MS;
    quorum.set([3, 4], Health::Dead);
    let first = quorum.acquired(0, 30_000);
    quorum.release(0, first.lease).unwrap();
    // The server with the fast clock is down now. Two servers that remember the fence are in the next majority.
    quorum.set([2], Health::Dead);
    quorum.set([3, 4], Health::Well);
    let second = quorum.acquired(1, 30_000);
    assert!(second.fence > first.fence, "{} after {}", second.fence, first.fence);
}

#[test]
fn a_server_that_forgot_before_the_raise_does_not_count() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    quorum.ahead[0] = 10 * MS;
    quorum.warm();
    quorum.set([2], Health::Dead);
    let op = quorum.acquire(0, 30_000, leasehold_core::Wait::No);
    // Both servers have granted. Server 1 loses its data before its fence is raised.
    quorum.pass(MS + MS / 4);
    assert_eq!(quorum.held(), 2);
    quorum.servers[1].0.flush_all();
    assert!(quorum.result(0, op).is_err());
    quorum.settle();
    assert_eq!(quorum.held(), 0);
}
