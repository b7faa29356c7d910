//! Semaphores with a rate, on the server in memory and tokio's paused clock.
#![cfg(feature = "testing")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::testing::Server;
use leasehold::{Error, LockManager, ReleaseOutcome, Wait};
use tokio::time::{Instant, sleep, timeout};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn no_minute_has_more_starts_than_the_limit_and_they_come_in_order() {
    let server = Server::new();
    let began = Instant::now();
    let starts = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for call in 0..35 {
        let (locks, starts) = (server.manager().unwrap(), Arc::clone(&starts));
        tasks.push(tokio::spawn(async move {
            let api = locks.semaphore("api", 10).per(MINUTE).permits(1).wait(Wait::Forever);
            let lease = api.acquire().await.unwrap();
            starts.lock().unwrap().push((call, began.elapsed(), lease.fence()));
        }));
        sleep(Duration::from_millis(1_500)).await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    let starts = starts.lock().unwrap();
    assert!(starts.is_sorted_by_key(|(call, ..)| *call) && starts.is_sorted_by_key(|(.., fence)| *fence), "{starts:?}");
    for pair in starts.windows(11) {
        assert!(pair[10].1 - pair[0].1 >= MINUTE, "{pair:?}");
    }
    // The last one may start three windows after the first ten, which had started by 13.5 s.
    let last = starts[34].1;
    assert!(last >= 3 * MINUTE && last < 3 * MINUTE + Duration::from_secs(7), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn work_may_take_longer_than_the_window_and_nothing_is_held() {
    let locks = LockManager::in_memory().unwrap();
    let api = locks.semaphore("api", 1).per(Duration::from_secs(1));
    api.permits(1)
        .run(async |lease| {
            sleep(MINUTE).await;
            assert!(!lease.is_held());
            assert!(!lease.verify().await?);
            assert!(matches!(lease.extend(MINUTE).await, Err(Error::NotHeld { .. })));
            assert!(matches!(lease.token(), Err(Error::NotHeld { .. })));
            Ok::<_, Error>(())
        })
        .await
        .unwrap();
    let lease = api.acquire().await.unwrap();
    assert!(locks.query().held.is_empty());
    assert!(timeout(MINUTE, lease.lost()).await.is_err());
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Detached);
    let kept = api.acquire().await.unwrap();
    assert!(api.try_acquire().await.unwrap().is_none(), "a release gives nothing back");
    let before = Instant::now();
    assert_eq!(locks.close().await.unreleased, 0);
    assert_eq!(before.elapsed(), Duration::ZERO);
    drop(kept);
}

#[tokio::test(start_paused = true)]
async fn a_busy_rate_says_when_permits_come_back_and_names_no_holder() {
    let server = Server::new();
    for locks in [server.manager().unwrap(), server.manager().unwrap()] {
        let api = locks.semaphore("api", 1).per(MINUTE).permits(1).wait(Duration::from_secs(2));
        drop(api.try_acquire().await.unwrap());
        let error = api.acquire().await.unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("lock `api`: busy after 2 s; permits come back in 5"), "{text}");
        assert!(error.holder().is_none() && matches!(error, Error::Busy { is_rate: true, .. }), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_window_is_another_kind_and_options_of_a_lease_are_refused() {
    let locks = LockManager::in_memory().unwrap();
    let api = locks.semaphore("api", 2);
    drop(api.clone().per(MINUTE).acquire().await.unwrap());
    for other in [api.permits(1), api.clone().per(2 * MINUTE).permits(1)] {
        let error = other.try_acquire().await.unwrap_err();
        assert!(matches!(error, Error::WrongKind { .. }), "{error}");
    }
    let rate = api.clone().per(MINUTE).permits(1);
    let error = rate.clone().at_least(MINUTE).acquire().await.unwrap_err();
    assert_eq!(error.code(), "unsupported");
    let error = rate.adopt("00000001-0000-4000-8000-00000000000f:1").await.unwrap_err();
    assert_eq!(error.code(), "unsupported");
    let error = locks.mutex("job").per(MINUTE).acquire().await.unwrap_err();
    assert!(matches!(error, Error::InvalidOption { field: "per", .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn inspect_shows_the_limit_and_the_window_while_permits_count() {
    let locks = LockManager::in_memory().unwrap();
    let api = locks.semaphore("api", 2).per(MINUTE);
    drop(api.acquire().await.unwrap());
    let seen = locks.inspect("api").await.unwrap();
    assert_eq!((seen.limit, seen.per, seen.holders.len()), (Some(2), Some(MINUTE), 1));
    sleep(MINUTE + Duration::from_millis(2)).await;
    let seen = locks.inspect("api").await.unwrap();
    assert_eq!((seen.limit, seen.per), (None, None));
    let held = locks.semaphore("jobs", 9).acquire().await.unwrap();
    let seen = locks.inspect("jobs").await.unwrap();
    assert_eq!((seen.limit, seen.per), (Some(9), None));
    held.release().await.unwrap();
}
