//! A cluster whose slots move, and whose servers stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{Error, LockManager, LossReason};
use leasehold_live::{ASKING, LONG, PATIENCE, RENEWED, Tested, begin, options, renewed, soon, until};
use leasehold_servers::{Cluster, Server};

async fn client(cluster: &Cluster) -> Result<LockManager, Error> {
    options().cluster(cluster.urls()).await
}

#[tokio::test]
#[ignore = "a renewal while a slot moves takes seconds"]
async fn a_lease_is_renewed_while_its_slot_moves_and_the_next_in_line_gets_it_afterwards() -> Tested {
    let cluster = Cluster::steady(Server::builder)?;
    let (first, second) = (client(&cluster).await?, client(&cluster).await?);
    let lease = first.mutex("a").ttl(RENEWED).acquire().await?;
    let waiting = begin(second.mutex("a"));
    until("it waits", async || first.inspect("a").await.is_ok_and(|seen| seen.waiters.len() == 1)).await;
    let to = (cluster.owner("a")? + 1) % 3;
    let moving = cluster.begin_move("a", to)?;
    // The lock's own key is on the new server, while some of its side keys are still on the old one.
    moving.key("a")?;
    renewed(std::slice::from_ref(&lease)).await;
    lease.extend(LONG).await?;
    assert!(lease.is_held());
    moving.finish()?;
    assert!(lease.verify().await?);
    assert!(!waiting.is_finished());
    let fence = lease.fence();
    lease.release().await?;
    let next = soon("the lock", waiting).await??;
    assert!(next.fence() > fence && next.verify().await?);
    assert_eq!(cluster.owner("a")?, to);
    Ok(())
}

#[tokio::test]
#[ignore = "slots go round for seconds"]
async fn no_update_is_lost_and_nobody_is_left_waiting_while_slots_move() -> Tested {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    const ROUNDS: u64 = 60;
    // Long enough for a slow machine, and short enough for a lease whose release was not confirmed.
    const TTL: Duration = Duration::from_secs(30);
    let cluster = Cluster::steady(Server::builder)?;
    let counters: [Arc<Counter>; 3] = Default::default();
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let locks = client(&cluster).await?;
        for (name, counter) in NAMES.iter().zip(&counters) {
            for _ in 0..2 {
                let (lock, counter) = (locks.mutex(*name).ttl(TTL), Arc::clone(counter));
                tasks.push(tokio::spawn(async move {
                    let mut done = 0;
                    while done < ROUNDS {
                        let lease = lock.acquire().await?;
                        counter.increment(lease.fence().get()).await;
                        done += 1;
                        // While its slot moves, a release may not be confirmed in time. The lease then ends with its
                        // TTL.
                        if let Err(error) = lease.release().await {
                            assert!(error.is_retryable(), "{error:?}");
                        }
                    }
                    Ok::<_, Error>(())
                }));
            }
        }
    }
    let mut moves = 0;
    while tasks.iter().any(|task| !task.is_finished()) {
        for name in NAMES {
            let to = (cluster.owner(name)? + 1) % 3;
            let moving = cluster.begin_move(name, to)?;
            tokio::time::sleep(Duration::from_millis(20)).await;
            moving.keys()?;
            tokio::time::sleep(Duration::from_millis(20)).await;
            moving.finish()?;
            moves += 1;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    for task in tasks {
        task.await??;
    }
    for counter in counters {
        assert_eq!(counter.value.load(Ordering::SeqCst), ROUNDS * 6, "after {moves} moves");
    }
    assert!(moves >= 3, "{moves}");
    Ok(())
}

/// What two holders at the same time would corrupt.
#[derive(Default)]
struct Counter {
    value: AtomicU64,
    fence: AtomicU64,
}

impl Counter {
    async fn increment(&self, fence: u64) {
        assert!(self.fence.swap(fence, Ordering::SeqCst) < fence, "fences rise");
        let value = self.value.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.value.store(value + 1, Ordering::SeqCst);
    }
}

#[tokio::test]
#[ignore = "a failover takes seconds"]
async fn a_killed_primary_costs_its_locks_at_most_and_its_replica_goes_on() -> Tested {
    // By default, all servers stop while one slot has no server.
    let mut cluster = Cluster::steady(|| Server::builder().arg("--cluster-require-full-coverage", "no"))?;
    let locks = client(&cluster).await?;
    let (name, other) = ("a", "b");
    let owner = cluster.owner(name)?;
    assert_ne!(owner, cluster.owner(other)?);
    let (lock, safe) = (locks.mutex(name), locks.mutex(other));
    let (lease, elsewhere) = (lock.clone().ttl(RENEWED).renew(false).acquire().await?, safe.acquire().await?);
    let waiting = begin(options().claim_window(ASKING).cluster(cluster.urls()).await?.mutex(name));
    until("it waits", async || locks.inspect(name).await.is_ok_and(|seen| seen.waiters.len() == 1)).await;
    cluster.allow_failover(owner)?;
    cluster.server_mut(owner).stop();
    let reason = soon("the loss", lease.lost()).await;
    assert_eq!(reason, LossReason::Expired);
    let next = soon("the lock", waiting).await??;
    assert!(next.fence() > lease.fence() && next.verify().await?);
    assert_eq!(cluster.owner(name)?, owner + 3, "its replica has its slots");
    assert!(elsewhere.is_held() && elsewhere.verify().await?, "the other servers were not concerned");
    next.release().await?;
    for _ in 0..20 {
        let lease = soon("the lock", lock.acquire()).await?;
        lease.release().await?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "a failover takes seconds"]
async fn a_lease_that_the_replica_has_goes_on_after_a_failover() -> Tested {
    let cluster = Cluster::steady(Server::builder)?;
    let locks = client(&cluster).await?;
    let lease = locks.mutex("a").wait_for_replicas(1, PATIENCE).acquire().await?;
    let waiting = begin(client(&cluster).await?.mutex("a"));
    until("it waits", async || locks.inspect("a").await.is_ok_and(|seen| seen.waiters.len() == 1)).await;
    let owner = cluster.owner("a")?;
    cluster.server(owner + 3).cli(&["CLUSTER", "FAILOVER"])?;
    until("the replica has the slots", async || cluster.owner("a").is_ok_and(|now| now == owner + 3)).await;
    assert!(soon("an answer", lease.verify()).await?);
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    Ok(())
}

#[tokio::test]
#[ignore = "a cluster takes seconds to start"]
async fn a_silent_server_holds_up_nobody_elses_locks() -> Tested {
    let cluster = Cluster::steady(Server::builder)?;
    let locks = client(&cluster).await?;
    let name = "a";
    locks.mutex(name).acquire().await?.release().await?;
    let silent = cluster.server(cluster.owner(name)?);
    silent.pause()?;
    let stuck = begin(locks.mutex(name));
    let others = async {
        for other in ["b", "c"].into_iter().cycle().take(40) {
            locks.mutex(other).acquire().await?.release().await?;
        }
        Tested::Ok(())
    };
    // The client waits this long for the silent server. The other locks must not wait for it.
    tokio::time::timeout(PATIENCE / 2, others).await??;
    assert!(!stuck.is_finished());
    silent.resume()?;
    soon("the lock", stuck).await??.release().await?;
    Ok(())
}
