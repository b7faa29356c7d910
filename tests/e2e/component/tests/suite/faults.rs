//! Servers that crash, connections that break, and hosts that pause.

use std::time::Duration;

use leasehold_component_tests::with_component;
use leasehold_servers::Server;
use leasehold_wasmtime_host::{ErrorKind, HoldEnd, LossReason, RedisProvider};
use tokio::time::{Instant, advance};

use crate::common::*;
use crate::memory::{Memory, on_virtual_time};

#[tokio::test(start_paused = true)]
async fn a_server_that_restarts_empty_costs_the_lease_and_the_next_fence_is_greater() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = ok(locks.open(&server.url(), quick()).await);
        let lease = ok(manager.acquire(mutex("job"), ttl(5_000)).await);
        let fence = lease.fence().await.unwrap();
        server.restart();
        let end = ok(soon("the loss is told", lease.hold(10_000)).await);
        assert_eq!(end, HoldEnd::Lost(LossReason::Gone));
        let next = ok(soon("it goes on", manager.acquire(mutex("job"), long())).await);
        assert!(next.fence().await.unwrap() > fence);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_for_good_ends_waits_as_unreachable_and_leases_at_their_deadline() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = ok(locks.open(&server.url(), quick()).await);
        let lease = ok(manager.acquire(mutex("job"), ttl(1_000)).await);
        server.stop();
        let start = Instant::now();
        let (end, other) = tokio::join!(lease.hold(10_000), manager.acquire(mutex("other"), wait(700)));
        let error = refused(other);
        assert!(matches!(error.kind, ErrorKind::Unreachable) && error.retryable, "{error:?}");
        assert_eq!(ok(end), HoldEnd::Lost(LossReason::Expired));
        assert!(start.elapsed() < Duration::from_millis(1_010), "{:?}", start.elapsed());
        let error = refused(manager.inspect("job").await);
        assert!(matches!(error.kind, ErrorKind::Unreachable), "{error:?}");

        server.restart();
        ok(soon("it connects again", manager.acquire(mutex("job"), long())).await);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn cut_connections_are_made_again_and_cost_neither_the_lease_nor_the_place_in_the_queue() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let (one, other) = (open(locks, &server).await, open(locks, &server).await);
        let lease = ok(one.acquire(mutex("job"), long()).await);
        let cutting = async {
            until("somebody waits", || waiters(&server, "job") == 1).await;
            for _ in 0..3 {
                server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
                server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
                assert!(again("it connects again", async || lease.verify().await).await);
            }
            assert_eq!(waiters(&server, "job"), 1);
            ok(lease.release().await);
        };
        let (next, ()) =
            soon("all goes on", async { tokio::join!(other.acquire(mutex("job"), long()), cutting) }).await;
        ok(next);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_answering_and_goes_on_is_waited_for() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), ttl(3_000)).await);
        server.pause();
        let error = refused(manager.try_acquire(mutex("other"), None).await);
        assert!(matches!(error.kind, ErrorKind::Unreachable), "{error:?}");
        server.resume();
        assert_eq!(ok(lease.hold(1_500).await), HoldEnd::Held);
        assert!(ok(lease.verify().await));
        ok(manager.acquire(mutex("other"), long()).await);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_host_that_was_stopped_past_the_lease_is_told_before_anything_else() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), ttl(300)).await);
        // Nothing runs while this passes.
        advance(Duration::from_millis(500)).await;
        assert!(!lease.is_held().await.unwrap());
        let taken = ok(manager.acquire(mutex("job"), long()).await);
        assert!(taken.fence().await.unwrap() > lease.fence().await.unwrap());
        assert_eq!(ok(lease.hold(1_000).await), HoldEnd::Lost(LossReason::Expired));
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_stopped_in_a_hold_wakes_to_its_loss() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), ttl(300)).await);
        let stopping = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            advance(Duration::from_millis(600)).await;
        };
        let (end, ()) = tokio::join!(lease.hold(400), stopping);
        assert_eq!(ok(end), HoldEnd::Lost(LossReason::Expired));
    });
    work.await.unwrap();
}
