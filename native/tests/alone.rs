//! A call that finds nothing in flight is sent by its caller, and its reply wakes the caller directly.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold::testing::Server;
use tokio::time::{sleep, timeout};

const LONG: Duration = Duration::from_secs(60);
const DELAY: Duration = Duration::from_millis(20);

/// A manager that has used a lock once, so that nothing of its start is in flight.
async fn settled(server: &Server) -> leasehold::LockManager {
    let locks = server.manager().unwrap();
    drop(locks.mutex("settled").acquire().await.unwrap());
    sleep(Duration::from_millis(5)).await;
    locks
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_alone_ends_without_a_turn_of_another_task() {
    let locks = settled(&Server::new()).await;
    let mut context = Context::from_waker(Waker::noop());
    // Nothing else runs between these polls: this task has the only thread.
    let mut acquire = pin!(locks.mutex("lone").acquire());
    let Poll::Ready(lease) = acquire.as_mut().poll(&mut context) else { panic!("the acquire waits for another task") };
    let mut release = pin!(lease.unwrap().release());
    assert!(release.as_mut().poll(&mut context).is_ready(), "the release waits for another task");
}

#[tokio::test(start_paused = true)]
async fn a_lone_call_that_is_no_longer_polled_delays_no_other_call() {
    let server = Server::new();
    let locks = settled(&server).await;
    server.delay(DELAY).unwrap();
    let mut unpolled = pin!(locks.mutex("unpolled").acquire());
    assert!(unpolled.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    for name in ["one", "two"] {
        let lease = timeout(LONG, locks.mutex(name).acquire()).await.expect("it waits for the other call").unwrap();
        timeout(LONG, lease.release()).await.expect("its release waits for the other call").unwrap();
    }
    // Its reply has come meanwhile.
    assert!(unpolled.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_lone_call_that_is_no_longer_polled_keeps_its_lease_until_it_is() {
    let server = Server::new();
    let (locks, others) = (settled(&server).await, settled(&server).await);
    server.delay(DELAY).unwrap();
    let mut unpolled = pin!(locks.mutex("kept").ttl(Duration::from_secs(5)).acquire());
    assert!(unpolled.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    // Three times its TTL.
    for _ in 0..15 {
        sleep(Duration::from_secs(1)).await;
        assert!(others.mutex("kept").try_acquire().await.unwrap().is_none(), "the lease was not renewed");
    }
    let Poll::Ready(lease) = unpolled.as_mut().poll(&mut Context::from_waker(Waker::noop())) else { panic!("pending") };
    assert!(lease.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_lone_acquire_whose_future_is_dropped_gives_the_lock_back() {
    let server = Server::new();
    let (locks, others) = (settled(&server).await, settled(&server).await);
    server.delay(DELAY).unwrap();
    let dropped = timeout(DELAY / 2, locks.mutex("dropped").ttl(LONG).acquire()).await;
    assert!(dropped.is_err(), "the reply came early");
    let lease = timeout(LONG / 2, others.mutex("dropped").wait(LONG).acquire()).await;
    drop(lease.expect("the lock is still taken").unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lone_release_whose_future_is_dropped_goes_on() {
    let server = Server::new();
    let (locks, others) = (settled(&server).await, settled(&server).await);
    let lease = locks.mutex("released").ttl(LONG).acquire().await.unwrap();
    server.delay(DELAY).unwrap();
    assert!(timeout(DELAY / 2, lease.release()).await.is_err(), "the reply came early");
    let lease = timeout(LONG / 2, others.mutex("released").wait(LONG).acquire()).await;
    drop(lease.expect("the lock is still taken").unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lone_call_whose_reply_is_lost_ends_by_its_time_limit() {
    let server = Server::new();
    let locks = settled(&server).await;
    server.drop_next_reply().unwrap();
    let lease = timeout(LONG, locks.mutex("lost").wait(LONG / 2).acquire()).await.expect("it waits for the lost reply");
    drop(lease.unwrap());
}

#[test]
fn a_lone_call_needs_no_runtime_in_its_own_thread() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = {
        let _context = runtime.enter();
        Server::new()
    };
    let locks = runtime.block_on(settled(&server));
    {
        let _context = runtime.enter();
        server.delay(Duration::from_millis(1)).unwrap();
    }
    let polls = std::thread::spawn(move || {
        let (mut acquire, mut polls) = (pin!(locks.mutex("no-runtime").acquire()), 0);
        let waker = Waker::from(std::sync::Arc::new(Unpark(std::thread::current())));
        while acquire.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            std::thread::park();
            polls += 1;
        }
        polls
    });
    assert!(polls.join().unwrap() > 0, "the reply came at once");
}

/// Wakes a thread.
struct Unpark(std::thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}
