//! Locks over five real servers. Some are dead, slow, restarted empty, or out of reach for a while. A holder dies.

use std::time::{Duration, Instant};

use leasehold::{Builder, Error, LockManager, LossReason, ReleaseOutcome, Wait};
use leasehold_servers::{Reply, Server};

type Tested = Result<(), Box<dyn std::error::Error>>;

const NAME: &str = "invoice:42";
const TTL: Duration = Duration::from_secs(2);

fn five() -> Result<Vec<Server>, leasehold_servers::Error> {
    (0..5).map(|_| Server::start()).collect()
}

/// A node timeout that a busy machine can keep.
fn patient() -> Builder {
    LockManager::builder().node_timeout(Duration::from_millis(500)).ttl(TTL)
}

async fn connect(servers: &[Server]) -> Result<LockManager, Error> {
    patient().quorum(servers.iter().map(Server::url)).await
}

async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < Duration::from_secs(20), "{what} never comes");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn two_clients_exclude_each_other_and_fences_rise() -> Tested {
    let servers = five()?;
    let (one, two) = (connect(&servers).await?, connect(&servers).await?);
    let first = one.mutex(NAME).acquire().await?;
    assert!(two.mutex(NAME).try_acquire().await?.is_none());
    let waiting = tokio::spawn(async move { two.mutex(NAME).acquire().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished() && first.verify().await?);
    let fence = first.fence();
    assert_eq!(first.release().await?, ReleaseOutcome::Released);
    let second = waiting.await??;
    assert!(second.fence() > fence);
    assert_eq!(one.inspect(NAME).await?.holders.len(), 1);
    assert_eq!(second.release().await?, ReleaseOutcome::Released);
    assert_eq!(one.inspect(NAME).await?.holders.len(), 0);
    Ok(())
}

#[tokio::test]
async fn clients_get_it_in_the_order_in_which_they_came() -> Tested {
    const CLIENTS: usize = 6;
    let servers = five()?;
    let locks = connect(&servers).await?;
    let held = locks.mutex(NAME).acquire().await?;
    let (served, mut order) = tokio::sync::mpsc::unbounded_channel();
    for client in 0..CLIENTS {
        let (waiter, served) = (connect(&servers).await?, served.clone());
        tokio::spawn(async move {
            let lease = waiter.mutex(NAME).acquire().await?;
            let _ = served.send(client);
            lease.release().await
        });
        until("its place in the queue", async || {
            locks.inspect(NAME).await.is_ok_and(|seen| seen.waiters.len() == client + 1)
        })
        .await;
    }
    held.release().await?;
    for client in 0..CLIENTS {
        assert_eq!(order.recv().await, Some(client));
    }
    Ok(())
}

#[tokio::test]
async fn a_dead_minority_is_done_without_at_the_start_and_later() -> Tested {
    let mut servers = five()?;
    servers[0].stop();
    let locks = connect(&servers).await?;
    let lease = locks.mutex(NAME).acquire().await?;
    servers[1].stop();
    tokio::time::sleep(TTL + TTL / 2).await;
    assert!(lease.is_held() && lease.verify().await?, "renewed by the other three");
    assert_eq!(lease.release().await?, ReleaseOutcome::Released);
    locks.mutex(NAME).acquire().await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_dead_majority_loses_the_lease_in_time_and_is_unreachable_with_each_cause() -> Tested {
    let mut servers = five()?;
    let locks = connect(&servers).await?;
    let lease = locks.mutex(NAME).acquire().await?;
    let granted = Instant::now();
    for server in &mut servers[..3] {
        server.stop();
    }
    assert_eq!(lease.lost().await, LossReason::Expired);
    assert!(granted.elapsed() < TTL + Duration::from_secs(1), "after {:?}", granted.elapsed());
    let error = locks.mutex(NAME).wait(Wait::For(Duration::from_secs(3))).acquire().await.err().ok_or("granted")?;
    assert_eq!(error.code(), "unreachable");
    let text = error.to_string();
    assert!(text.contains("3 of 5 ") && text.contains(&servers[0].address().to_string()), "{text}");
    drop(lease);
    let error = connect(&servers).await.err().ok_or("connected")?;
    assert_eq!(error.code(), "unreachable");
    for server in &mut servers[..3] {
        server.restart()?;
    }
    locks.mutex(NAME).wait(Wait::For(Duration::from_secs(20))).acquire().await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn one_slow_server_slows_nobody_down() -> Tested {
    let servers = five()?;
    let locks = connect(&servers).await?;
    locks.mutex(NAME).acquire().await?.release().await?;
    servers[2].cli(&["CLIENT", "PAUSE", "3000"])?;
    let start = Instant::now();
    locks.mutex(NAME).acquire().await?.release().await?;
    assert!(start.elapsed() < Duration::from_secs(2), "took {:?}", start.elapsed());
    until("the slow server's part", async || servers[2].cli(&["GET", NAME]).is_ok_and(|reply| reply == Reply::Nil))
        .await;
    Ok(())
}

#[tokio::test]
async fn one_that_restarts_empty_changes_nothing_and_is_won_again() -> Tested {
    let mut servers = five()?;
    let (locks, other) = (connect(&servers).await?, connect(&servers).await?);
    let lease = locks.mutex(NAME).acquire().await?;
    for server in &mut servers {
        server.restart()?;
        assert!(other.mutex(NAME).try_acquire().await?.is_none());
        let server = &*server;
        until("the lease on the new server", async || {
            server.cli(&["GET", NAME]).is_ok_and(|reply| reply != Reply::Nil)
        })
        .await;
    }
    assert!(lease.is_held() && lease.verify().await?);
    assert_eq!(lease.release().await?, ReleaseOutcome::Released);
    Ok(())
}

#[tokio::test]
async fn a_partition_that_heals_lets_the_waiter_in() -> Tested {
    let servers = five()?;
    let locks = connect(&servers).await?;
    for server in &servers[..3] {
        server.pause()?;
    }
    let waiting = tokio::spawn(async move { locks.mutex(NAME).acquire().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished());
    for server in &servers[..3] {
        server.resume()?;
    }
    let lease = tokio::time::timeout(Duration::from_secs(20), waiting).await???;
    assert_eq!(lease.release().await?, ReleaseOutcome::Released);
    Ok(())
}

#[test]
fn a_holder_that_dies_is_followed_after_its_ttl() -> Tested {
    let servers = five()?;
    let dying = tokio::runtime::Runtime::new()?;
    let lease = dying.block_on(async {
        let locks = connect(&servers).await?;
        locks.mutex(NAME).acquire().await
    })?;
    let granted = Instant::now();
    // Nothing of it runs any more, not even its release.
    dying.shutdown_background();
    std::mem::forget(lease);
    tokio::runtime::Runtime::new()?.block_on(async {
        let locks = connect(&servers).await?;
        let next = locks.mutex(NAME).acquire().await?;
        assert!(granted.elapsed() > TTL / 2 && granted.elapsed() < TTL * 3, "after {:?}", granted.elapsed());
        next.release().await?;
        Ok(())
    })
}

#[tokio::test]
async fn servers_that_are_even_in_number_or_the_same_are_refused() -> Tested {
    let servers = five()?;
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let alias = urls[0].replace("127.0.0.1", "localhost");
    let twice = [urls[0].clone(), urls[1].clone(), urls[0].clone()];
    let aliased = [urls[0].clone(), urls[1].clone(), alias];
    for given in [&urls[..4], &urls[..0], &twice, &aliased] {
        let error = LockManager::quorum(given.iter().cloned()).await.err().ok_or("connected")?;
        assert!(matches!(error, Error::InvalidOption { field: "servers", .. }), "{given:?}: {error}");
    }
    Ok(())
}

#[tokio::test]
async fn one_server_under_two_addresses_has_one_vote_even_if_it_was_away_at_the_start() -> Tested {
    let mut servers: Vec<Server> = five()?.into_iter().take(4).collect();
    let mut urls: Vec<String> = servers.iter().map(Server::url).collect();
    // In another database, no key of the first address is in the way.
    urls.push(format!("{}/1", urls[3].trim_end_matches('/').replace("127.0.0.1", "localhost")));
    servers[3].stop();
    let locks = patient().quorum(urls).await?;
    servers[3].restart()?;
    locks.mutex(NAME).acquire().await?.release().await?;
    servers[0].stop();
    // Three of five: two others, and this one once.
    until("it has a vote", async || matches!(locks.mutex(NAME).try_acquire().await, Ok(Some(_)))).await;
    servers[1].stop();
    for _ in 0..3 {
        let answer = locks.mutex(NAME).try_acquire().await;
        let Err(Error::Unreachable { votes, .. }) = answer else { panic!("{answer:?}") };
        assert!(votes.to_string().contains("2 agreed"), "{votes}");
    }
    Ok(())
}

#[tokio::test]
async fn other_kinds_are_refused_at_once() -> Tested {
    let servers = five()?;
    let locks = connect(&servers).await?;
    let owner = leasehold::Owner::new();
    let semaphore = locks.semaphore(NAME, 2).acquire().await.err();
    let reentrant = locks.reentrant(NAME, &owner).acquire().await.err();
    for error in [semaphore, reentrant] {
        assert_eq!(error.map(|error| error.code()), Some("unsupported"));
    }
    Ok(())
}
