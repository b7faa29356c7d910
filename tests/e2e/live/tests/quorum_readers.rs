//! Readers and writers on three real servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::{Error, Lock, LockManager, LossReason, Mode, ReleaseOutcome};
use leasehold_live::{
    LONG, Tested, begin, busy, hasty_quorum, is_busy, is_there, options, side, soon, text, until, waiters,
};
use leasehold_servers::Server;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const NAME: &str = "catalogue";

fn three() -> Result<Vec<Server>, leasehold_servers::Error> {
    (0..3).map(|_| Server::start()).collect()
}

async fn connect(servers: &[Server]) -> Result<LockManager, Error> {
    options().quorum(servers.iter().map(Server::url)).await
}

fn reader(locks: &LockManager) -> Lock {
    locks.read_write(NAME).read()
}

fn writer(locks: &LockManager) -> Lock {
    locks.read_write(NAME).write()
}

/// Whether no server has anything of the lock.
fn is_free(servers: &[Server]) -> bool {
    let nothing = |server: &Server, key: &str| is_there(server, key).is_ok_and(|there| !there);
    servers.iter().all(|server| {
        nothing(server, NAME)
            && nothing(server, &side(NAME, "readers"))
            && waiters(server, NAME).is_ok_and(|count| count == 0)
    })
}

