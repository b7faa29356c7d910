//! Other processes die or are paused.

use std::time::Duration;

use leasehold::Wait;
use leasehold_live::{
    ASKING, LONG, Tested, Worker, begin, client, is_there, options, queued, shared_server, soon, unique, until,
    waiters, write_guarded,
};
use leasehold_servers::{Error, Server};

const TTL: Duration = Duration::from_millis(1_500);
const WINDOW: Duration = Duration::from_millis(600);

fn worker(server: &Server, name: &str, ttl: Duration) -> Result<Worker, Error> {
    Worker::start(env!("CARGO_BIN_EXE_live-worker"), server, ["write", name], [ttl, WINDOW])
}

fn reader(server: &Server, name: &str, ttl: Duration) -> Result<Worker, Error> {
    Worker::start(env!("CARGO_BIN_EXE_live-worker"), server, ["read", name], [ttl, WINDOW])
}

#[tokio::test]
async fn a_killed_holder_frees_the_lock_after_its_ttl() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let locks = client(server).await?;
    let mut holder = worker(server, &name, TTL)?;
    let held = holder.report().await;
    let waiting = begin(locks.mutex(&name));
    holder.process().kill();
    let lease = soon("the lock of the dead", waiting).await??;
    let fence: u64 = held.strip_prefix("held ").ok_or(held.clone())?.parse()?;
    assert!(lease.fence().get() > fence);
    Ok(())
}

#[tokio::test]
async fn a_killed_reader_lets_a_writer_in_after_its_ttl() -> Tested {
    let (server, name) = (shared_server(), unique("page"));
    let (readers, writer) = (client(server).await?, client(server).await?);
    let here = readers.read_write(&name).read().acquire().await?;
    let mut gone = reader(server, &name, TTL)?;
    assert!(gone.report().await.starts_with("held "));
    gone.process().kill();
    let waiting = begin(writer.read_write(&name).write());
    here.release().await?;
    soon("the lock of the dead", waiting).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_killed_waiter_delays_the_next_by_its_claim_window_at_most() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let first = client(server).await?;
    let last = options().claim_window(ASKING).connect(&server.url()).await?;
    let lease = first.mutex(&name).acquire().await?;
    let mut dead = worker(server, &name, LONG)?;
    until("it waits", async || waiters(server, &name).is_ok_and(|count| count == 1)).await;
    let waiting = queued(server, last.mutex(&name)).await;
    dead.process().kill();
    // The dead waiter is granted, because its last heartbeat is still valid.
    lease.release().await?;
    soon("the lock that the dead did not claim, long before its TTL", waiting).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_dead_waiter_is_dropped_from_the_queue_while_the_lock_is_held() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let first = client(server).await?;
    let last = options().claim_window(ASKING).connect(&server.url()).await?;
    let lease = first.mutex(&name).acquire().await?;
    let mut dead = worker(server, &name, LONG)?;
    until("it waits", async || waiters(server, &name).is_ok_and(|count| count == 1)).await;
    let waiting = queued(server, last.mutex(&name)).await;
    dead.process().kill();
    until("only the living waits", async || waiters(server, &name).is_ok_and(|count| count == 1)).await;
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_holder_paused_past_its_ttl_is_told_of_the_loss_and_its_stale_write_is_refused() -> Tested {
    let (server, name, account) = (shared_server(), unique("door"), unique("account"));
    let locks = client(server).await?;
    let mut paused = worker(server, &name, TTL)?;
    assert!(paused.report().await.starts_with("held "));
    paused.order(&format!("write {account} early"))?;
    // On a slow machine, the worker may lose its lease before it is paused.
    let mut reports = vec![paused.report().await];
    while !reports.contains(&"written".to_owned()) {
        reports.push(paused.report().await);
    }

    paused.process().pause()?;
    let lease = soon("the lock of the paused", locks.mutex(&name).acquire()).await?;
    assert!(write_guarded(&mut server.connect()?, &account, lease.fence().get(), "fresh")?);
    // It finds the order when it resumes, and obeys without checking its lease.
    paused.order(&format!("write {account} stale"))?;
    paused.process().resume()?;
    while reports.len() < 3 {
        reports.push(paused.report().await);
    }
    assert!(reports.contains(&"lost expired".to_owned()), "{reports:?}");
    assert!(reports.contains(&"refused".to_owned()), "{reports:?}");
    assert_eq!(server.cli(&["HGET", &account, "value"])?.text(), Some("fresh"));

    paused.order("release")?;
    assert_eq!(paused.report().await, "AlreadyExpired");
    assert!(lease.verify().await?, "it took nothing back");
    Ok(())
}

#[tokio::test]
async fn a_waiter_that_was_paused_for_long_still_gets_the_lock() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let locks = client(server).await?;
    let lease = locks.mutex(&name).acquire().await?;
    let mut paused = worker(server, &name, LONG)?;
    until("it waits", async || waiters(server, &name).is_ok_and(|count| count == 1)).await;
    paused.process().pause()?;
    // It is dropped from the queue, and other clients take the lock.
    lease.release().await?;
    soon("the lock", locks.mutex(&name).wait(Wait::Forever).acquire()).await?.release().await?;
    until("its claim is over", async || is_there(server, &name).is_ok_and(|there| !there)).await;
    paused.process().resume()?;
    assert!(paused.report().await.starts_with("held "));
    paused.order("release")?;
    assert_eq!(paused.report().await, "Released");
    Ok(())
}
