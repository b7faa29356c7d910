//! Cancellation tokens that end with a lease, on a server in memory and on its time.

use std::time::Duration;

use leasehold::testing::Server;
use leasehold::{Lease, LockManager, blocking};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Waits until the token is cancelled. It must be soon.
async fn ended(token: &CancellationToken) {
    timeout(Duration::from_secs(60), token.cancelled()).await.expect("the token is not cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_token_is_cancelled_when_the_lease_is_lost_and_not_before() {
    let server = Server::new();
    let lease = server.manager().unwrap().mutex("report").acquire().await.unwrap();
    let token = lease.cancellation_token();
    sleep(Duration::from_secs(3_600)).await;
    assert!(!token.is_cancelled() && lease.is_held(), "it is renewed");
    assert_eq!(server.expire("report"), Ok(true));
    ended(&token).await;
    assert!(!lease.is_held());
    assert!(lease.cancellation_token().is_cancelled(), "a new token of a lost lease is cancelled already");
}

#[tokio::test(start_paused = true)]
async fn a_token_is_cancelled_before_a_lease_that_nothing_renews_expires() {
    let locks = LockManager::in_memory().unwrap();
    let ttl = Duration::from_secs(10);
    let began = Instant::now();
    let lease = locks.mutex("report").ttl(ttl).renew(false).acquire().await.unwrap();
    let token = lease.cancellation_token();
    ended(&token).await;
    assert!(began.elapsed() < ttl && began.elapsed() > ttl / 2);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_cancelled_by_a_release_a_drop_a_detach_and_a_close() {
    let locks = LockManager::in_memory().unwrap();
    let acquire = async |name: &str| locks.mutex(name).acquire().await.unwrap();
    let leases = [acquire("a").await, acquire("b").await, acquire("c").await, acquire("d").await];
    let tokens = leases.each_ref().map(Lease::cancellation_token);
    let cancelled = || tokens.each_ref().map(CancellationToken::is_cancelled);
    let [first, second, third, fourth] = leases;
    assert_eq!(cancelled(), [false; 4]);
    first.release().await.unwrap();
    assert_eq!(cancelled(), [true, false, false, false]);
    drop(second);
    ended(&tokens[1]).await;
    third.detach().await.unwrap();
    assert_eq!(cancelled(), [true, true, true, false]);
    locks.close().await;
    assert_eq!(cancelled(), [true; 4]);
    drop(fourth);
}

#[tokio::test(start_paused = true)]
async fn a_token_lives_until_the_last_hold_and_a_cancelled_one_ends_nothing() {
    let locks = LockManager::in_memory().unwrap();
    let lease = locks.mutex("report").acquire().await.unwrap();
    let nested = lease.nested().unwrap();
    let (first, second) = (lease.cancellation_token(), nested.cancellation_token());
    first.cancel();
    assert!(!second.is_cancelled() && lease.is_held());
    lease.release().await.unwrap();
    assert!(!second.is_cancelled() && nested.is_held());
    nested.release().await.unwrap();
    assert!(second.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_token_of_a_handed_over_lock_is_cancelled_with_its_own_lease() {
    let locks = LockManager::in_memory().unwrap();
    let lease = locks.mutex("report").acquire().await.unwrap();
    let token = lease.cancellation_token();
    let next = tokio::spawn(locks.mutex("report").acquire());
    lease.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert!(token.is_cancelled() && !next.cancellation_token().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_leaders_token_is_cancelled_when_its_term_ends() {
    let server = Server::new();
    let election = server.manager().unwrap().election("chief");
    let term = election.campaign().await.unwrap();
    let token = term.cancellation_token();
    assert!(!token.is_cancelled());
    assert_eq!(server.expire("chief"), Ok(true));
    ended(&token).await;
    drop(term);
    let term = election.campaign().await.unwrap();
    let token = term.cancellation_token();
    term.resign().await.unwrap();
    assert!(token.is_cancelled());
}

#[test]
fn a_blocking_lease_has_a_token_that_other_threads_can_ask() {
    let server = Server::new();
    let locks = blocking::LockManager::builder().in_memory(&server).unwrap();
    let lease = locks.mutex("report").acquire().unwrap();
    let token = lease.cancellation_token();
    let helper = std::thread::spawn(move || {
        while !token.is_cancelled() {
            std::thread::yield_now();
        }
    });
    assert!(!lease.cancellation_token().is_cancelled());
    lease.release().unwrap();
    helper.join().unwrap();
}
