//! Managers of a server in memory, as users' tests have them.

use std::sync::{Arc, LazyLock};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use leasehold::testing::{Clock, Server, Stopped};
use leasehold::{Error, Lease, LockManager, LossReason, Owner, ReleaseOutcome};
use tokio::time::{Instant, sleep, timeout};
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Dispatch, Event, Metadata, Subscriber};

const TTL: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn several_managers_share_a_server_and_a_waiter_is_granted_when_the_holder_releases() {
    let server = Server::new();
    let (one, other) = (server.manager().unwrap(), server.manager().unwrap());
    let lease = one.mutex("invoice:42").acquire().await.unwrap();
    assert!(other.mutex("invoice:42").try_acquire().await.unwrap().is_none());
    let waiter = tokio::spawn(async move { other.mutex("invoice:42").acquire().await.unwrap() });
    while one.inspect("invoice:42").await.unwrap().waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    let (fence, before) = (lease.fence(), Instant::now());
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    assert!(waiter.await.unwrap().fence() > fence);
    assert_eq!(before.elapsed(), Duration::ZERO, "the grant comes by message");
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_lock_runs_on_it() {
    let locks = LockManager::in_memory().unwrap();
    let owner = Owner::new();
    drop(locks.read_write("a").read().acquire().await.unwrap());
    drop(locks.reentrant("b", &owner).acquire().await.unwrap());
    drop(locks.semaphore("c", 2).acquire().await.unwrap());
    drop(locks.multi(["d", "e"]).acquire().await.unwrap());
    assert_eq!(locks.close().await.unreleased, 0);
}

#[tokio::test(start_paused = true)]
async fn under_a_paused_clock_a_lease_is_renewed_for_hours_at_once() {
    let server = Server::new();
    let lease = server.manager().unwrap().mutex("report").acquire().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
    assert!(lease.is_held());
    assert!(lease.remaining() > TTL / 2);
}

#[tokio::test]
async fn time_that_is_moved_by_hand_ends_a_lease_that_is_not_renewed() {
    let server = Server::new();
    let locks = server.manager().unwrap();
    let lease = locks.mutex("report").ttl(TTL).renew(false).acquire().await.unwrap();
    assert!(lease.remaining() > TTL / 2);
    server.clock().advance(TTL);
    assert_eq!(lease.lost().await, LossReason::Expired);
    assert!(locks.mutex("report").try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_ends_a_lease_at_its_deadline_and_one_that_starts_again_does_not() {
    let server = Server::new();
    let locks = server.manager().unwrap();
    let lease = locks.mutex("a").acquire().await.unwrap();
    server.stop();
    tokio::time::sleep(TTL / 2).await;
    server.start();
    tokio::time::sleep(TTL).await;
    assert!(lease.is_held(), "it was renewed in time");
    server.stop();
    let before = Instant::now();
    assert_eq!(lease.lost().await, LossReason::Expired);
    assert!(before.elapsed() <= TTL);
    let error = locks.mutex("b").wait(Duration::from_secs(1)).acquire().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_lock_after_the_server_has_stopped_and_started() {
    let server = Server::new();
    let (one, other) = (server.manager().unwrap(), server.manager().unwrap());
    let lease = one.mutex("a").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { other.mutex("a").acquire().await.unwrap() });
    while one.inspect("a").await.unwrap().waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    server.stop();
    server.start();
    lease.release().await.unwrap();
    drop(timeout(Duration::from_secs(10), waiter).await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_loses_its_data_loses_the_lease() {
    let server = Server::new();
    let lease = server.manager().unwrap().mutex("a").acquire().await.unwrap();
    server.flush().unwrap();
    assert_eq!(lease.lost().await, LossReason::Gone);
}

/// Takes a lock that the same client holds, after the server has lost it. The first lease ends before the second is granted.
async fn taken_again_after_a_loss(locks: LockManager, server: &Server, tries: bool) {
    for held in [0, 1, 400, 900, 4_000] {
        let mutex = locks.mutex("report");
        let lease = mutex.acquire().await.unwrap();
        sleep(Duration::from_millis(held)).await;
        assert!(timeout(Duration::from_millis(50), mutex.acquire()).await.is_err(), "the lock is held");
        assert!(mutex.try_acquire().await.unwrap().is_none(), "the lock is held");
        sleep(Duration::from_millis(1)).await;
        server.flush().unwrap();
        let before = Instant::now();
        let next = match tries {
            true => mutex.try_acquire().await.unwrap().expect("the lock is free"),
            false => mutex.acquire().await.unwrap(),
        };
        assert_eq!(before.elapsed(), Duration::ZERO, "after {held} ms");
        assert!(!lease.is_held());
        assert_eq!(lease.lost().await, LossReason::Gone);
        assert!(next.is_held() && next.fence() > lease.fence());
        next.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_mixed_fleet_a_client_whose_key_is_gone_takes_the_lock_again_at_once() {
    for tries in [false, true] {
        let server = Server::new();
        let locks = LockManager::builder().mixed_fleet(true).in_memory(&server).unwrap();
        taken_again_after_a_loss(locks, &server, tries).await;
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_mixed_fleet_a_question_does_not_prolong_a_lease_that_is_not_renewed() {
    let server = Server::new();
    let [locks, others] = [(); 2].map(|()| LockManager::builder().mixed_fleet(true).in_memory(&server).unwrap());
    let mutex = locks.mutex("report").ttl(TTL).renew(false);
    let _lease = mutex.acquire().await.unwrap();
    sleep(TTL / 2).await;
    assert!(mutex.try_acquire().await.unwrap().is_none());
    let seen = others.inspect("report").await.unwrap();
    assert!(seen.holders[0].remaining.unwrap() <= TTL / 2, "the question leaves the TTL as it is");
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_costs_a_response_timeout_and_a_late_one_its_delay() {
    let server = Server::new();
    let locks = LockManager::builder().response_timeout(Duration::from_secs(1)).in_memory(&server).unwrap();
    server.drop_next_reply().unwrap();
    let before = Instant::now();
    let lease = locks.mutex("a").acquire().await.unwrap();
    assert!(before.elapsed() >= Duration::from_secs(1), "{:?}", before.elapsed());
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    server.delay(Duration::from_millis(200)).unwrap();
    let before = Instant::now();
    drop(locks.mutex("b").acquire().await.unwrap());
    assert!(before.elapsed() >= Duration::from_millis(200), "{:?}", before.elapsed());
}

/// Tokio's paused clock advances only while all tasks wait. So a busy driver would stop it.
#[test]
fn a_client_without_locks_rests_although_its_label_did_not_reach_the_server() {
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let server = Server::new();
            let held = server.manager().unwrap().mutex("a").acquire().await.unwrap();
            let locks = LockManager::builder().response_timeout(Duration::from_millis(100)).label("me");
            let locks = locks.in_memory(&server).unwrap();
            server.delay(Duration::from_millis(20)).unwrap();
            let waits =
                tokio::spawn(async move { (locks.mutex("a").wait(Duration::from_secs(1)).acquire().await, locks) });
            tokio::time::sleep(Duration::from_millis(30)).await;
            // The second answer is on its way. After it, the client subscribes and writes its label.
            server.drop_next_reply().unwrap();
            let (waited, _locks) = waits.await.unwrap();
            assert!(waited.is_err());
            drop(held);
            tokio::time::sleep(Duration::from_secs(3_600)).await;
        });
        done.send(()).unwrap();
    });
    assert_eq!(ended.recv_timeout(Duration::from_secs(120)), Ok(()), "an hour of rest does not end");
}

#[test]
fn a_fault_asked_of_a_stopped_server_is_refused_with_what_to_do() {
    let server = Server::new();
    server.stop();
    for refused in
        [server.flush(), server.delay(Duration::ZERO), server.drop_next_reply(), server.expire("a").map(drop)]
    {
        assert_eq!(refused, Err(Stopped));
    }
    assert!(Stopped.to_string().contains("call `start` first"));
    server.start();
    assert_eq!(server.expire("a"), Ok(false));
}

#[test]
fn a_manager_outside_a_runtime_is_refused() {
    let error = LockManager::in_memory().map(drop).unwrap_err();
    assert!(error.to_string().contains("tokio runtime"), "{error}");
}

/// Sleeping blocks the whole runtime here, as a suspended process does. The work is woken before the driver.
#[tokio::test]
async fn after_a_pause_longer_than_the_ttl_the_work_of_run_is_not_polled_again() {
    let locks = LockManager::in_memory().unwrap();
    let went_on = std::cell::Cell::new(false);
    let lock = locks.mutex("report").ttl(SHORT);
    let work = async |_: &Lease| {
        std::thread::sleep(SHORT * 2);
        woken_at_once().await;
        went_on.set(true);
        Ok::<_, Error>(())
    };
    let error = lock.run(work).await.unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LossReason::Expired, .. }), "{error}");
    assert!(!went_on.get());
}

#[tokio::test]
async fn after_a_pause_longer_than_the_ttl_lost_resolves_when_it_is_polled() {
    let locks = LockManager::in_memory().unwrap();
    let lease = locks.mutex("report").ttl(SHORT).acquire().await.unwrap();
    let mut lost = std::pin::pin!(lease.lost());
    std::thread::sleep(SHORT * 2);
    let polled = std::future::poll_fn(|context| std::task::Poll::Ready(lost.as_mut().poll(context))).await;
    assert_eq!(polled, std::task::Poll::Ready(LossReason::Expired));
}

const SHORT: Duration = Duration::from_millis(100);

/// A future that is pending once and wakes its task at once, so that this task is polled next.
async fn woken_at_once() {
    let mut woken = false;
    std::future::poll_fn(|context| {
        if woken {
            return std::task::Poll::Ready(());
        }
        woken = true;
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_close_reports_every_lease_as_lost_before_another_client_gets_the_lock() {
    let server = Server::new();
    let (locks, others) = (server.manager().unwrap(), server.manager().unwrap());
    let (happened, mut order) = tokio::sync::mpsc::unbounded_channel();
    let (held, released) = (locks.mutex("a").acquire().await.unwrap(), locks.mutex("b").acquire().await.unwrap());
    for lost in [held.lost(), released.lost()] {
        let happened = happened.clone();
        tokio::spawn(async move { happened.send(lost.await.code()) });
    }
    let waiter = tokio::spawn(async move {
        let lease = others.mutex("a").acquire().await.unwrap();
        happened.send("granted").unwrap();
        lease
    });
    while locks.inspect("a").await.unwrap().waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    released.release().await.unwrap();
    assert_eq!(locks.close().await.unreleased, 0);
    assert_eq!(timeout(TTL, order.recv()).await.unwrap(), Some("closed"));
    assert_eq!(timeout(TTL, order.recv()).await.unwrap(), Some("granted"));
    assert!(waiter.await.unwrap().fence() > held.fence());
    assert!(!held.is_held());
    assert_eq!(held.lost().await, LossReason::Closed, "it says so later, too");
    assert_eq!(held.release().await.unwrap(), ReleaseOutcome::AlreadyExpired);
}

/// The reasons of the losses that were logged.
#[derive(Default)]
struct Losses(std::sync::Mutex<Vec<String>>);

/// Listens to nothing, as long as the program runs. If there is only one dispatcher, `tracing` asks only the first thread
/// that reaches an event whether it wants the event, and remembers the answer for all threads. That may be the thread of
/// another test, which doesn't listen. If there are two, it asks all dispatchers.
static OTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Losses::default()));

impl Losses {
    /// Listens on this thread.
    fn listen() -> (Arc<Self>, DefaultGuard) {
        LazyLock::force(&OTHER);
        let losses = Arc::new(Self::default());
        (Arc::clone(&losses), set_default(losses))
    }

    /// In the order of the alphabet, because the leases of a client have no order.
    fn reasons(&self) -> Vec<String> {
        let mut reasons = self.0.lock().unwrap().clone();
        reasons.sort();
        reasons
    }
}

impl Subscriber for Losses {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.fields().field("reason").is_some()
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut |field: &Field, value: &dyn std::fmt::Debug| {
            if field.name() == "reason" {
                self.0.lock().unwrap().push(format!("{value:?}"));
            }
        });
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_lease_that_has_expired_before_the_close_is_reported_once() {
    let (logged, _listening) = Losses::listen();
    let server = Server::new();
    let locks = server.manager().unwrap();
    let over = locks.mutex("over").ttl(TTL).renew(false).acquire().await.unwrap();
    let held = locks.mutex("held").ttl(TTL * 3).renew(false).acquire().await.unwrap();
    // The driver doesn't run before the close.
    server.clock().advance(TTL);
    assert_eq!(locks.close().await.unreleased, 0);
    assert_eq!(logged.reasons(), [r#""closed""#, r#""expired""#]);
    assert_eq!((over.lost().await, held.lost().await), (LossReason::Expired, LossReason::Closed));
}

#[tokio::test]
async fn a_lease_that_expires_while_the_close_is_reported_is_reported_once() {
    /// The user's code takes longer than the TTL.
    struct Slow(Clock);

    impl Wake for Slow {
        fn wake(self: Arc<Self>) {
            self.0.advance(TTL);
        }
    }

    let (logged, _listening) = Losses::listen();
    let server = Server::new();
    let locks = server.manager().unwrap();
    let lease = locks.mutex("held").ttl(TTL).renew(false).acquire().await.unwrap();
    let mut lost = std::pin::pin!(lease.lost());
    let slow = Waker::from(Arc::new(Slow(server.clock())));
    assert!(lost.as_mut().poll(&mut Context::from_waker(&slow)).is_pending());
    assert_eq!(locks.close().await.unreleased, 0);
    assert_eq!(logged.reasons(), [r#""closed""#]);
}

#[test]
fn a_lease_that_has_ended_with_its_runtime_is_reported_once() {
    let (logged, _listening) = Losses::listen();
    let server = Server::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (one, other) = runtime.block_on(async {
        let locks = server.manager().unwrap();
        (locks.mutex("one").acquire().await.unwrap(), locks.mutex("other").acquire().await.unwrap())
    });
    drop(runtime);
    assert_eq!(logged.reasons(), [r#""expired""#, r#""expired""#]);
    server.clock().advance(TTL);
    drop(one);
    assert_eq!(logged.reasons().len(), 2, "{:?}", logged.reasons());
    assert!(!other.is_held());
}

#[tokio::test(start_paused = true)]
async fn the_label_of_a_holder_is_known_a_second_after_its_grant() {
    let server = Server::new();
    let labelled = |label| LockManager::builder().label(label).in_memory(&server).unwrap();
    let (holder, other) = (labelled("web-3"), labelled("web-4"));
    let label = async || other.inspect("report").await.unwrap().holders.first().unwrap().label.clone();
    // A fixed lease never subscribes. The lock before it was too short.
    holder.mutex("report").acquire().await.unwrap().release().await.unwrap();
    tokio::time::sleep(Duration::from_millis(900)).await;
    let lease = holder.mutex("report").renew(false).acquire().await.unwrap();
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(label().await, None);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(label().await.as_deref(), Some("web-3"));
    drop(lease);
}

#[test]
fn options_for_all_locks_are_checked_when_the_manager_is_made() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let refused = |builder: leasehold::Builder| match builder.in_memory(&Server::new()) {
        Err(leasehold::Error::InvalidOption { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(LockManager::builder().ttl(Duration::from_millis(5))), "ttl");
    assert_eq!(refused(LockManager::builder().wait(Duration::ZERO)), "wait");
    assert_eq!(refused(LockManager::builder().linger(Duration::ZERO)), "linger");
}
