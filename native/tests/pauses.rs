//! The application blocks its runtime for longer than a response timeout, on virtual time. What the server answers
//! meanwhile is in the socket.

use std::time::Duration;

use leasehold::testing::Server;
use leasehold::{Error, LockManager, LossReason, ReleaseOutcome};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::advance;

const TTL: Duration = Duration::from_secs(600);
const TIMEOUT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_secs(10);

/// A server whose answers take a moment, and a client of it.
fn client() -> (Server, LockManager) {
    let server = Server::new();
    let locks = LockManager::builder().ttl(TTL).response_timeout(TIMEOUT).in_memory(&server).unwrap();
    (server, locks)
}

/// Begins a call, and returns once its command has left.
async fn begins<T, F>(call: impl FnOnce() -> F) -> JoinHandle<Result<T, Error>>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let call = tokio::spawn(call());
    for _ in 0..20 {
        yield_now().await;
    }
    assert!(!call.is_finished(), "it has an answer already");
    call
}

/// The result of a call that a pause has interrupted.
async fn after_a_pause<T>(what: &str, call: JoinHandle<Result<T, Error>>) -> T {
    advance(PAUSE).await;
    call.await.unwrap().unwrap_or_else(|error| panic!("{what}: {error}"))
}

#[tokio::test(start_paused = true)]
async fn after_a_pause_every_call_has_its_answer() {
    // Which of two things that are ready comes first is drawn by lot.
    for _ in 0..20 {
        let (server, locks) = client();
        let lease = std::sync::Arc::new(locks.mutex("held").acquire().await.unwrap());
        let released = locks.mutex("released").acquire().await.unwrap();
        server.delay(Duration::from_millis(100)).unwrap();
        let (ours, lock) = (lease.clone(), locks.mutex("a"));
        let call = begins(move || async move { ours.verify().await }).await;
        assert!(after_a_pause("verify", call).await);
        let ours = lease.clone();
        let call = begins(move || async move { ours.extend(TTL * 2).await }).await;
        after_a_pause("extend", call).await;
        let call = begins(move || async move { released.release().await }).await;
        assert_eq!(after_a_pause("release", call).await, ReleaseOutcome::Released);
        let call = begins(move || async move { lock.wait(Duration::from_millis(200)).acquire().await }).await;
        drop(after_a_pause("acquire", call).await);
        for name in ["b", "{c}d"] {
            let lock = locks.mutex(name);
            let call = begins(move || async move { lock.try_acquire().await }).await;
            assert!(after_a_pause("try_acquire", call).await.is_some());
        }
        let several = locks.multi(["{e}1", "{e}2"]);
        let call = begins(move || async move { several.try_acquire().await }).await;
        assert!(after_a_pause("try_acquire of several", call).await.is_some());
        let operator = locks.clone();
        let call = begins(move || async move { operator.force_release("held").await }).await;
        assert_eq!(after_a_pause("force_release", call).await, 1);
        let sees = locks.clone();
        let call = begins(move || async move { sees.inspect("held").await }).await;
        assert!(after_a_pause("inspect", call).await.holders.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_before_the_commands_leave_takes_nothing_from_their_time() {
    let (server, locks) = client();
    let lease = locks.mutex("held").acquire().await.unwrap();
    server.delay(TIMEOUT / 4).unwrap();
    let mut verify = std::pin::pin!(lease.verify());
    let polled =
        std::future::poll_fn(|context| std::task::Poll::Ready(verify.as_mut().poll(context).is_pending())).await;
    assert!(polled);
    // As if this task worked for so long.
    advance(PAUSE).await;
    assert!(verify.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_close_gives_everything_back_although_its_listeners_work_for_longer_than_a_response_timeout() {
    let (server, locks) = client();
    let mut leases = Vec::new();
    for number in 0..200 {
        leases.push(locks.mutex(format!("n{number}")).acquire().await.unwrap());
    }
    server.delay(Duration::from_millis(100)).unwrap();
    let closes = tokio::spawn(async move { locks.close().await.unreleased });
    for _ in 0..3 {
        yield_now().await;
        advance(PAUSE).await;
    }
    assert_eq!(closes.await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pause_ends_a_lease_at_its_deadline() {
    let (server, locks) = client();
    let lease = locks.mutex("held").ttl(PAUSE / 2).acquire().await.unwrap();
    server.delay(Duration::from_millis(100)).unwrap();
    advance(PAUSE).await;
    assert!(!lease.is_held());
    assert_eq!(lease.lost().await, LossReason::Expired);
}
