//! A host can drop a call without telling the component. What the call started then goes on for a limited time.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use leasehold_wasmtime_host::HoldEnd;
use tokio::time::Instant;

use crate::common::*;
use crate::memory::{Memory, on_virtual_time};

/// Starts a call and drops it shortly after.
async fn dropped<F: Future>(call: F) {
    let ended = tokio::time::timeout(Duration::from_millis(100), call).await;
    assert!(ended.is_err(), "it ended before it could be dropped");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_acquire_keeps_nobody_from_the_lock_for_long() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let (one, lost, other) =
            (open_quick(locks, &server).await, open_quick(locks, &server).await, open_quick(locks, &server).await);
        let lease = ok(one.acquire(mutex("job"), None).await);
        dropped(lost.acquire(mutex("job"), ttl(500))).await;
        until("its waiter is still there", || waiters(&server, "job") == 1).await;
        ok(lease.release().await);
        // The abandoned waiter gets the lock. No caller renews the lease, so it expires after its TTL.
        let next = soon("the lock is free again", other.acquire(mutex("job"), None)).await;
        assert!(ok(next).is_held().await.unwrap());
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_wait_of_a_dropped_acquire_ends() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let (one, lost) = (open_quick(locks, &server).await, open_quick(locks, &server).await);
        let _lease = ok(one.acquire(mutex("job"), None).await);
        dropped(lost.acquire(mutex("job"), wait(3_000))).await;
        until("it is there", || waiters(&server, "job") == 1).await;
        let time = until("it has left the queue", || waiters(&server, "job") == 0).await;
        assert!((2_890..2_910).contains(&time.as_millis()), "{time:?}");
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dropped_hold_keeps_the_lock_for_its_time_and_a_ttl_at_most() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), ttl(900)).await);
        let start = Instant::now();
        dropped(lease.hold(2_500)).await;
        until("the TTL is over", || start.elapsed() > Duration::from_millis(1_500)).await;
        assert!(is_there(&server, "job"), "the component does not know that the call was dropped");
        until("the lock is free", || !is_there(&server, "job")).await;
        assert!(start.elapsed() < Duration::from_millis(2_500 + 900 + 10), "{:?}", start.elapsed());
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_is_lent_can_not_be_dropped_and_a_release_ends_the_loan() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), None).await);
        let dropping = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(lease.drop().is_err());
            ok(lease.release().await);
        };
        let (end, ()) = soon("the hold ends", async { tokio::join!(lease.hold(60_000), dropping) }).await;
        assert_eq!(ok(end), HoldEnd::Released);
        lease.drop().unwrap();
        assert!(!is_there(&server, "job"));
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn other_calls_do_not_keep_a_lease_that_nobody_holds() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        let _left = ok(manager.acquire(mutex("left"), ttl(900)).await);
        let kept = ok(manager.acquire(mutex("kept"), ttl(900)).await);
        ok(kept.hold(2_000).await);
        assert!(!is_there(&server, "left") && is_there(&server, "kept"));
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_at_once_does_no_harm() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        for number in 0..100 {
            let name = format!("job-{number}");
            let mut call = pin!(manager.acquire(mutex(&name), ttl(500)));
            let pending = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending()));
            assert!(pending.await);
        }
        let lease = ok(soon("the lock is free again", manager.acquire(mutex("job-0"), None)).await);
        ok(lease.release().await);
    });
    work.await.unwrap();
}
