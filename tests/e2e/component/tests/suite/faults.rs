//! Servers that crash, connections that break, and hosts that pause.

use std::time::{Duration, Instant};

use leasehold_component_tests::with_component;
use leasehold_servers::Server;
use leasehold_wasmtime_host::{ErrorKind, HoldEnd, LossReason, RedisProvider};

use crate::common::*;

#[tokio::test]
async fn a_server_that_restarts_empty_costs_the_lease_and_the_next_fence_is_greater() {
    let mut server = Server::start().unwrap();
    let url = server.url();
    let work = with_component(RedisProvider, async |locks| {
        let manager = ok(locks.open(&url, quick()).await);
        let lease = ok(manager.acquire(mutex("job"), ttl(5_000)).await);
        let fence = lease.fence().await.unwrap();
        server.restart().unwrap();
        let end = ok(soon("the loss is told", lease.hold(10_000)).await);
        assert_eq!(end, HoldEnd::Lost(LossReason::Gone));
        let next = ok(soon("it goes on", manager.acquire(mutex("job"), None)).await);
        assert!(next.fence().await.unwrap() > fence);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_gone_for_good_ends_waits_as_unreachable_and_leases_at_their_deadline() {
    let mut server = Server::start().unwrap();
    let url = server.url();
    let work = with_component(RedisProvider, async |locks| {
        let manager = ok(locks.open(&url, quick()).await);
        let lease = ok(manager.acquire(mutex("job"), ttl(1_000)).await);
        server.stop();
        let start = Instant::now();
        let (end, other) = tokio::join!(lease.hold(10_000), manager.acquire(mutex("other"), wait(700)));
        let error = refused(other);
        assert!(matches!(error.kind, ErrorKind::Unreachable) && error.retryable, "{error:?}");
        assert_eq!(ok(end), HoldEnd::Lost(LossReason::Expired));
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        let error = refused(manager.inspect("job").await);
        assert!(matches!(error.kind, ErrorKind::Unreachable), "{error:?}");

        server.restart().unwrap();
        ok(soon("it connects again", manager.acquire(mutex("job"), None)).await);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn cut_connections_are_made_again_and_cost_neither_the_lease_nor_the_place_in_the_queue() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let (one, other) = (open_quick(locks, &server).await, open_quick(locks, &server).await);
        let lease = ok(one.acquire(mutex("job"), ttl(1_500)).await);
        let cutting = async {
            until("somebody waits", || waiters(&server, "job") == 1).await;
            for _ in 0..3 {
                server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
                server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
                assert_eq!(ok(lease.hold(600).await), HoldEnd::Held);
            }
            assert!(ok(lease.verify().await));
            assert_eq!(waiters(&server, "job"), 1);
            ok(lease.release().await);
        };
        let (next, ()) = soon("all goes on", async { tokio::join!(other.acquire(mutex("job"), None), cutting) }).await;
        ok(next);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_server_that_stops_answering_and_goes_on_is_waited_for() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let manager = open_quick(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), ttl(3_000)).await);
        server.pause().unwrap();
        let error = refused(manager.try_acquire(mutex("other"), None).await);
        assert!(matches!(error.kind, ErrorKind::Unreachable), "{error:?}");
        server.resume().unwrap();
        assert_eq!(ok(lease.hold(1_500).await), HoldEnd::Held);
        assert!(ok(lease.verify().await));
        ok(manager.acquire(mutex("other"), None).await);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_host_that_was_stopped_past_the_lease_is_told_before_anything_else() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let manager = open_quick(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), ttl(300)).await);
        // The whole host runs on this one thread, so this pauses it.
        std::thread::sleep(Duration::from_millis(500));
        assert!(!lease.is_held().await.unwrap());
        let taken = ok(manager.acquire(mutex("job"), None).await);
        assert!(taken.fence().await.unwrap() > lease.fence().await.unwrap());
        assert_eq!(ok(lease.hold(1_000).await), HoldEnd::Lost(LossReason::Expired));
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_host_that_is_stopped_in_a_hold_wakes_to_its_loss() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let manager = open_quick(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), ttl(300)).await);
        let stopping = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            std::thread::sleep(Duration::from_millis(600));
        };
        let (end, ()) = tokio::join!(lease.hold(400), stopping);
        assert_eq!(ok(end), HoldEnd::Lost(LossReason::Expired));
    });
    work.await.unwrap();
}