#[tokio::test]
async fn readers_of_several_clients_hold_it_together_and_exclude_a_writer() -> Tested {
    let servers = three()?;
    let (locks, other, third) = (connect(&servers).await?, connect(&servers).await?, connect(&servers).await?);
    let before = writer(&locks).acquire().await?;
    assert!(reader(&other).try_acquire().await?.is_none());
    let fence = before.fence();
    before.release().await?;
    let first = reader(&locks).acquire().await?;
    let second = reader(&other).acquire().await?;
    let last = reader(&other).acquire().await?;
    for lease in [&first, &second, &last] {
        assert_eq!(lease.mode(), Mode::Shared);
        assert!(lease.fence() > fence && lease.verify().await?);
    }
    assert_eq!(busy(writer(&locks), Duration::from_secs(1)).await.code(), "busy");
    let holders = locks.inspect(NAME).await?.holders;
    assert_eq!(holders.len(), 2, "each client is listed once: {holders:?}");
    assert!(holders.iter().all(|holder| holder.mode == Mode::Shared));
    for lease in [&first, &second, &last] {
        lease.extend(LONG * 2).await?;
        assert!(lease.remaining() > LONG && lease.verify().await?);
    }

    let waiting = begin(writer(&locks));
    until("the writer waits", async || waiters(&servers[0], NAME).is_ok_and(|count| count == 1)).await;
    assert!(reader(&third).try_acquire().await?.is_none(), "a reader does not pass a writer that waits");
    let greatest = [&first, &second, &last].map(leasehold::Lease::fence).into_iter().max();
    for lease in [first, second, last] {
        assert_eq!(lease.release().await?, ReleaseOutcome::Released);
    }
    let lease = soon("the writer", waiting).await??;
    assert!(Some(lease.fence()) > greatest);
    assert!(reader(&other).try_acquire().await?.is_none());
    lease.release().await?;
    until("all is given back", async || is_free(&servers)).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_readers_of_one_client_are_inside_at_the_same_time() -> Tested {
    let servers = three()?;
    let locks = connect(&servers).await?;
    let (inside, mut readers) = (Arc::new(Barrier::new(50)), JoinSet::new());
    for _ in 0..50 {
        let (lock, inside) = (reader(&locks), Arc::clone(&inside));
        readers.spawn(async move {
            let lease = lock.acquire().await?;
            inside.wait().await;
            lease.release().await
        });
    }
    let done = async {
        while let Some(ended) = readers.join_next().await {
            assert_eq!(ended??, ReleaseOutcome::Released);
        }
        Tested::Ok(())
    };
    soon("all of them", done).await?;
    until("all is given back", async || is_free(&servers)).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_follow_each_other_without_a_gap_do_not_keep_a_writer_out() -> Tested {
    let servers = three()?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut readers = JoinSet::new();
    for place in 0..6 {
        let (locks, stop) = (connect(&servers).await?, Arc::clone(&stop));
        readers.spawn(async move {
            // They begin at different times, so there is always one that reads.
            tokio::time::sleep(Duration::from_millis(place * 7)).await;
            loop {
                let lease = reader(&locks).acquire().await?;
                tokio::time::sleep(Duration::from_millis(40)).await;
                lease.release().await?;
                if stop.load(Ordering::Relaxed) {
                    return Ok::<_, Error>(());
                }
            }
        });
    }
    let locks = connect(&servers).await?;
    for _ in 0..10 {
        soon("a writer's turn", writer(&locks).acquire()).await?.release().await?;
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = soon("every reader has its turn", readers.join_next()).await {
        ended??;
    }
    Ok(())
}

#[tokio::test]
async fn readers_and_writers_do_without_the_first_server() -> Tested {
    let mut servers = three()?;
    servers[0].stop();
    let connect = async || hasty_quorum(|| servers.iter().map(Server::url)).await;
    let (locks, other) = (connect().await, connect().await);
    let (first, second) = (reader(&locks).acquire().await?, reader(&other).acquire().await?);
    is_busy(&writer(&other)).await;
    let waiting = begin(writer(&other));
    let greatest = first.fence().max(second.fence());
    drop((first, second));
    let lease = soon("the writer", waiting).await??;
    assert!(lease.fence() > greatest);
    is_busy(&reader(&locks)).await;
    let waiting = begin(reader(&locks));
    drop(lease);
    drop(soon("the reader", waiting).await??);
    until("all is given back", async || is_free(&servers[1..])).await;
    Ok(())
}

#[tokio::test]
async fn a_first_server_that_stops_answering_does_not_stop_the_readers() -> Tested {
    let servers = three()?;
    let locks = hasty_quorum(|| servers.iter().map(Server::url)).await;
    reader(&locks).acquire().await?.release().await?;
    servers[0].pause()?;
    let lease = soon("a reader", reader(&locks).acquire()).await;
    let held = lease.is_ok();
    servers[0].resume()?;
    assert!(held, "{lease:?}");
    lease?.release().await?;
    until("all is given back", async || is_free(&servers)).await;
    Ok(())
}

#[tokio::test]
async fn a_reader_that_a_majority_forgets_is_told() -> Tested {
    let servers = three()?;
    let locks = connect(&servers).await?;
    let lease = reader(&locks).acquire().await?;
    let lost = lease.lost();
    for server in &servers {
        until("all have it", async || is_there(server, NAME).is_ok_and(|there| there)).await;
    }
    locks.inspect(NAME).await?;
    let forget = |server| text(server, &["SET", NAME, "somebody-else", "PX", "60000"]);
    forget(&servers[0])?;
    assert!(lease.verify().await?, "two servers still have it");
    forget(&servers[1])?;
    forget(&servers[2])?;
    assert!(!lease.verify().await?);
    assert_eq!(soon("the loss", lost).await, LossReason::Taken);
    assert!(!lease.is_held());
    Ok(())
}

#[tokio::test]
async fn an_operator_takes_it_from_all_readers() -> Tested {
    let servers = three()?;
    let (locks, other) = (connect(&servers).await?, connect(&servers).await?);
    let leases = [reader(&locks).acquire().await?, reader(&other).acquire().await?];
    for server in &servers {
        until("all have it", async || is_there(server, NAME).is_ok_and(|there| there)).await;
    }
    let losses = leases.each_ref().map(leasehold::Lease::lost);
    assert_eq!(locks.force_release(NAME).await?, 2);
    for lease in &leases {
        assert!(!lease.verify().await?);
    }
    for lost in losses {
        assert!(matches!(soon("the loss", lost).await, LossReason::Revoked | LossReason::Gone));
    }
    writer(&other).try_acquire().await?.ok_or("it is free")?.release().await?;
    Ok(())
}

#[tokio::test]
async fn what_a_quorum_can_not_do_with_a_reader_is_refused_at_once() -> Tested {
    let servers = three()?;
    let locks = connect(&servers).await?;
    let lease = reader(&locks).acquire().await?;
    let error = lease.upgrade().await.err().ok_or("upgraded")?;
    assert_eq!(error.code(), "unsupported");
    assert!(error.to_string().contains("converted"), "{error}");
    assert!(lease.is_held());
    let error = locks.semaphore("permits", 3).acquire().await.err().ok_or("granted")?;
    assert!(error.code() == "unsupported" && error.to_string().contains("no semaphores"), "{error}");
    Ok(())
}
