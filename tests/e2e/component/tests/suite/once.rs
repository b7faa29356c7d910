//! Work that is done once, and whose result all callers get.

use std::time::Duration;

use leasehold_wasmtime_host::{ErrorKind, Lease, LossReason, Manager, Once, OnceOptions, ReleaseOutcome, StoredResult};

use crate::common::*;
use crate::memory::{Memory, on_virtual_time};

const HOUR: u64 = 3_600_000;

fn options(keep_ms: Option<u64>, wait_ms: u64) -> Option<OnceOptions> {
    Some(OnceOptions { keep_ms, ttl_ms: Some(3_000), wait_ms: Some(wait_ms), max_hold_ms: None, max_waiters: None })
}

/// The lease of a caller that is to do the work.
async fn works<'a>(manager: Manager<'a>, options: Option<OnceOptions>) -> Lease<'a> {
    match ok(manager.begin_once("report", options).await) {
        Once::Work(lease) => lease,
        Once::Stored(StoredResult { value, .. }) => panic!("there is a result: {value}"),
    }
}

/// The result that a caller gets, and its fence.
async fn gets(manager: Manager<'_>) -> (String, u64) {
    match ok(manager.begin_once("report", None).await) {
        Once::Stored(StoredResult { value, fence }) => (value, fence),
        Once::Work(_) => panic!("there is no result"),
    }
}

#[tokio::test(start_paused = true)]
async fn one_manager_does_the_work_and_all_others_get_its_result_at_once() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let (one, other) = (open_quick(locks, &server).await, open_quick(locks, &server).await);
        let lease = works(one, options(Some(HOUR), 60_000)).await;
        let fence = lease.fence().await.unwrap();
        let busy = refused(other.begin_once("report", options(None, 0)).await);
        assert!(matches!(busy.kind, ErrorKind::Busy), "{busy:?}");
        let storing = async {
            // Longer than the TTL.
            ok(lease.hold(10_000).await);
            ok(lease.store(r#"{"rows":7}"#).await);
        };
        let (first, second, ()) = tokio::join!(gets(other), gets(one), storing);
        assert_eq!([first, second], [(); 2].map(|()| (r#"{"rows":7}"#.to_owned(), fence)));
        assert!(matches!(refused(lease.store("8").await).kind, ErrorKind::NotHeld));
        assert!(matches!(ok(lease.release().await), ReleaseOutcome::Released));
        assert!(!is_there(&server, "report"));
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn work_that_fails_or_loses_its_lease_stores_nothing_and_the_next_caller_does_it() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let (one, other) = (open_quick(locks, &server).await, open_quick(locks, &server).await);
        let failed = works(one, None).await;
        ok(failed.release().await);
        let lost = works(one, options(None, 60_000)).await;
        // Nothing renews it without a `hold`.
        tokio::time::sleep(Duration::from_secs(4)).await;
        let next = works(other, None).await;
        let refused_result = refused(lost.store("1").await);
        assert!(matches!(refused_result.kind, ErrorKind::Lost(LossReason::Expired | LossReason::Taken)));
        ok(next.store("2").await);
        assert_eq!(gets(one).await.0, "2");
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_result_lasts_for_its_time_and_until_it_is_forgotten() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        ok(works(manager, options(Some(HOUR), 60_000)).await.store("1").await);
        tokio::time::sleep(Duration::from_millis(HOUR - 1_000)).await;
        assert_eq!(gets(manager).await.0, "1");
        tokio::time::sleep(Duration::from_secs(2)).await;
        ok(works(manager, None).await.store("2").await);
        tokio::time::sleep(Duration::from_millis(24 * HOUR - 1_000)).await;
        assert_eq!(gets(manager).await.0, "2");
        assert!(ok(manager.forget("report").await));
        assert!(!ok(manager.forget("report").await));
        ok(works(manager, None).await.release().await);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_can_t_be_stored_or_kept_is_refused_and_the_lease_is_given_back() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        let long = "1".repeat(65_537);
        let refusal = refused(works(manager, None).await.store(&long).await);
        assert!(matches!(&refusal.kind, ErrorKind::InvalidOption(field) if field == "result"), "{refusal:?}");
        let mutex = ok(manager.acquire(mutex("other"), None).await);
        let refusal = refused(mutex.store("1").await);
        assert!(matches!(refusal.kind, ErrorKind::Unsupported), "{refusal:?}");
        let short = refused(manager.begin_once("report", options(Some(999), 60_000)).await);
        assert!(matches!(&short.kind, ErrorKind::InvalidOption(field) if field == "keep-ms"), "{short:?}");
        ok(works(manager, None).await.store(&long[1..]).await);
        assert_eq!(gets(manager).await.0.len(), 65_536);
        assert!(!is_there(&server, "other"));
    });
    work.await.unwrap();
}
