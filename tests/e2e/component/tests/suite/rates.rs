//! Rates: semaphores with `per-ms`. And how many callers may wait: `max-waiters`.

use leasehold_wasmtime_host::{
    AcquireOptions, ErrorKind, HoldEnd, Multi, Once, OnceOptions, Part, ReleaseOutcome, Semaphore, Target,
};
use tokio::time::Instant;

use crate::common::*;
use crate::memory::{Memory, on_virtual_time};

fn rate(name: &str, limit: u32, per_ms: u64) -> Semaphore {
    Semaphore { name: name.to_owned(), limit, permits: 1, per_ms: Some(per_ms) }
}

fn behind(max_waiters: u32) -> Option<AcquireOptions> {
    long().map(|options| AcquireOptions { max_waiters: Some(max_waiters), ..options })
}

#[tokio::test(start_paused = true)]
async fn at_most_limit_permits_start_in_each_window_whatever_happens_to_their_leases() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let (one, other) = (open_quick(locks, &server).await, open_quick(locks, &server).await);
        let mut starts = Vec::new();
        for (start, manager) in [one, other, one, other, one].into_iter().enumerate() {
            let lease = ok(manager.acquire(Target::Semaphore(rate("api", 2, 10_000)), ttl(10)).await);
            starts.push(Instant::now());
            assert!(!lease.is_held().await.unwrap() && !ok(lease.verify().await));
            assert_eq!(lease.remaining_ms().await.unwrap(), 0);
            match start {
                0 => lease.drop().unwrap(),
                1 => assert_eq!(ok(lease.hold(60_000).await), HoldEnd::Released),
                _ => {}
            }
            if start != 0 {
                assert!(matches!(refused(lease.extend(1_000).await).kind, ErrorKind::NotHeld));
                assert!(matches!(refused(lease.token().await).kind, ErrorKind::NotHeld));
                assert!(lease.fence().await.unwrap() > 0);
                assert_eq!(ok(lease.release().await), ReleaseOutcome::Detached);
            }
        }
        // An answer comes half a round trip after its grant.
        for window in starts.windows(3) {
            assert!((window[2] - window[0]).as_millis() >= 9_990, "{window:?}");
        }
        assert!((starts[4] - starts[0]).as_millis() < 20_500, "no waiter is late: {starts:?}");
        let seen = ok(other.inspect("api").await);
        assert_eq!((seen.limit, seen.per_ms), (Some(2), Some(10_000)));
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_rate_that_can_not_be_is_refused_with_the_reason() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        for per_ms in [0, 9, 31 * 24 * 3_600_000] {
            let error = refused(manager.acquire(Target::Semaphore(rate("api", 2, per_ms)), None).await);
            assert!(matches!(&error.kind, ErrorKind::InvalidOption(field) if field == "per-ms"), "{error:?}");
        }
        let parts = vec![Part::Mutex("order".to_owned()), Part::Semaphore(rate("api", 2, 1_000))];
        let error = refused(manager.acquire(Target::Multi(Multi { parts, one_script: false }), None).await);
        assert!(matches!(error.kind, ErrorKind::Unsupported), "{error:?}");
        assert!(error.message.contains("acquire it before the others"), "{error:?}");
        let token = "01234567-89ab-cdef-0123-456789abcdef:7";
        let error = refused(manager.adopt(Target::Semaphore(rate("api", 2, 1_000)), token, None).await);
        assert!(matches!(error.kind, ErrorKind::Unsupported), "{error:?}");

        ok(manager.acquire(Target::Semaphore(rate("api", 2, 60_000)), None).await);
        let plain = Semaphore { per_ms: None, ..rate("api", 2, 0) };
        for other in [plain, rate("api", 2, 1_000)] {
            let error = refused(manager.acquire(Target::Semaphore(other), None).await);
            assert!(matches!(error.kind, ErrorKind::WrongKind), "{error:?}");
        }
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_caller_is_refused_at_once_if_so_many_others_wait() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let (one, other) = (open_quick(locks, &server).await, open_quick(locks, &server).await);
        let third = open_quick(locks, &server).await;
        let held = ok(one.acquire(mutex("job"), long()).await);
        let refusing = async {
            until("it waits", || waiters(&server, "job") == 1).await;
            let error = refused(third.acquire(mutex("job"), behind(1)).await);
            assert!(error.kind == ErrorKind::Busy && error.waiters == Some(1), "{error:?}");
            ok(held.release().await);
        };
        let (next, ()) = tokio::join!(other.acquire(mutex("job"), behind(1)), refusing);
        ok(ok(next).release().await);
        let error = refused(one.acquire(reentrant("account", 1), behind(1)).await);
        assert!(matches!(error.kind, ErrorKind::Unsupported), "{error:?}");

        let behind = |max_waiters| {
            Some(OnceOptions { keep_ms: None, ttl_ms: Some(60_000), wait_ms: None, max_hold_ms: None, max_waiters })
        };
        let Once::Work(lease) = ok(one.begin_once("report", behind(Some(0))).await) else {
            panic!("nobody has done it")
        };
        let storing = async {
            until("it waits", || waiters(&server, "report") == 1).await;
            let error = refused(other.begin_once("report", behind(Some(1))).await);
            assert!(error.kind == ErrorKind::Busy && error.waiters == Some(1), "{error:?}");
            ok(lease.store("7").await);
        };
        let (stored, ()) = tokio::join!(other.begin_once("report", behind(Some(1))), storing);
        assert!(matches!(ok(stored), Once::Stored(result) if result.value == "7"));
        assert!(matches!(ok(one.begin_once("report", behind(Some(0))).await), Once::Stored(_)), "nobody waits for it");
    });
    work.await.unwrap();
}
