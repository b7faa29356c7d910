//! Locks over five real servers. Some are dead, slow, restarted empty, or out of reach for a while. A holder dies.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use leasehold::{Error, LockManager, LossReason, ReleaseOutcome};
use leasehold_live::{
    LONG, PATIENCE, RENEWED, Tested, all_have, begin, hasty_quorum, is_there, options, queued, soon, until,
};
use leasehold_servers::{Fate, Proxy, Reply, Server};

const NAME: &str = "invoice:42";
/// The TTL of a lease whose end a test awaits.
const TTL: Duration = Duration::from_secs(2);

fn five() -> Result<Vec<Server>, leasehold_servers::Error> {
    (0..5).map(|_| Server::start()).collect()
}

async fn connect(servers: &[Server]) -> Result<LockManager, Error> {
    options().quorum(servers.iter().map(Server::url)).await
}

#[tokio::test]
async fn two_clients_exclude_each_other_and_fences_rise() -> Tested {
    let servers = five()?;
    let (one, two) = (connect(&servers).await?, connect(&servers).await?);
    let first = one.mutex(NAME).acquire().await?;
    all_have(&servers, NAME).await;
    assert!(two.mutex(NAME).try_acquire().await?.is_none());
    let waiting = queued(&servers[0], two.mutex(NAME)).await;
    assert!(!waiting.is_finished() && first.verify().await?);
    let fence = first.fence();
    assert_eq!(first.release().await?, ReleaseOutcome::Released);
    let second = soon("the lock", waiting).await??;
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
    all_have(&servers, NAME).await;
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
        assert_eq!(soon("the next", order.recv()).await, Some(client));
    }
    Ok(())
}

#[tokio::test]
async fn servers_behind_proxies_that_close_the_connection_at_info_grant_it_too() -> Tested {
    let [a, b, c] = [Server::start()?, Server::start()?, Server::start()?];
    let start = |server| Proxy::start(server, Fate::as_of_twemproxy);
    let proxies = [start(a)?, start(b)?, start(c)?];
    let locks = options().quorum(proxies.iter().map(Proxy::url)).await?;
    let lease = locks.mutex(NAME).acquire().await?;
    for proxy in &proxies {
        until("all three have it", async || is_there(proxy.server(), NAME).unwrap_or(false)).await;
    }
    assert_eq!(lease.release().await?, ReleaseOutcome::Released);
    // Each is asked a few times, and not again with the next connection.
    let asked = || proxies.iter().map(|proxy| proxy.asked("INFO")).collect::<Vec<_>>();
    let at_first = asked();
    assert!(at_first.iter().all(|times| (1..=3).contains(times)), "{at_first:?}");
    proxies[1].cut();
    proxies[2].cut();
    let lease = locks.mutex(NAME).acquire().await?;
    until("they are reached again", async || is_there(proxies[1].server(), NAME).unwrap_or(false)).await;
    lease.release().await?;
    assert_eq!(asked(), at_first);
    Ok(())
}

#[tokio::test]
async fn a_server_that_restarts_behind_a_balancer_is_checked_later() -> Tested {
    static CLOSED: AtomicU32 = AtomicU32::new(0);
    let restarts = Proxy::start(Server::start()?, |_| match CLOSED.fetch_add(1, Ordering::Relaxed) {
        0..3 => Fate::Closes,
        _ => Fate::Passes,
    })?;
    let servers = [Server::start()?, Server::start()?];
    let locks = options().quorum([servers[0].url(), servers[1].url(), restarts.url()]).await?;
    let reached = async || {
        let lease = locks.mutex(NAME).acquire().await?;
        until("it is reached", async || is_there(restarts.server(), NAME).unwrap_or(false)).await;
        lease.release().await
    };
    reached().await?;
    let asked = restarts.asked("INFO");
    restarts.cut();
    reached().await?;
    assert!(restarts.asked("INFO") > asked, "it answers INFO, so it is asked again with each connection");
    Ok(())
}

