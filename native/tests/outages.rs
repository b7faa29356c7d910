//! How long each call takes while the server is down or silent, on virtual time.

use std::time::Duration;

use leasehold::testing::Server;
use leasehold::{Error, LockManager};
use tokio::time::Instant;

const TIMEOUT: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(600);
const HOUR: Duration = Duration::from_secs(3_600);

fn client(server: &Server) -> LockManager {
    LockManager::builder().ttl(TTL).response_timeout(TIMEOUT).in_memory(server).unwrap()
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    Down,
    Silent,
}

impl Trouble {
    fn strike(self, server: &Server) {
        match self {
            Self::Down => server.stop(),
            Self::Silent => server.delay(HOUR).unwrap(),
        }
    }
}

/// Asserts that the call ends as unreachable, and takes at most this long.
async fn unreachable<T>(what: &str, most: Duration, call: impl Future<Output = Result<T, Error>>) {
    let start = Instant::now();
    let Err(error) = call.await else { panic!("{what} had an answer") };
    assert_eq!(error.code(), "unreachable", "{what}: {error:?}");
    assert!(start.elapsed() <= most, "{what} took {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn without_a_server_every_call_ends_within_its_own_deadline() {
    for trouble in [Trouble::Down, Trouble::Silent] {
        let server = Server::new();
        let locks = client(&server);
        let (kept, released) = (locks.mutex("a").acquire().await.unwrap(), locks.mutex("b").acquire().await.unwrap());
        let dropped = locks.read_write("c").read().acquire().await.unwrap();
        trouble.strike(&server);
        let wait = TIMEOUT * 3;
        let (waits, free) = (locks.mutex("free").wait(wait), locks.mutex("also free"));
        let several = locks.multi(["d", "e"]);
        tokio::join!(
            unreachable("acquire", wait, waits.acquire()),
            unreachable("try_acquire", TIMEOUT, free.try_acquire()),
            unreachable("try_acquire of several", TIMEOUT, several.try_acquire()),
            unreachable("inspect", TIMEOUT * 2, locks.inspect("a")),
            unreachable("force_release", TIMEOUT, locks.force_release("f")),
            unreachable("verify", TIMEOUT, kept.verify()),
            unreachable("extend", TIMEOUT, kept.extend(TTL * 2)),
            unreachable("release", TIMEOUT, released.release()),
        );
        // Once more, now that the client knows about the outage.
        unreachable("inspect", TIMEOUT * 2, locks.inspect("a")).await;
        unreachable("release", TIMEOUT, dropped.release()).await;
        assert!(kept.is_held(), "nobody else can have it before its end");
    }
}

#[tokio::test(start_paused = true)]
async fn a_try_ends_within_the_wait_that_was_set_on_the_lock_or_the_manager() {
    for trouble in [Trouble::Down, Trouble::Silent] {
        let server = Server::new();
        let wait = Duration::from_millis(400);
        let plain = LockManager::builder().in_memory(&server).unwrap();
        let hasty = LockManager::builder().wait(wait).in_memory(&server).unwrap();
        trouble.strike(&server);
        let (mutex, page) = (plain.mutex("a").wait(wait), hasty.read_write("b").read());
        let (permits, several) = (hasty.semaphore("c", 3), plain.multi(["d", "e"]).wait(wait));
        tokio::join!(
            unreachable("a try with a wait of its own", wait, mutex.try_acquire()),
            unreachable("a try with the manager's wait", wait, page.try_acquire()),
            unreachable("a try of permits", wait, permits.try_acquire()),
            unreachable("a try of several", wait, several.try_acquire()),
        );
    }
}

#[tokio::test(start_paused = true)]
async fn close_without_a_server_ends_at_once_if_nothing_is_held_and_else_within_the_response_timeout() {
    for trouble in [Trouble::Down, Trouble::Silent] {
        let server = Server::new();
        let (idle, used, waits, leaving) = (client(&server), client(&server), client(&server), client(&server));
        used.mutex("a").acquire().await.unwrap().release().await.unwrap();
        let left = leaving.mutex("b").acquire().await.unwrap();
        let lock = waits.mutex("b");
        let waiting = tokio::spawn(async move { lock.acquire().await });
        while leaving.inspect("b").await.unwrap().waiters.is_empty() {
            tokio::task::yield_now().await;
        }
        trouble.strike(&server);
        assert_eq!(closes("an idle manager", &idle, Duration::ZERO).await, 0);
        assert_eq!(closes("one whose lease was released", &used, Duration::ZERO).await, 0);
        assert_eq!(closes("one that only waits", &waits, TIMEOUT).await, 0);
        assert!(matches!(waiting.await.unwrap(), Err(Error::Closed)));
        assert_eq!(closes("one with a lease", &leaving, TIMEOUT).await, 1);
        assert!(!left.is_held());
        assert_eq!(closes("a closed one", &leaving, Duration::ZERO).await, 1, "it says the same again");
    }
}

async fn closes(what: &str, locks: &LockManager, most: Duration) -> u32 {
    let start = Instant::now();
    let closed = locks.close().await;
    assert!(start.elapsed() <= most, "{what} took {:?}", start.elapsed());
    closed.unreleased
}

/// A helper's runtime ends with a close under way, or with none.
#[test]
fn a_close_after_its_runtime_has_ended_counts_the_leases_that_nobody_gave_back() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    for (closing, dropped) in [(false, false), (false, true), (true, false), (true, true)] {
        let (server, ends) = (Server::new(), runtime());
        let (locks, mut leases) = ends.block_on(async {
            let (locks, mut leases) = (client(&server), Vec::new());
            for number in 0..200 {
                leases.push(locks.mutex(format!("n{number}")).acquire().await.unwrap());
            }
            if closing {
                server.delay(HOUR).unwrap();
                let mut close = std::pin::pin!(locks.close());
                std::future::poll_fn(|context| std::task::Poll::Ready(close.as_mut().poll(context).is_pending())).await;
            }
            (locks, leases)
        });
        drop(ends);
        if dropped {
            leases.clear();
        }
        let closed = runtime().block_on(async { [locks.close().await, locks.close().await] });
        assert_eq!(closed.map(|closed| closed.unreleased), [200, 200], "closing: {closing}, dropped: {dropped}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_conversion_without_a_server_ends_with_its_lease_at_the_latest() {
    for trouble in [Trouble::Down, Trouble::Silent] {
        let server = Server::new();
        let (locks, ttl) = (client(&server), Duration::from_millis(900));
        let (page, map) = (locks.read_write("page").write().ttl(ttl), locks.read_write("map").read().ttl(ttl));
        let (writer, reader) = (page.acquire().await.unwrap(), map.acquire().await.unwrap());
        trouble.strike(&server);
        let start = Instant::now();
        let (downgraded, upgraded) = tokio::join!(writer.downgrade(), reader.upgrade());
        assert!(start.elapsed() <= ttl, "{:?}", start.elapsed());
        for error in [downgraded.unwrap_err(), upgraded.unwrap_err()] {
            assert_eq!(error.code(), "lost", "{error:?}");
        }
        assert!(!writer.is_held() && !reader.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_published_while_nobody_listens_is_not_lost() {
    let server = Server::new();
    // Its waiter asks by itself only after 20 s.
    let client = || LockManager::builder().claim_window(Duration::from_secs(60)).in_memory(&server).unwrap();
    let (one, other) = (client(), client());
    let lease = one.mutex("a").acquire().await.unwrap();
    let lock = other.mutex("a");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    while one.inspect("a").await.unwrap().waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    // The break ends the subscription. The release arrives before the client subscribes again.
    server.stop();
    server.start();
    let start = Instant::now();
    lease.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().is_held());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}
