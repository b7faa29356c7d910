//! Together with clients of other libraries, which know only `SET key token NX PX`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::{LossReason, ReleaseOutcome};
use leasehold_live::{
    ASKING, Foreign, LONG, Tested, begin, client, options, shared_server, soon, text, unique, until, waiters,
};
use leasehold_servers::Server;
use tokio::task::JoinSet;

#[tokio::test]
async fn our_leases_exclude_foreign_clients() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let (locks, mut foreign) = (client(server).await?, Foreign::connect(server, "redsync")?);
    let lease = locks.mutex(&name).acquire().await?;
    assert!(!foreign.lock(&name, LONG)?);
    lease.downgrade().await?;
    assert!(!foreign.lock(&name, LONG)?, "readers exclude them too");
    assert!(!foreign.unlock(&name)?);
    lease.release().await?;
    assert!(foreign.lock(&name, LONG)?);
    assert!(foreign.unlock(&name)?);
    Ok(())
}

#[tokio::test]
async fn foreign_holders_exclude_us_and_are_seen_as_such() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let (locks, mut foreign) = (client(server).await?, Foreign::connect(server, "redsync")?);
    assert!(foreign.lock(&name, LONG)?);
    assert!(locks.mutex(&name).try_acquire().await?.is_none());
    assert!(locks.read_write(&name).read().try_acquire().await?.is_none());
    let seen = locks.inspect(&name).await?;
    assert_eq!(seen.holders.len(), 1);
    assert!(seen.holders[0].foreign && seen.holders[0].token == "redsync");
    assert!(seen.holders[0].remaining.is_some_and(|left| left > LONG / 2 && left <= LONG));
    assert_eq!(text(server, &["GET", &name])?.as_deref(), Some("redsync"));
    assert!(foreign.unlock(&name)?);
    Ok(())
}

#[tokio::test]
async fn a_foreign_holder_that_deletes_its_key_or_dies_lets_a_waiter_in_soon() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let locks = options().claim_window(ASKING).connect(&server.url()).await?;
    let mut foreign = Foreign::connect(server, "redsync")?;
    for deletes in [true, false] {
        let ttl = if deletes { LONG } else { Duration::from_secs(2) };
        assert!(foreign.lock(&name, ttl)?);
        let waiting = begin(locks.mutex(&name));
        if deletes {
            until("it waits", async || waiters(server, &name).is_ok_and(|count| count == 1)).await;
            assert!(foreign.unlock(&name)?);
        }
        let lease = soon("the lock", waiting).await??;
        assert!(!foreign.unlock(&name)?, "it is not theirs any more");
        assert_eq!(lease.release().await?, ReleaseOutcome::Released);
    }
    Ok(())
}

#[tokio::test]
async fn what_a_foreign_client_takes_after_our_end_is_left_to_it() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let (locks, mut foreign) = (client(server).await?, Foreign::connect(server, "redsync")?);
    let lease = locks.mutex(&name).ttl(Duration::from_millis(100)).renew(false).acquire().await?;
    until("it is over", async || foreign.lock(&name, LONG).unwrap_or(false)).await;
    assert_eq!(lease.lost().await, LossReason::Expired);
    assert!(!lease.verify().await?);
    assert_eq!(lease.release().await?, ReleaseOutcome::AlreadyExpired);
    assert!(foreign.unlock(&name)?, "it was still theirs");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_mixed_fleet_both_sides_exclude_each_other_and_finish_their_work() -> Tested {
    const TURNS: u32 = 8;
    const WORK: Duration = Duration::from_millis(2);
    let (server, inside) = (Server::start()?, Arc::new(AtomicU32::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let locks = options().mixed_fleet(true).claim_window(ASKING).connect(&server.url()).await?;
        for _ in 0..2 {
            let (lock, inside) = (locks.mutex("door"), Arc::clone(&inside));
            tasks.spawn(async move {
                for _ in 0..TURNS {
                    let lease = lock.acquire().await?;
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                    tokio::time::sleep(WORK).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    lease.release().await?;
                }
                Tested::Ok(())
            });
        }
    }
    for place in 0..3 {
        let mut foreign = Foreign::connect(&server, &format!("redsync-{place}"))?;
        let inside = Arc::clone(&inside);
        tasks.spawn(async move {
            let mut turns = 0;
            while turns < TURNS {
                if foreign.lock("door", LONG)? {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                    tokio::time::sleep(WORK).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    turns += 1;
                    foreign.unlock("door")?;
                }
                tokio::time::sleep(WORK).await;
            }
            Tested::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(())
}