#[tokio::test]
async fn a_dead_minority_is_done_without_at_the_start_and_later() -> Tested {
    let mut servers = five()?;
    servers[0].stop();
    let locks = connect(&servers).await?;
    let lease = locks.mutex(NAME).acquire().await?;
    servers[1].stop();
    lease.extend(LONG * 2).await?;
    assert!(lease.remaining() > LONG && lease.verify().await?, "extended by the other three");
    assert_eq!(lease.release().await?, ReleaseOutcome::Released);
    locks.mutex(NAME).acquire().await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_dead_majority_loses_the_lease_in_time_and_is_unreachable_with_each_cause() -> Tested {
    let mut servers = five()?;
    let locks = connect(&servers).await?;
    let lease = locks.mutex(NAME).ttl(TTL).acquire().await?;
    for server in &mut servers[..3] {
        server.stop();
    }
    assert_eq!(soon("the loss", lease.lost()).await, LossReason::Expired);
    let address = servers[0].address().to_string();
    // On a slow machine, the wait may end before all causes are known.
    until("each cause is told", async || {
        let error = locks.mutex(NAME).wait(Duration::from_secs(1)).acquire().await.expect_err("three are down");
        assert_eq!(error.code(), "unreachable");
        let text = error.to_string();
        text.contains("3 of 5 ") && text.contains(&address)
    })
    .await;
    drop(lease);
    let error = connect(&servers).await.err().ok_or("connected")?;
    assert_eq!(error.code(), "unreachable");
    for server in &mut servers[..3] {
        server.restart()?;
    }
    soon("the lock", locks.mutex(NAME).acquire()).await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn one_slow_server_slows_nobody_down() -> Tested {
    let servers = five()?;
    let locks = connect(&servers).await?;
    locks.mutex(NAME).acquire().await?.release().await?;
    servers[2].pause()?;
    // A client that waited for the slow server would wait for a node timeout.
    let taken = async { locks.mutex(NAME).acquire().await?.release().await };
    tokio::time::timeout(PATIENCE / 2, taken).await??;
    servers[2].resume()?;
    until("the slow server's part", async || servers[2].cli(&["GET", NAME]).is_ok_and(|reply| reply == Reply::Nil))
        .await;
    Ok(())
}

#[tokio::test]
async fn a_minority_that_restarts_empty_changes_nothing_and_is_won_again() -> Tested {
    let mut servers = five()?;
    let (locks, other) = (connect(&servers).await?, connect(&servers).await?);
    let lease = locks.mutex(NAME).ttl(RENEWED).acquire().await?;
    for server in &mut servers[..2] {
        server.restart()?;
    }
    assert!(other.mutex(NAME).try_acquire().await?.is_none());
    // The second client releases what it had on the empty servers.
    assert_eq!(other.close().await.unreleased, 0);
    for server in &servers[..2] {
        until("a renewal wins it again", async || server.cli(&["GET", NAME]).is_ok_and(|reply| reply != Reply::Nil))
            .await;
    }
    // Without two of the other servers, the restarted ones are needed for a majority.
    for server in &mut servers[2..4] {
        server.stop();
    }
    // The key is on the server a moment before the client has the answer.
    until("a majority confirms it", async || lease.verify().await.is_ok_and(|held| held)).await;
    assert!(lease.is_held());
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
    let waiting = begin(locks.mutex(NAME));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    for server in &servers[..3] {
        server.resume()?;
    }
    let lease = soon("the lock", waiting).await??;
    assert_eq!(lease.release().await?, ReleaseOutcome::Released);
    Ok(())
}

#[test]
fn a_holder_that_dies_is_followed_after_its_ttl() -> Tested {
    let servers = five()?;
    let (dying, begun) = (tokio::runtime::Runtime::new()?, Instant::now());
    let lease = dying.block_on(async {
        let locks = connect(&servers).await?;
        locks.mutex(NAME).ttl(TTL).acquire().await
    })?;
    // Nothing of it runs any more, not even its release.
    dying.shutdown_background();
    std::mem::forget(lease);
    tokio::runtime::Runtime::new()?.block_on(async {
        let locks = connect(&servers).await?;
        let next = soon("the lock", locks.mutex(NAME).acquire()).await?;
        assert!(begun.elapsed() > TTL / 2, "after {:?}", begun.elapsed());
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
    let locks = hasty_quorum(|| urls.clone()).await;
    servers[3].restart()?;
    locks.mutex(NAME).acquire().await?.release().await?;
    servers[0].stop();
    // Three of five: two others, and this one once.
    until("it has a vote", async || matches!(locks.mutex(NAME).try_acquire().await, Ok(Some(_)))).await;
    servers[1].stop();
    for _ in 0..3 {
        until("both others agree", async || {
            let answer = locks.mutex(NAME).try_acquire().await;
            let Err(Error::Unreachable { votes, .. }) = answer else { panic!("{answer:?}") };
            votes.to_string().contains("2 agreed")
        })
        .await;
    }
    Ok(())
}
