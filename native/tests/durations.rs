//! How long leases, waits and calls take: on virtual time, against a server in memory.

use std::time::Duration;

use leasehold::testing::Server;
use leasehold::{Error, Lease, Lock, LockManager, LossReason, Owner, ReleaseOutcome};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(3);

/// Begins to acquire, and returns once the waiter is in the server's queue.
async fn waits(lock: Lock, sees: &LockManager) -> JoinHandle<Result<Lease, Error>> {
    let name = lock.name().to_owned();
    let before = sees.inspect(&name).await.unwrap().waiters.len();
    let waiting = tokio::spawn(async move { lock.acquire().await });
    while sees.inspect(&name).await.unwrap().waiters.len() <= before {
        tokio::task::yield_now().await;
    }
    waiting
}

/// Asserts that the lease has ended now, after this time. Its client ends it earlier by a margin.
fn assert_ends(what: &str, start: Instant, after: Duration) {
    let took = start.elapsed();
    assert!(took <= after && took >= after * 9 / 10 - Duration::from_millis(50), "{what}: {took:?} of {after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_renewed_lease_outlives_its_ttl_and_a_fixed_one_does_not() {
    let locks = LockManager::in_memory().unwrap();
    let renewed = locks.mutex("renewed").ttl(TTL).acquire().await.unwrap();
    let start = Instant::now();
    let fixed = locks.mutex("fixed").ttl(TTL).renew(false).acquire().await.unwrap();
    assert_eq!(fixed.lost().await, LossReason::Expired);
    assert_ends("the fixed one", start, TTL);
    assert!(!fixed.is_held() && fixed.remaining().is_zero());
    sleep(TTL * 10).await;
    assert!(renewed.is_held() && renewed.verify().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn max_hold_ends_a_renewed_lease_and_frees_the_lock() {
    let server = Server::new();
    let (locks, others) = (server.manager().unwrap(), server.manager().unwrap());
    let start = Instant::now();
    let lease = locks.mutex("door").ttl(TTL).max_hold(TTL * 2).acquire().await.unwrap();
    let told = tokio::spawn(lease.lost());
    assert_eq!(told.await.unwrap(), LossReason::MaxHold);
    assert_ends("the lease", start, TTL * 2);
    assert!(!lease.is_held());
    assert_eq!(lease.lost().await, LossReason::MaxHold);
    assert!(matches!(lease.nested(), Err(Error::NotHeld { .. } | Error::Lost { .. })));
    drop(others.mutex("door").acquire().await.unwrap());
    assert!(start.elapsed() <= TTL * 3, "the server has let go: {:?}", start.elapsed());
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::AlreadyExpired);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_made_shorter_is_renewed_no_more() {
    let locks = LockManager::in_memory().unwrap();
    let lease = locks.mutex("door").ttl(TTL * 5).acquire().await.unwrap();
    lease.shorten(TTL).await.unwrap();
    assert!(lease.is_held() && lease.remaining() <= TTL);
    lease.extend(TTL * 3).await.unwrap();
    assert!(lease.remaining() > TTL * 2, "it can be made longer again");
    let start = Instant::now();
    lease.shorten(TTL).await.unwrap();
    assert_eq!(lease.lost().await, LossReason::Expired);
    assert_ends("the lease", start, TTL);
}

#[tokio::test(start_paused = true)]
async fn a_detached_lease_stays_for_its_time_after_its_manager_and_another_one_adopts_it() {
    let server = Server::new();
    let (locks, others) = (server.manager().unwrap(), server.manager().unwrap());
    let lease = locks.mutex("door").ttl(TTL).acquire().await.unwrap();
    let lost = lease.lost();
    let token = lease.detach_for(TTL * 10).await.unwrap();
    assert!(!lease.is_held() && lease.remaining().is_zero() && lease.hold_count() == 0);
    assert_eq!(lease.extend(TTL).await.unwrap_err().code(), "not-held");
    assert_eq!(lease.detach().await.unwrap_err().code(), "not-held");
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Detached);
    assert_eq!(locks.close().await.unreleased, 0, "it is not counted");
    sleep(TTL * 9).await;
    assert!(others.mutex("door").try_acquire().await.unwrap().is_none());
    let adopted = others.mutex("door").ttl(TTL).adopt(&token).await.unwrap();
    sleep(TTL * 3).await;
    assert!(adopted.is_held(), "it is renewed again");
    assert!(tokio::time::timeout(TTL, lost).await.is_err(), "nobody is told of a loss");
    assert_eq!(adopted.release().await.unwrap(), ReleaseOutcome::Released);
}

#[tokio::test(start_paused = true)]
async fn a_detached_lock_is_free_when_its_time_is_over() {
    let server = Server::new();
    let (locks, others) = (server.manager().unwrap(), server.manager().unwrap());
    let start = Instant::now();
    drop(locks.mutex("door").ttl(TTL).acquire().await.unwrap().detach().await.unwrap());
    drop(locks);
    let next = others.mutex("door").acquire().await.unwrap();
    assert!(start.elapsed() >= TTL && start.elapsed() <= TTL * 11 / 10, "{:?}", start.elapsed());
    next.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn work_that_detaches_its_lease_goes_on_and_leaves_the_lock_taken() {
    let locks = LockManager::in_memory().unwrap();
    let token = locks
        .mutex("door")
        .ttl(TTL)
        .run(async |lease| {
            let token = lease.detach_for(TTL * 5).await?;
            sleep(TTL * 2).await;
            Ok::<_, Error>(token)
        })
        .await
        .unwrap();
    assert!(locks.mutex("door").try_acquire().await.unwrap().is_none());
    drop(locks.mutex("door").adopt(&token).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn at_least_keeps_the_lock_whatever_the_work_does_and_ends_with_its_time() {
    let locks = LockManager::in_memory().unwrap();
    let lock = |name: &str| locks.mutex(name).ttl(TTL).at_least(TTL * 2);
    lock("done").run(async |_| Ok::<_, Error>(())).await.unwrap();
    lock("failed").run(async |_| Err::<(), _>(Error::Closed)).await.unwrap_err();
    drop(lock("dropped").acquire().await.unwrap());
    let released = lock("released").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(released, ReleaseOutcome::Detached);
    let permits = locks.semaphore("permits", 1).permits(1).at_least(TTL * 2);
    drop(permits.acquire().await.unwrap());
    for name in ["done", "failed", "dropped", "released"] {
        assert!(locks.mutex(name).try_acquire().await.unwrap().is_none(), "{name}");
    }
    assert!(permits.try_acquire().await.unwrap().is_none());
    sleep(TTL * 21 / 10).await;
    for name in ["done", "failed", "dropped", "released"] {
        assert!(locks.mutex(name).try_acquire().await.unwrap().is_some(), "{name}");
    }
    let start = Instant::now();
    let work = async |_: &Lease| {
        sleep(TTL * 3).await;
        Ok::<_, Error>(())
    };
    lock("long").run(work).await.unwrap();
    drop(locks.mutex("long").acquire().await.unwrap());
    assert_eq!(start.elapsed(), TTL * 3, "it was free at once");
    let refused = lock("bounded").max_hold(TTL).acquire().await.unwrap_err();
    assert!(matches!(refused, Error::InvalidOption { field: "at_least", .. }), "{refused:?}");
    let refused = locks.multi(["a", "b"]).at_least(TTL).acquire().await.unwrap_err();
    assert!(matches!(refused, Error::Unsupported { .. }), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_others_share_is_not_detached_and_stays_held() {
    let (locks, owner) = (LockManager::in_memory().unwrap(), Owner::new());
    let lock = locks.read_write("page").read();
    let (one, other) = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
    assert_eq!(one.detach().await.unwrap_err().code(), "conflict");
    assert_eq!(one.token().unwrap_err().code(), "conflict");
    assert!(one.is_held());
    other.release().await.unwrap();
    let nested = one.nested().unwrap();
    assert_eq!(one.detach().await.unwrap_err().code(), "conflict");
    nested.release().await.unwrap();
    one.detach().await.unwrap();
    for lock in [locks.reentrant("entered", &owner), locks.multi(["a", "b"])] {
        let lease = lock.acquire().await.unwrap();
        assert_eq!(lease.detach().await.unwrap_err().code(), "unsupported");
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_no_longer_renewed_ends_and_can_be_extended_but_not_past_its_max_hold() {
    let locks = LockManager::in_memory().unwrap();
    let start = Instant::now();
    let lease = locks.mutex("door").ttl(TTL).acquire().await.unwrap();
    lease.stop_renewing();
    lease.extend(TTL * 2).await.unwrap();
    assert!(lease.remaining() > TTL * 3 / 2);
    assert_eq!(lease.lost().await, LossReason::Expired);
    assert_ends("the lease", start, TTL * 2);
    for shortens in [false, true] {
        let start = Instant::now();
        let lease = locks.mutex("window").ttl(TTL).max_hold(TTL * 2).acquire().await.unwrap();
        if shortens {
            lease.shorten(TTL * 9).await.unwrap();
        } else {
            lease.stop_renewing();
        }
        lease.extend(TTL * 9).await.unwrap();
        assert_eq!(lease.lost().await, LossReason::MaxHold);
        assert_ends("the lease", start, TTL * 2);
    }
}

#[tokio::test(start_paused = true)]
async fn leases_of_all_kinds_end_when_they_are_no_longer_renewed() {
    let (locks, owner) = (LockManager::in_memory().unwrap(), Owner::new());
    let kinds = [
        locks.mutex("mutex"),
        locks.read_write("page").read(),
        locks.semaphore("seats", 3).permits(2),
        locks.reentrant("entered", &owner),
        locks.multi(["a", "b"]),
    ];
    for lock in kinds {
        let start = Instant::now();
        let lease = lock.ttl(TTL).acquire().await.unwrap();
        lease.stop_renewing();
        lease.stop_renewing();
        assert_eq!(lease.lost().await, LossReason::Expired, "{}", lease.name());
        assert_ends(lease.name(), start, TTL);
        lease.stop_renewing();
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::AlreadyExpired);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_over_answers_every_call_at_once() {
    let locks = LockManager::in_memory().unwrap();
    let lease = locks.mutex("door").ttl(TTL).renew(false).acquire().await.unwrap();
    let nested = lease.nested().unwrap();
    lease.lost().await;
    let start = Instant::now();
    let not_held = |error: Error| assert_eq!((error.code(), error.name()), ("not-held", Some("door")));
    not_held(lease.extend(TTL).await.unwrap_err());
    not_held(lease.downgrade().await.unwrap_err());
    not_held(lease.upgrade().await.unwrap_err());
    not_held(lease.nested().unwrap_err());
    assert!(!lease.verify().await.unwrap() && !lease.is_held() && !nested.is_held());
    assert_eq!(nested.lost().await, LossReason::Expired);
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::AlreadyExpired);
    assert_eq!(nested.release().await.unwrap(), ReleaseOutcome::AlreadyExpired);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_it_is_over_and_leaves_no_waiter_behind() {
    let server = Server::new();
    let (first, second) = (server.manager().unwrap(), server.manager().unwrap());
    let lease = first.mutex("door").ttl(TTL * 20).acquire().await.unwrap();
    let (wait, start) = (TTL, Instant::now());
    let error = second.mutex("door").wait(wait).acquire().await.unwrap_err();
    assert_eq!(start.elapsed(), wait);
    assert_eq!((error.code(), error.name(), error.waited()), ("busy", Some("door"), Some(wait)));
    assert!(error.is_retryable());
    assert!(error.holder_remaining().is_some_and(|left| left > TTL * 10 && left <= TTL * 20), "{error:?}");
    assert_eq!(first.inspect("door").await.unwrap().waiters, []);
    assert!(lease.verify().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_wait_behind_a_holder_of_the_same_client_ends_in_time_as_well() {
    let locks = LockManager::builder().claim_window(Duration::from_secs(30)).in_memory(&Server::new()).unwrap();
    let _lease = locks.mutex("door").acquire().await.unwrap();
    let first = locks.mutex("door");
    let _waiting = tokio::spawn(async move { first.acquire().await });
    tokio::task::yield_now().await;
    // Nothing is left to send now. The second waiter only needs an earlier wake-up.
    locks.inspect("door").await.unwrap();
    let (wait, start) = (Duration::from_millis(150), Instant::now());
    let error = locks.mutex("door").wait(wait).acquire().await.unwrap_err();
    assert_eq!((error.code(), start.elapsed()), ("busy", wait));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_a_lock_of_any_kind_when_the_holders_lease_ends() {
    let server = Server::new();
    let slow = || LockManager::builder().claim_window(Duration::from_secs(60)).in_memory(&server).unwrap();
    let (locks, other) = (slow(), slow());
    let kinds = |locks: &LockManager| {
        [
            locks.mutex("door"),
            locks.read_write("page").write(),
            locks.semaphore("seats", 1).permits(1),
            locks.multi(["a", "b"]),
        ]
    };
    for (holder, waiter) in kinds(&locks).into_iter().zip(kinds(&other)) {
        let (name, start) = (holder.name().to_owned(), Instant::now());
        let lease = holder.ttl(TTL).renew(false).acquire().await.unwrap();
        let next = waiter.acquire().await.unwrap();
        let took = start.elapsed();
        assert!(took > TTL * 9 / 10 && took < TTL + Duration::from_millis(500), "{name}: {took:?}");
        assert!(next.fence() > lease.fence(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_lasts_for_its_ttl_after_the_last_renewal_although_it_came_after_a_wait() {
    let server = Server::new();
    let short = || LockManager::builder().claim_window(Duration::from_secs(1)).in_memory(&server).unwrap();
    let (first, second) = (short(), short());
    let lease = first.mutex("door").acquire().await.unwrap();
    let waiting = waits(second.mutex("door").ttl(TTL), &first).await;
    lease.release().await.unwrap();
    let lease = waiting.await.unwrap().unwrap();
    let granted = Instant::now();
    // The server granted it for the claim window, which is a second here.
    lease.stop_renewing();
    assert_eq!(lease.lost().await, LossReason::Expired);
    assert_ends("the lease", granted, TTL);
}

#[tokio::test(start_paused = true)]
async fn an_adopted_lease_is_renewed_and_the_former_holder_is_told_at_once() {
    let server = Server::new();
    let (first, second) = (server.manager().unwrap(), server.manager().unwrap());
    // The first client listens because it has waited.
    let before = second.mutex("job").acquire().await.unwrap();
    let waiting = waits(first.mutex("job").ttl(TTL), &second).await;
    before.release().await.unwrap();
    let lease = waiting.await.unwrap().unwrap();
    let start = Instant::now();
    let adopted = second.mutex("job").ttl(TTL).adopt(&lease.token().unwrap()).await.unwrap();
    assert_eq!(lease.lost().await, LossReason::Revoked);
    assert_eq!(start.elapsed(), Duration::ZERO);
    sleep(TTL * 10).await;
    assert!(adopted.is_held() && adopted.verify().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_beside_another_reader_is_a_conflict_at_once() {
    let server = Server::new();
    let (first, second) = (server.manager().unwrap(), server.manager().unwrap());
    let lease = first.read_write("page").read().acquire().await.unwrap();
    for locks in [&first, &second] {
        let other = locks.read_write("page").read().acquire().await.unwrap();
        let start = Instant::now();
        assert_eq!(lease.upgrade().await.unwrap_err().code(), "conflict");
        assert_eq!(start.elapsed(), Duration::ZERO);
        other.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lingering_lease_is_taken_again_without_a_round_trip_and_another_client_gets_it_by_a_message() {
    let (server, linger) = (Server::new(), Duration::from_secs(60));
    let (locks, other) = (server.manager().unwrap(), server.manager().unwrap());
    let lock = locks.mutex("door").linger(linger);
    // A lease lingers only if the client hears messages. The client subscribes with the first lease that may linger.
    for _ in 0..3 {
        lock.acquire().await.unwrap().release().await.unwrap();
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(other.inspect("door").await.unwrap().holders.len(), 1, "it lingers");
    let trip = Duration::from_millis(100);
    server.delay(trip).unwrap();
    let start = Instant::now();
    for _ in 0..10 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    drop(other.mutex("door").acquire().await.unwrap());
    assert!(start.elapsed() < trip * 5, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_holder_in_a_busy_error_is_the_last_one() {
    let server = Server::new();
    let labelled = |label: &str| LockManager::builder().label(label).in_memory(&server).unwrap();
    let (first, second, third) = (labelled("first"), labelled("second"), labelled("third"));
    let lease = first.mutex("door").acquire().await.unwrap();
    let waiting = waits(second.mutex("door"), &first).await;
    let late = waits(third.mutex("door").wait(Duration::from_secs(4)), &first).await;
    lease.release().await.unwrap();
    let _second = waiting.await.unwrap().unwrap();
    let error = late.await.unwrap().unwrap_err();
    assert_eq!(error.holder().and_then(|holder| holder.label.as_deref()), Some("second"), "{error}");
}
