//! The server is down or silent, and comes back.

use std::time::{Duration, Instant};

use leasehold::{Error, LockManager, Mode, Wait};
use leasehold_live::{Tested, begin, quick, soon, until, waiters};
use leasehold_servers::Server;

const TIMEOUT: Duration = Duration::from_secs(1);
/// The delay that a busy machine may add.
const LATE: Duration = Duration::from_secs(1);

async fn impatient(server: &Server) -> Result<LockManager, Error> {
    quick().response_timeout(TIMEOUT).connect(&server.url()).await
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    Killed,
    Silent,
}

impl Trouble {
    fn strike(self, server: &mut Server) -> Tested {
        match self {
            Self::Killed => server.stop(),
            Self::Silent => server.pause()?,
        }
        Ok(())
    }

    fn end(self, server: &mut Server) -> Tested {
        match self {
            Self::Killed => Ok(server.restart()?),
            Self::Silent => Ok(server.resume()?),
        }
    }
}

async fn every_call_ends_in_time(trouble: Trouble) -> Tested {
    let mut server = Server::start()?;
    let locks = impatient(&server).await?;
    let [kept, released, dropped] = [
        locks.mutex("a").ttl(Duration::from_secs(20)).acquire().await?,
        locks.mutex("b").acquire().await?,
        locks.read_write("c").read().acquire().await?,
    ];
    trouble.strike(&mut server)?;
    let wait = TIMEOUT * 3;
    let (waits, free) = (locks.mutex("free").wait(Wait::For(wait)), locks.mutex("also free"));
    let several = locks.multi(["d", "e"]);
    tokio::join!(
        unreachable("acquire", wait, waits.acquire()),
        unreachable("try_acquire", TIMEOUT, free.try_acquire()),
        unreachable("try_acquire of several", TIMEOUT, several.try_acquire()),
        unreachable("inspect", TIMEOUT, locks.inspect("a")),
        unreachable("force_release", TIMEOUT, locks.force_release("f")),
        unreachable("verify", TIMEOUT, kept.verify()),
        unreachable("extend", TIMEOUT, kept.extend(Duration::from_secs(30))),
        unreachable("release", TIMEOUT, released.release()),
        unreachable("connect", TIMEOUT, impatient(&server)),
    );
    // Once more, now that the client knows about the outage.
    unreachable("inspect", TIMEOUT, locks.inspect("a")).await;
    unreachable("release", TIMEOUT, dropped.release()).await;
    assert!(kept.is_held(), "nobody else can have it before its end");
    trouble.end(&mut server)?;
    soon("the lock after the outage", locks.mutex("g").acquire()).await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_killed_server_ends_every_call_as_unreachable_within_its_own_deadline() -> Tested {
    every_call_ends_in_time(Trouble::Killed).await
}

#[tokio::test]
async fn a_silent_server_ends_every_call_as_unreachable_within_its_own_deadline() -> Tested {
    every_call_ends_in_time(Trouble::Silent).await
}

#[tokio::test]
async fn a_try_ends_within_the_wait_that_was_set_on_the_lock_or_the_manager() -> Tested {
    for trouble in [Trouble::Killed, Trouble::Silent] {
        let mut server = Server::start()?;
        let wait = Duration::from_millis(400);
        let (plain, hasty) = (LockManager::builder(), LockManager::builder().wait(wait));
        let (plain, hasty) = (plain.connect(&server.url()).await?, hasty.connect(&server.url()).await?);
        trouble.strike(&mut server)?;
        let (mutex, page) = (plain.mutex("a").wait(wait), hasty.read_write("b").read());
        let (permits, several) = (hasty.semaphore("c", 3), plain.multi(["d", "e"]).wait(wait));
        tokio::join!(
            unreachable("a try with a wait of its own", wait, mutex.try_acquire()),
            unreachable("a try with the manager's wait", wait, page.try_acquire()),
            unreachable("a try of permits", wait, permits.try_acquire()),
            unreachable("a try of several", wait, several.try_acquire()),
        );
        if let Trouble::Silent = trouble {
            server.resume()?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn close_without_a_server_is_at_once_where_nothing_is_held_and_else_within_the_response_timeout() -> Tested {
    for trouble in [Trouble::Killed, Trouble::Silent] {
        let mut server = Server::start()?;
        let (idle, used, waits) = (impatient(&server).await?, impatient(&server).await?, impatient(&server).await?);
        let leaving = impatient(&server).await?;
        used.mutex("a").acquire().await?.release().await?;
        let left = leaving.mutex("b").acquire().await?;
        let waiting = begin(waits.mutex("b"));
        until("it waits", async || waiters(&server, "b").is_ok_and(|count| count == 1)).await;
        trouble.strike(&mut server)?;
        assert_eq!(closes("an idle manager", &idle, Duration::ZERO).await, 0);
        assert_eq!(closes("one whose lease was released", &used, Duration::ZERO).await, 0);
        assert_eq!(closes("one that only waits", &waits, TIMEOUT).await, 0);
        assert!(matches!(soon("the end of the wait", waiting).await?, Err(Error::Closed)));
        assert_eq!(closes("one with a lease", &leaving, TIMEOUT).await, 1);
        assert!(!left.is_held());
        assert_eq!(closes("a closed one", &leaving, Duration::ZERO).await, 1, "it says the same again");
        if let Trouble::Silent = trouble {
            server.resume()?;
        }
    }
    Ok(())
}

async fn closes(what: &str, locks: &LockManager, limit: Duration) -> u32 {
    let start = Instant::now();
    let closed = soon(what, locks.close()).await;
    assert!(start.elapsed() < limit + LATE, "{what} took {:?}", start.elapsed());
    closed.unreleased
}

async fn unreachable<T>(what: &str, limit: Duration, call: impl Future<Output = Result<T, Error>>) {
    let start = Instant::now();
    let Err(error) = soon(what, call).await else { panic!("{what} had an answer") };
    assert_eq!(error.code(), "unreachable", "{what}: {error:?}");
    assert!(start.elapsed() < limit + LATE, "{what} took {:?}", start.elapsed());
}

#[tokio::test]
async fn a_conversion_without_a_server_ends_with_its_lease_at_the_latest() -> Tested {
    let mut server = Server::start()?;
    let locks = impatient(&server).await?;
    let ttl = Duration::from_millis(900);
    let (page, map) = (locks.read_write("page"), locks.read_write("map"));
    let (writer, reader) = (page.write().ttl(ttl).acquire().await?, map.read().ttl(ttl).acquire().await?);
    server.stop();
    let start = Instant::now();
    let (downgraded, upgraded) = tokio::join!(writer.downgrade(), reader.upgrade());
    assert!(start.elapsed() < ttl + LATE, "{:?}", start.elapsed());
    for error in [downgraded.unwrap_err(), upgraded.unwrap_err()] {
        assert_eq!(error.code(), "lost", "{error:?}");
    }
    assert!(!writer.is_held() && !reader.is_held());
    Ok(())
}

#[tokio::test]
async fn an_outage_shorter_than_the_ttl_that_keeps_the_data_costs_nothing() -> Tested {
    let server = Server::start()?;
    let (first, second) = (impatient(&server).await?, impatient(&server).await?);
    let lease = first.read_write("page").write().ttl(Duration::from_secs(3)).acquire().await?;
    let waiting = begin(second.mutex("page"));
    until("it waits", async || waiters(&server, "page").is_ok_and(|count| count == 1)).await;
    server.pause()?;
    let error = lease.verify().await.unwrap_err();
    assert_eq!(error.code(), "unreachable");
    server.resume()?;
    assert!(soon("an answer", lease.verify()).await?, "it was lost");
    lease.downgrade().await?;
    assert_eq!(lease.mode(), Mode::Shared);
    assert!(!waiting.is_finished());
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    Ok(())
}
