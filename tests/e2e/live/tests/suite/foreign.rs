//! Together with clients of other libraries, which know only `SET key token NX PX`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use leasehold::{LossReason, ReleaseOutcome};
use leasehold_live::{Foreign, Tested, begin, client, quick, shared_server, soon, text, unique, until, waiters};
use leasehold_servers::Server;
use tokio::task::JoinSet;

const LONG: Duration = Duration::from_secs(60);

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
    let (locks, mut foreign) = (client(server).await?, Foreign::connect(server, "redsync")?);
    for deletes in [true, false] {
        let ttl = if deletes { LONG } else { Duration::from_secs(2) };
        assert!(foreign.lock(&name, ttl)?);
        let waiting = begin(locks.mutex(&name));
        until("it waits", async || waiters(server, &name).is_ok_and(|count| count == 1)).await;
        let start = Instant::now();
        if deletes {
            assert!(foreign.unlock(&name)?);
        }
        let lease = soon("the lock", waiting).await??;
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
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
async fn in_a_mixed_fleet_both_sides_get_a_fair_part() -> Tested {
    const LASTS: Duration = Duration::from_secs(4);
    const WORK: Duration = Duration::from_millis(5);
    let (server, inside) = (Server::start()?, Arc::new(AtomicU32::new(0)));
    let (ours, theirs) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (start, mut tasks) = (Instant::now(), JoinSet::new());
    for _ in 0..3 {
        let locks = quick().mixed_fleet(true).connect(&server.url()).await?;
        for _ in 0..2 {
            let (lock, count, inside) = (locks.mutex("door"), Arc::clone(&ours), Arc::clone(&inside));
            tasks.spawn(async move {
                while start.elapsed() < LASTS {
                    let lease = lock.acquire().await?;
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                    tokio::time::sleep(WORK).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    count.fetch_add(1, Ordering::Relaxed);
                    lease.release().await?;
                }
                Tested::Ok(())
            });
        }
    }
    for place in 0..3_u64 {
        let mut foreign = Foreign::connect(&server, &format!("redsync {place}"))?;
        let (count, inside) = (Arc::clone(&theirs), Arc::clone(&inside));
        tasks.spawn(async move {
            // About as often as such clients poll, but not in step with each other.
            let pause = Duration::from_millis(90 + 20 * place);
            while start.elapsed() < LASTS {
                if foreign.lock("door", LONG)? {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                    tokio::time::sleep(WORK).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    count.fetch_add(1, Ordering::Relaxed);
                    foreign.unlock("door")?;
                }
                tokio::time::sleep(pause).await;
            }
            Tested::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let (ours, theirs) = (ours.load(Ordering::Relaxed), theirs.load(Ordering::Relaxed));
    let least = (ours + theirs) / 5;
    assert!(ours > least && theirs > least, "ours {ours}, theirs {theirs}");
    Ok(())
}
