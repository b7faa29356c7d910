//! `wait_for_replicas`: a lease is returned only when replicas have it.

use std::time::{Duration, Instant};

use leasehold::{Error, LockManager, LossReason, Owner, redis_1};
use leasehold_live::{LONG, PATIENCE, Tested, begin, client, is_there, options, soon, until, waiters};
use leasehold_servers::{Server, follow};

const MOMENT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_lease_that_is_given_out_is_on_the_replica() -> Tested {
    let (primary, replica) = (Server::start()?, Server::start()?);
    follow(&replica, &primary)?;
    let locks = client(&primary).await?;
    for round in 0..20 {
        let name = format!("door-{round}");
        let lock = match round % 4 {
            0 => locks.mutex(&name),
            1 => locks.read_write(&name).read(),
            2 => locks.reentrant(&name, &Owner::new()),
            _ => locks.semaphore(&name, 5).permits(2),
        };
        let lease = lock.wait_for_replicas(1, PATIENCE).acquire().await?;
        assert!(is_there(&replica, &name)?, "round {round}");
        assert!(lease.verify().await?);
        lease.release().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_hand_over_waits_for_replicas_too_inside_a_client_and_between_clients() -> Tested {
    let (primary, replica) = (Server::start()?, Server::start()?);
    follow(&replica, &primary)?;
    let (locks, others) = (client(&primary).await?, client(&primary).await?);
    let sure = |locks: &leasehold::LockManager| locks.mutex("door").wait_for_replicas(1, PATIENCE);
    let lease = locks.mutex("door").acquire().await?;
    let (here, there) = (begin(sure(&locks)), begin(sure(&others)));
    until("the other client waits", async || waiters(&primary, "door").is_ok_and(|count| count == 1)).await;
    lease.release().await?;
    let lease = soon("the lock", here).await??;
    lease.release().await?;
    soon("the lock", there).await??.release().await?;
    // No replica is left, so neither client gets it.
    replica.cli(&["REPLICAOF", "NO", "ONE"])?;
    let lease = locks.mutex("door").acquire().await?;
    let hasty = |locks: &leasehold::LockManager| locks.mutex("door").wait_for_replicas(1, MOMENT);
    let (here, there) = (begin(hasty(&locks)), begin(hasty(&others)));
    lease.release().await?;
    for waiting in [here, there] {
        assert_eq!(soon("an end", waiting).await?.unwrap_err().code(), "not-replicated");
    }
    assert!(locks.mutex("door").try_acquire().await?.is_some());
    Ok(())
}

#[tokio::test]
async fn too_few_replicas_give_the_lease_back_and_say_how_many_there_were() -> Tested {
    let (primary, replica) = (Server::start()?, Server::start()?);
    let locks = client(&primary).await?;
    let refused = async |min: u32, confirmed_by: u32, within: Duration| {
        until("so many replicas confirm it", async || {
            let start = Instant::now();
            let error = locks.mutex("door").wait_for_replicas(min, within).acquire().await.unwrap_err();
            assert!(error.is_retryable() && error.code() == "not-replicated", "{error:?}");
            let Error::NotReplicated { name, confirmed, wanted, .. } = &error else { panic!("{error:?}") };
            assert_eq!((name.as_str(), *wanted), ("door", min));
            assert!(start.elapsed() >= within, "{:?}", start.elapsed());
            // On a slow machine, a replica may not answer within this time.
            assert!(*confirmed <= confirmed_by, "{error:?}");
            *confirmed == confirmed_by
        })
        .await;
        let free = locks.mutex("door").try_acquire().await;
        assert!(free.is_ok_and(|lease| lease.is_some()), "it was given back");
    };
    refused(1, 0, MOMENT).await;
    follow(&replica, &primary)?;
    refused(2, 1, MOMENT * 2).await;
    replica.pause()?;
    refused(1, 0, MOMENT).await;
    replica.resume()?;
    let lock = locks.mutex("door").wait_for_replicas(1, PATIENCE);
    soon("the lock", lock.acquire()).await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn waiting_for_replicas_delays_no_other_lock_of_the_client() -> Tested {
    let primary = Server::start()?;
    let locks = client(&primary).await?;
    let slow = begin(locks.mutex("slow").wait_for_replicas(1, PATIENCE));
    until("it waits for replicas", async || is_there(&primary, "slow").is_ok_and(|there| there)).await;
    let others = async {
        for _ in 0..10 {
            locks.mutex("quick").acquire().await?.release().await?;
        }
        Tested::Ok(())
    };
    tokio::time::timeout(PATIENCE / 2, others).await??;
    assert!(!slow.is_finished());
    slow.abort();
    Ok(())
}

#[tokio::test]
async fn whoever_gives_up_while_replicas_are_waited_for_leaves_nothing_behind() -> Tested {
    let primary = Server::start()?;
    let locks = client(&primary).await?;
    let lock = locks.mutex("door").wait_for_replicas(1, PATIENCE);
    let given_up = tokio::time::timeout(MOMENT, lock.acquire()).await;
    assert!(given_up.is_err());
    until("it is free", async || is_there(&primary, "door").is_ok_and(|there| !there)).await;
    Ok(())
}

#[tokio::test]
async fn what_can_not_be_waited_for_is_refused_at_once() -> Tested {
    let primary = Server::start()?;
    let locks = client(&primary).await?;
    for (min, timeout) in [(0, MOMENT), (1, Duration::ZERO), (1, Duration::from_secs(61))] {
        let error = locks.mutex("door").wait_for_replicas(min, timeout).acquire().await.unwrap_err();
        assert!(matches!(error, Error::InvalidOption { field: "wait_for_replicas", .. }), "{error:?}");
    }
    let connection = redis_client(&primary)?.get_multiplexed_async_connection().await?;
    let error = options()
        .from_connection(redis_1::connection(connection))
        .await?
        .mutex("door")
        .wait_for_replicas(1, MOMENT)
        .acquire()
        .await;
    assert_eq!(error.unwrap_err().code(), "unsupported");
    assert!(!is_there(&primary, "door")?);
    Ok(())
}

fn redis_client(server: &Server) -> redis_1::redis::RedisResult<redis_1::redis::Client> {
    redis_1::redis::Client::open(server.url())
}

#[tokio::test]
async fn a_lease_that_is_taken_away_or_closed_while_replicas_are_waited_for_is_told_at_once() -> Tested {
    let (primary, replica) = (Server::start()?, Server::start()?);
    follow(&replica, &primary)?;
    let locks = client(&primary).await?;
    replica.pause()?;
    // The longest possible timeout. The caller is notified in less than half of it.
    let door = locks.mutex("door").ttl(MOMENT).renew(false).wait_for_replicas(1, PATIENCE);
    let answer = tokio::time::timeout(PATIENCE / 2, door.acquire()).await?;
    assert!(matches!(answer, Err(Error::Lost { reason: LossReason::Expired, .. })), "{answer:?}");

    let waiting = begin(door.ttl(LONG));
    until("it is held", async || is_there(&primary, "door").is_ok_and(|there| there)).await;
    tokio::time::timeout(PATIENCE / 2, locks.close()).await?;
    let answer = soon("the close", waiting).await?;
    assert!(matches!(answer, Err(Error::Closed)), "{answer:?}");
    assert!(!is_there(&primary, "door")?, "close gave it back");
    Ok(())
}

#[tokio::test]
async fn a_quorum_has_no_replicas_to_wait_for() -> Tested {
    let servers = [Server::start()?, Server::start()?, Server::start()?];
    let locks = LockManager::quorum(servers.iter().map(Server::url)).await?;
    let refused = locks.mutex("door").wait_for_replicas(1, MOMENT).acquire().await.unwrap_err();
    assert!(refused.code() == "unsupported" && refused.to_string().contains("quorum"), "{refused}");
    Ok(())
}
