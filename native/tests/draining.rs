//! A manager that lets running work finish before it closes.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use leasehold::testing::Server;
use leasehold::{Closed, Error, LockManager, LossReason, Owner};
use tokio::time::{Instant, sleep};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// Begins the drain, and leaves it alone.
async fn begins(locks: &LockManager, grace: Duration) {
    let mut draining = pin!(locks.close_draining(grace));
    let ended = poll_fn(|context| Poll::Ready(draining.as_mut().poll(context).is_ready())).await;
    assert!(!ended, "something is held");
}

fn counts(closed: Result<Closed, Error>) -> (u32, u32) {
    let closed = closed.unwrap();
    (closed.lost, closed.unreleased)
}

async fn waits_for(locks: &LockManager, name: &str, waiters: usize) {
    while locks.inspect(name).await.unwrap().waiters.len() != waiters {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn running_work_finishes_and_nothing_begins() {
    let server = Server::new();
    let (locks, other) = (server.manager().unwrap(), server.manager().unwrap());
    let taken = other.mutex("taken").acquire().await.unwrap();
    let work = tokio::spawn(locks.mutex("invoice").run(async |lease| {
        sleep(HOUR).await;
        lease.extend(2 * MINUTE).await?;
        let nested = lease.nested()?;
        assert!(lease.is_held() && lease.verify().await?);
        nested.release().await?;
        Ok::<_, Error>("done")
    }));
    while locks.inspect("invoice").await.unwrap().holders.is_empty() {
        tokio::task::yield_now().await;
    }
    let (behind, elsewhere) = (locks.mutex("invoice").acquire(), locks.mutex("taken").acquire());
    let (behind, elsewhere) = (tokio::spawn(behind), tokio::spawn(elsewhere));
    waits_for(&other, "taken", 1).await;

    let (drain, began) = (tokio::spawn(locks.close_draining(2 * HOUR)), Instant::now());
    assert!(matches!(behind.await.unwrap(), Err(Error::Closed)));
    assert!(matches!(elsewhere.await.unwrap(), Err(Error::Closed)));
    assert!(matches!(locks.mutex("free").acquire().await, Err(Error::Closed)));
    assert!(matches!(locks.semaphore("free", 3).try_acquire().await, Err(Error::Closed)));
    assert_eq!(began.elapsed(), Duration::ZERO, "at once");
    waits_for(&other, "taken", 0).await;
    assert_eq!(locks.inspect("invoice").await.unwrap().holders.len(), 1, "who holds it can be asked");

    assert_eq!(work.await.unwrap().unwrap(), "done");
    assert_eq!(counts(drain.await.unwrap()), (0, 0));
    assert_eq!(began.elapsed(), HOUR, "it does not wait for longer than the work");
    assert!(other.mutex("invoice").try_acquire().await.unwrap().is_some());
    assert!(matches!(locks.inspect("invoice").await, Err(Error::Closed)));
    taken.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn when_the_time_is_over_the_holders_lose_their_leases_and_the_answer_counts_them() {
    let server = Server::new();
    let locks = server.manager().unwrap();
    let one = locks.mutex("a").acquire().await.unwrap();
    let both = locks.multi(["b", "c"]).acquire().await.unwrap();
    let began = Instant::now();
    let watched = tokio::spawn(async move { (one.lost().await, began.elapsed()) });
    assert_eq!(counts(locks.close_draining(MINUTE).await), (2, 0));
    assert_eq!(began.elapsed(), MINUTE);
    assert_eq!(watched.await.unwrap(), (LossReason::Closed, MINUTE));
    assert!(!both.is_held());
    assert_eq!((locks.close().await.lost, server.expire("b")), (2, Ok(false)), "the same answer, and it is free");
}

#[tokio::test(start_paused = true)]
async fn a_drain_whose_future_is_dropped_goes_on_and_closes_the_manager() {
    let server = Server::new();
    let locks = server.manager().unwrap();
    let lease = locks.mutex("a").acquire().await.unwrap();
    let began = Instant::now();
    begins(&locks, MINUTE).await;
    assert!(matches!(locks.mutex("b").acquire().await, Err(Error::Closed)));
    assert!(lease.is_held());
    assert_eq!(lease.lost().await, LossReason::Closed);
    assert_eq!(began.elapsed(), MINUTE);
    assert_eq!((locks.close().await.lost, server.expire("a")), (1, Ok(false)));

    let locks = server.manager().unwrap();
    let lease = locks.mutex("a").acquire().await.unwrap();
    begins(&locks, HOUR).await;
    lease.release().await.unwrap();
    assert_eq!(locks.close().await.lost, 0);
}

#[tokio::test(start_paused = true)]
async fn a_close_ends_a_drain_and_both_have_one_answer() {
    let server = Server::new();
    let locks = server.manager().unwrap();
    let lease = locks.mutex("a").acquire().await.unwrap();
    let (drain, longer) = (tokio::spawn(locks.close_draining(MINUTE)), tokio::spawn(locks.close_draining(HOUR)));
    sleep(MINUTE / 2).await;
    let closed = locks.close().await;
    assert_eq!((closed.lost, closed.unreleased), (1, 0));
    assert_eq!(lease.lost().await, LossReason::Closed);
    assert_eq!([counts(drain.await.unwrap()), counts(longer.await.unwrap())], [(1, 0), (1, 0)]);
    assert_eq!(counts(locks.close_draining(HOUR).await), (1, 0), "a closed manager says the same again");
}

#[tokio::test(start_paused = true)]
async fn the_owner_of_a_reentrant_lock_can_go_deeper() {
    let server = Server::new();
    let (locks, owner) = (server.manager().unwrap(), Owner::new());
    let outer = locks.reentrant("account", &owner).acquire().await.unwrap();
    begins(&locks, HOUR).await;
    let inner = locks.reentrant("account", &owner).acquire().await.unwrap();
    inner.release().await.unwrap();
    assert!(matches!(locks.reentrant("account", &Owner::new()).acquire().await, Err(Error::Closed)));
    outer.release().await.unwrap();
    assert!(matches!(locks.reentrant("account", &owner).acquire().await, Err(Error::Closed)));
    assert_eq!(locks.close().await.lost, 0);
}

#[tokio::test(start_paused = true)]
async fn leases_that_linger_go_back_at_once() {
    let server = Server::new();
    let (locks, other) = (server.manager().unwrap(), server.manager().unwrap());
    let held = locks.mutex("held").acquire().await.unwrap();
    let door = locks.mutex("door").linger(MINUTE);
    // Only a client that hears of others keeps a lease for itself.
    while other.inspect("door").await.unwrap().holders.is_empty() {
        door.acquire().await.unwrap().release().await.unwrap();
        tokio::task::yield_now().await;
    }
    begins(&locks, HOUR).await;
    while !other.inspect("door").await.unwrap().holders.is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(held.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_time_that_is_out_of_its_bounds_is_refused_and_the_manager_stays_open() {
    let locks = LockManager::in_memory().unwrap();
    let error = locks.close_draining(Duration::MAX).await.unwrap_err();
    assert_eq!((error.code(), error.to_string().contains("30 days")), ("invalid-option", true), "{error}");
    locks.mutex("a").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(counts(locks.close_draining(Duration::ZERO).await), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_is_dropped_while_it_drains_closes_at_once() {
    let server = Server::new();
    let (locks, other) = (server.manager().unwrap(), server.manager().unwrap());
    let lease = locks.mutex("a").acquire().await.unwrap();
    begins(&locks, HOUR).await;
    let began = Instant::now();
    drop((locks, lease));
    while !other.inspect("a").await.unwrap().holders.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
}
