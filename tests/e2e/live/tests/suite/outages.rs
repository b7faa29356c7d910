//! The server is down or silent, and comes back. `native/tests/outages.rs` tests how long each call may take, on
//! virtual time.

use std::time::Duration;

use leasehold::{Error, LockManager, Mode};
use leasehold_live::{LONG, PATIENCE, Tested, client, hasty, queued, soon};
use leasehold_servers::Server;

/// How long a client waits for an answer that doesn't come.
const TIMEOUT: Duration = Duration::from_millis(500);

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

async fn every_call_ends(trouble: Trouble) -> Tested {
    let mut server = Server::start()?;
    let locks = hasty(&server, TIMEOUT).await;
    let [kept, released, dropped] = [
        locks.mutex("a").acquire().await?,
        locks.mutex("b").acquire().await?,
        locks.read_write("c").read().acquire().await?,
    ];
    trouble.strike(&mut server)?;
    let (waits, free) = (locks.mutex("free").wait(TIMEOUT * 3), locks.mutex("also free"));
    let (several, url) = (locks.multi(["d", "e"]), server.url());
    tokio::join!(
        unreachable("acquire", waits.acquire()),
        unreachable("try_acquire", free.try_acquire()),
        unreachable("try_acquire of several", several.try_acquire()),
        unreachable("inspect", locks.inspect("a")),
        unreachable("force_release", locks.force_release("f")),
        unreachable("verify", kept.verify()),
        unreachable("extend", kept.extend(LONG * 2)),
        unreachable("release", released.release()),
        unreachable("connect", LockManager::builder().response_timeout(TIMEOUT).connect(&url)),
    );
    // Once more, now that the client knows about the outage.
    unreachable("inspect", locks.inspect("a")).await;
    unreachable("release", dropped.release()).await;
    assert!(kept.is_held(), "nobody else can have it before its end");
    trouble.end(&mut server)?;
    soon("the lock after the outage", locks.mutex("g").acquire()).await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_killed_server_ends_every_call_as_unreachable() -> Tested {
    every_call_ends(Trouble::Killed).await
}

#[tokio::test]
async fn a_silent_server_ends_every_call_as_unreachable() -> Tested {
    every_call_ends(Trouble::Silent).await
}

async fn unreachable<T>(what: &str, call: impl Future<Output = Result<T, Error>>) {
    let Err(error) = soon(what, call).await else { panic!("{what} had an answer") };
    assert_eq!(error.code(), "unreachable", "{what}: {error:?}");
}

#[tokio::test]
async fn close_ends_without_a_server_and_counts_what_it_could_not_give_back() -> Tested {
    for trouble in [Trouble::Killed, Trouble::Silent] {
        let mut server = Server::start()?;
        let (idle, used) = (client(&server).await?, client(&server).await?);
        let (waits, leaving) = (hasty(&server, TIMEOUT).await, hasty(&server, TIMEOUT).await);
        used.mutex("a").acquire().await?.release().await?;
        let left = leaving.mutex("b").acquire().await?;
        let waiting = queued(&server, waits.mutex("b")).await;
        trouble.strike(&mut server)?;
        let closes = async |what: &str, locks: &LockManager| soon(what, locks.close()).await.unreleased;
        for nothing_held in [&idle, &used] {
            // These don't wait for an answer. That would take a response timeout.
            let closed = tokio::time::timeout(PATIENCE / 2, nothing_held.close()).await?;
            assert_eq!(closed.unreleased, 0);
        }
        assert_eq!(closes("one that only waits", &waits).await, 0);
        assert!(matches!(soon("the end of the wait", waiting).await?, Err(Error::Closed)));
        assert_eq!(closes("one with a lease", &leaving).await, 1);
        assert!(!left.is_held());
        assert_eq!(closes("a closed one", &leaving).await, 1, "it says the same again");
        if let Trouble::Silent = trouble {
            server.resume()?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_outage_shorter_than_the_ttl_that_keeps_the_data_costs_nothing() -> Tested {
    let server = Server::start()?;
    let (first, second) = (client(&server).await?, client(&server).await?);
    let lease = first.read_write("page").write().acquire().await?;
    let waiting = queued(&server, second.mutex("page")).await;
    server.pause()?;
    // Nothing can answer this within the pause.
    assert!(tokio::time::timeout(TIMEOUT, lease.verify()).await.is_err());
    server.resume()?;
    assert!(soon("an answer", lease.verify()).await?, "it was lost");
    lease.downgrade().await?;
    assert_eq!(lease.mode(), Mode::Shared);
    assert!(!waiting.is_finished());
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    Ok(())
}
