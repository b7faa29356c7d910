//! A lease is renewed while a call of `hold` runs.

use std::time::Duration;

use leasehold_wasmtime_host::{AcquireOptions, ErrorKind, HoldEnd, LossReason, ReleaseOutcome};
use tokio::time::Instant;

use crate::common::*;
use crate::memory::{Memory, on_virtual_time};

#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_holds_is_not_renewed_and_ends_with_its_ttl() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), ttl(400)).await);
        ends_unrenewed(&server, "job").await;
        assert!(!lease.is_held().await.unwrap());
        assert_eq!(ok(lease.hold(1_000).await), HoldEnd::Lost(LossReason::Expired), "and whoever comes late is told");
        assert_eq!(ok(lease.release().await), ReleaseOutcome::AlreadyExpired);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn hold_keeps_the_lease_again_and_again() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), ttl(1_200)).await);
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(3_000) {
            assert_eq!(ok(lease.hold(600).await), HoldEnd::Held);
        }
        assert!(ok(lease.verify().await));
        assert_eq!(ok(lease.release().await), ReleaseOutcome::Released);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_grant_by_message_is_brought_to_its_ttl_without_a_hold() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        // The claim window is 300 ms.
        let opened = async || ok(locks.open(&server.url(), quick()).await);
        let (one, other) = (opened().await, opened().await);
        let lease = ok(one.acquire(mutex("job"), None).await);
        let releasing = async {
            until("somebody waits", || waiters(&server, "job") == 1).await;
            ok(lease.release().await);
        };
        let (next, ()) = tokio::join!(other.acquire(mutex("job"), ttl(5_000)), releasing);
        let next = ok(next);
        until("its TTL is more than the claim window", || number(&server, &["PTTL", "job"]) > 4_000).await;
        assert!(next.is_held().await.unwrap());
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_release_ends_every_hold_of_the_lease() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), None).await);
        let releasing = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            ok(lease.release().await)
        };
        let ends = async { tokio::join!(lease.hold(60_000), lease.hold(60_000), releasing) };
        let (one, other, released) = soon("the holds end", ends).await;
        assert_eq!((ok(one), ok(other), released), (HoldEnd::Released, HoldEnd::Released, ReleaseOutcome::Released));
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_told_that_the_lease_is_gone_or_taken() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        for (name, reason) in [("flushed", LossReason::Gone), ("stolen", LossReason::Taken)] {
            let lease = ok(manager.acquire(mutex(name), ttl(3_000)).await);
            let striking = async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                match reason {
                    LossReason::Gone => server.cli(&["DEL", name]).unwrap(),
                    _ => server.cli(&["SET", name, "somebody else", "PX", "5000"]).unwrap(),
                }
            };
            let (end, _) = soon("the loss is told", async { tokio::join!(lease.hold(60_000), striking) }).await;
            assert_eq!(ok(end), HoldEnd::Lost(reason));
            assert!(!lease.is_held().await.unwrap());
            assert!(matches!(refused(lease.extend(1_000).await).kind, ErrorKind::NotHeld));
        }
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_ends_by_max_hold_whatever_hold_asks_for() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        let options =
            AcquireOptions { ttl_ms: Some(1_000), wait_ms: None, max_hold_ms: Some(2_000), max_waiters: None };
        let start = Instant::now();
        let lease = ok(manager.acquire(mutex("job"), Some(options)).await);
        let end = soon("it ends", lease.hold(60_000)).await;
        assert_eq!(ok(end), HoldEnd::Lost(LossReason::MaxHold));
        let time = start.elapsed();
        assert!((Duration::from_millis(1_980)..Duration::from_millis(2_010)).contains(&time), "{time:?}");
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn extend_brings_the_time_that_was_asked_for_and_no_renewals() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), ttl(900)).await);
        let start = Instant::now();
        ok(lease.extend(2_000).await);
        let left = Duration::from_millis(lease.remaining_ms().await.unwrap());
        assert!((1_990..=2_000).contains(&left.as_millis()), "{left:?}");
        ends_unrenewed(&server, "job").await;
        assert!((2_000..2_010).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    });
    work.await.unwrap();
}
