//! Leases that linger after their release.

use std::time::Duration;

use leasehold::{LockManager, Owner};
use leasehold_live::{Tested, client, is_there, options, shared_server, soon, unique, until};
use leasehold_servers::Server;

/// The longest time that a lease may linger.
const LONG: Duration = Duration::from_secs(60);

/// Takes and releases a lock until its lease lingers. That needs messages: the client subscribes
/// with the first lease that may linger.
async fn linger(locks: &LockManager, server: &Server, name: &str) {
    let lock = locks.mutex(name).linger(LONG);
    until("the lease lingers", async || {
        let released = async { lock.acquire().await?.release().await };
        released.await.is_ok() && is_there(server, name).unwrap_or(false)
    })
    .await;
}

#[tokio::test]
async fn another_client_gets_a_lingering_lock_soon_whether_it_waits_or_tries() -> Tested {
    let (server, waited, tried) = (shared_server(), unique("door"), unique("door"));
    let (locks, other) = (client(server).await?, client(server).await?);
    linger(&locks, server, &waited).await;
    soon("the lock", other.mutex(&waited).acquire()).await?.release().await?;
    linger(&locks, server, &tried).await;
    let lock = other.mutex(&tried);
    until("a try gets it", async || lock.try_acquire().await.is_ok_and(|lease| lease.is_some())).await;
    Ok(())
}

#[tokio::test]
async fn a_lease_lingers_no_longer_than_its_time() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let locks = client(server).await?;
    linger(&locks, server, &name).await;
    locks.mutex(&name).linger(Duration::from_millis(20)).acquire().await?.release().await?;
    until("it is given back", async || is_there(server, &name).is_ok_and(|there| !there)).await;
    // Without the option it is given back at once, even if the one before lingered.
    linger(&locks, server, &name).await;
    locks.mutex(&name).acquire().await?.release().await?;
    assert!(!is_there(server, &name)?);
    Ok(())
}

#[tokio::test]
async fn locks_that_cannot_linger_refuse_it_with_the_reason() -> Tested {
    let server = shared_server();
    let locks = options().linger(LONG).connect(&server.url()).await?;
    let owner = Owner::new();
    // The default is not for them.
    locks.reentrant(unique("again"), &owner).acquire().await?.release().await?;
    locks.semaphore(unique("few"), 2).acquire().await?.release().await?;
    locks.multi([unique("one"), unique("two")]).acquire().await?.release().await?;
    let mixed = options().mixed_fleet(true).connect(&server.url()).await?;
    for (lock, code) in [
        (locks.reentrant("again", &owner).linger(LONG), "invalid-option"),
        (locks.multi(["one", "two"]).linger(LONG), "unsupported"),
        (mixed.mutex("door").linger(LONG), "invalid-option"),
        (locks.mutex("door").linger(Duration::ZERO), "invalid-option"),
    ] {
        assert_eq!(lock.acquire().await.unwrap_err().code(), code, "{}", lock.name());
    }
    Ok(())
}
