//! Semaphores: permits by weight, first come, first served.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::{LossReason, ReleaseOutcome};
use leasehold_live::{Tested, begin, client, queued, shared_server, soon, unique, until, waiters};
use leasehold_servers::Server;
use tokio::task::JoinSet;

#[tokio::test]
async fn no_more_permits_are_out_than_there_are_and_each_release_gives_back_its_own() -> Tested {
    let (server, name) = (shared_server(), unique("reports"));
    let (one, two) = (client(server).await?.semaphore(&name, 3), client(server).await?.semaphore(&name, 3));
    let first = one.acquire().await?;
    let pair = two.permits(2).acquire().await?;
    assert!(first.fence() < pair.fence());
    assert!(one.try_acquire().await?.is_none() && two.try_acquire().await?.is_none());
    assert_eq!(pair.release().await?, ReleaseOutcome::Released);
    let second = one.permits(2).try_acquire().await?.expect("two are free");
    assert!(two.try_acquire().await?.is_none());
    drop(first);
    until("the first is back", async || two.try_acquire().await.is_ok_and(|lease| lease.is_some())).await;
    assert_eq!(second.release().await?, ReleaseOutcome::Released);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_never_hold_more_than_the_limit() -> Tested {
    const LIMIT: u32 = 5;
    let (server, held) = (Server::start()?, Arc::new(AtomicU32::new(0)));
    let most = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let semaphore = client(&server).await?.semaphore("reports", LIMIT);
        for task in 0..6 {
            let (held, most) = (Arc::clone(&held), Arc::clone(&most));
            let weight = 1 + task % 3;
            let permits = semaphore.permits(weight);
            tasks.spawn(async move {
                for _ in 0..15 {
                    let lease = permits.acquire().await?;
                    let now = held.fetch_add(weight, Ordering::SeqCst) + weight;
                    assert!(now <= LIMIT, "{now} of {LIMIT}");
                    most.fetch_max(now, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    held.fetch_sub(weight, Ordering::SeqCst);
                    lease.release().await?;
                }
                Tested::Ok(())
            });
        }
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    assert!(most.load(Ordering::Relaxed) > 3, "they work beside each other: one has three permits at most");
    assert_eq!(server.cli(&["EXISTS", "reports", "leasehold:{reports}:permits"])?.integer(), Some(0));
    Ok(())
}

#[tokio::test]
async fn a_big_request_is_not_passed_by_small_ones() -> Tested {
    let (server, name) = (shared_server(), unique("reports"));
    let (holder, big, small) = (client(server).await?, client(server).await?, client(server).await?);
    let (one, two) = (holder.semaphore(&name, 3).acquire().await?, holder.semaphore(&name, 3).acquire().await?);
    let waiting = queued(server, big.semaphore(&name, 3).permits(3)).await;
    assert!(small.semaphore(&name, 3).try_acquire().await?.is_none(), "one is free, and somebody is before us");
    let behind = queued(server, small.semaphore(&name, 3).permits(1)).await;
    one.release().await?;
    assert_eq!(waiters(server, &name)?, 2, "two are free, and three are wanted");
    two.release().await?;
    let lease = soon("all three", waiting).await??;
    assert!(!behind.is_finished());
    lease.release().await?;
    soon("one", behind).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn permits_of_the_dead_come_back_and_the_living_keep_theirs() -> Tested {
    let (server, name) = (shared_server(), unique("reports"));
    let (locks, other) = (client(server).await?, client(server).await?);
    let dead = locks.semaphore(&name, 2).permits(1).ttl(Duration::from_millis(1_200)).renew(false).acquire().await?;
    let alive = locks.semaphore(&name, 2).permits(1).acquire().await?;
    let lease = soon("the permit of the dead", begin(other.semaphore(&name, 2).permits(1))).await??;
    assert_eq!(dead.lost().await, LossReason::Expired);
    assert!(alive.verify().await?);
    assert_eq!(dead.release().await?, ReleaseOutcome::AlreadyExpired);
    assert!(other.semaphore(&name, 2).try_acquire().await?.is_none(), "a late release gives back nothing");
    lease.release().await?;
    alive.release().await?;
    Ok(())
}

#[tokio::test]
async fn the_latest_limit_stands_and_takes_nothing_from_anybody() -> Tested {
    let (server, name) = (shared_server(), unique("reports"));
    let (locks, other) = (client(server).await?, client(server).await?);
    let held = [locks.semaphore(&name, 3).acquire().await?, locks.semaphore(&name, 3).acquire().await?];
    assert!(other.semaphore(&name, 2).try_acquire().await?.is_none(), "lowered to two");
    assert!(held[0].verify().await? && held[1].verify().await?);
    let third = other.semaphore(&name, 3).try_acquire().await?.expect("raised again");
    let waiting = queued(server, locks.semaphore(&name, 3).permits(3)).await;
    assert!(other.semaphore(&name, 1).try_acquire().await?.is_none(), "lowered to one");
    for lease in held.into_iter().chain([third]) {
        assert!(!waiting.is_finished());
        lease.release().await?;
    }
    soon("three, when all else is free", waiting).await??.release().await?;
    Ok(())
}
