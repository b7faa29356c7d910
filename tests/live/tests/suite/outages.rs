//! The server is gone or silent, and comes back.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use leasehold::{Error, Lease, LockManager, Mode, Wait};
use leasehold_live::{Tested, begin, quick, soon, until, waiters};
use leasehold_servers::Server;

const TIMEOUT: Duration = Duration::from_millis(300);
/// What a busy machine may add.
const LATE: Duration = Duration::from_millis(400);

async fn impatient(server: &Server) -> Result<LockManager, Error> {
    quick().response_timeout(TIMEOUT).connect(&server.url()).await
}

#[tokio::test]
async fn a_server_that_is_down_ends_every_call_as_unreachable_within_its_own_deadline() -> Tested {
    let mut server = Server::start()?;
    let (locks, leaving) = (impatient(&server).await?, impatient(&server).await?);
    let leases = [locks.mutex("a").acquire().await?, locks.mutex("b").acquire().await?];
    let left = leaving.mutex("c").acquire().await?;
    server.stop();
    every_call_is_unreachable(&locks, leases).await;
    closes_in_time(&leaving, &left).await;
    server.restart()?;
    soon("the lock on the new server", locks.mutex("d").acquire()).await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_silent_server_ends_every_call_as_unreachable_within_its_own_deadline() -> Tested {
    let server = Server::start()?;
    let (locks, leaving) = (impatient(&server).await?, impatient(&server).await?);
    let leases = [locks.mutex("a").acquire().await?, locks.mutex("b").acquire().await?];
    let left = leaving.mutex("c").acquire().await?;
    server.pause()?;
    every_call_is_unreachable(&locks, leases).await;
    closes_in_time(&leaving, &left).await;
    server.resume()?;
    soon("the lock after the silence", locks.mutex("d").acquire()).await?.release().await?;
    Ok(())
}

async fn every_call_is_unreachable(locks: &LockManager, [kept, released]: [Lease; 2]) {
    let wait = TIMEOUT * 3;
    let (waits, free) = (locks.mutex("free").wait(Wait::For(wait)), locks.mutex("also free"));
    tokio::join!(
        unreachable("acquire", wait, waits.acquire()),
        unreachable("try_acquire", TIMEOUT * 2, free.try_acquire()),
        unreachable("inspect", TIMEOUT * 2, locks.inspect("a")),
        unreachable("verify", TIMEOUT * 2, kept.verify()),
        unreachable("extend", TIMEOUT * 2, kept.extend(Duration::from_secs(10))),
        unreachable("release", TIMEOUT * 2, released.release()),
    );
    assert!(kept.is_held(), "nobody else can have it before its end");
}

async fn closes_in_time(leaving: &LockManager, left: &Lease) {
    let start = Instant::now();
    soon("the end", leaving.close()).await;
    assert!(start.elapsed() < TIMEOUT * 2 + LATE, "{:?}", start.elapsed());
    assert!(!left.is_held());
}

async fn unreachable<T: Debug>(what: &str, limit: Duration, call: impl Future<Output = Result<T, Error>>) {
    let start = Instant::now();
    let error = soon(what, call).await.expect_err(what);
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
