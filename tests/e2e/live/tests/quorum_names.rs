//! Several names as one lease, on three real servers.

use std::time::Duration;

use leasehold::{Error, LockManager, LossReason, ReleaseOutcome, Wait};
use leasehold_live::{
    LONG, PATIENCE, Tested, all_have, begin, busy, is_there, options, soon, text, until, until_blocking, waiters,
};
use leasehold_servers::Server;
use tokio::task::JoinSet;

/// In one slot of a cluster. Then one server would take both with one script.
const NAMES: [&str; 2] = ["{account}:1", "{account}:2"];

fn three() -> Result<Vec<Server>, leasehold_servers::Error> {
    (0..3).map(|_| Server::start()).collect()
}

async fn connect(servers: &[Server]) -> Result<LockManager, Error> {
    options().quorum(servers.iter().map(Server::url)).await
}

/// Whether no server has anything of these names.
fn is_free(servers: &[Server]) -> bool {
    servers.iter().all(|server| {
        NAMES.iter().all(|name| {
            is_there(server, name).is_ok_and(|there| !there) && waiters(server, name).is_ok_and(|count| count == 0)
        })
    })
}

#[tokio::test]
async fn a_majority_has_all_names_although_one_server_is_down() -> Tested {
    let mut servers = three()?;
    servers[0].stop();
    let (locks, other) = (connect(&servers).await?, connect(&servers).await?);
    let lease = locks.multi(NAMES).acquire().await?;
    assert!(lease.fences().map(|(name, _)| name).eq(NAMES));
    assert_eq!(lease.fences().map(|(_, fence)| fence).max(), Some(lease.fence()));
    for server in &servers[1..] {
        assert!(is_there(server, NAMES[0])? && is_there(server, NAMES[1])?);
    }
    assert!(other.mutex(NAMES[1]).try_acquire().await?.is_none());
    assert!(other.multi(["{account}:0", NAMES[1]]).try_acquire().await?.is_none());
    until("a try that fails keeps nothing", async || is_there(&servers[1], "{account}:0").is_ok_and(|there| !there))
        .await;
    lease.extend(LONG * 2).await?;
    assert!(lease.remaining() > LONG && lease.verify().await?);
    let before = lease.fences().find(|(name, _)| *name == NAMES[1]).ok_or("it is one of the names")?.1;
    assert_eq!(lease.release().await?, ReleaseOutcome::Released);
    let next = other.mutex(NAMES[1]).acquire().await?;
    assert!(next.fence() > before);
    next.release().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_list_the_names_in_opposite_orders_never_deadlock() -> Tested {
    let servers = three()?;
    let clients = [connect(&servers).await?, connect(&servers).await?];
    let mut tasks = JoinSet::new();
    for round in 0..50 {
        let (one, other, last) = (NAMES[round % 2], NAMES[(round + 1) % 2], "account:3");
        let orders = [vec![one, last, other], vec![other, one]];
        for (locks, names) in clients.iter().zip(orders) {
            let lock = locks.multi(names).wait(Wait::Forever);
            tasks.spawn(async move { lock.acquire().await?.release().await });
        }
    }
    let done = async {
        while let Some(ended) = tasks.join_next().await {
            assert_eq!(ended??, ReleaseOutcome::Released);
        }
        Tested::Ok(())
    };
    tokio::time::timeout(LONG, done).await.expect("nobody waits in a circle")?;
    until("all is given back", async || is_free(&servers)).await;
    Ok(())
}

#[tokio::test]
async fn a_lost_name_ends_the_whole_lease_and_frees_the_others() -> Tested {
    let servers = three()?;
    let locks = connect(&servers).await?;
    let lease = locks.multi(NAMES).acquire().await?;
    let lost = lease.lost();
    // The acquire returned as soon as two servers had agreed. The answers to `inspect` come after the third one's.
    until("all have it", async || servers.iter().all(|server| is_there(server, NAMES[1]).is_ok_and(|there| there)))
        .await;
    locks.inspect(NAMES[1]).await?;
    let forget = |server| text(server, &["SET", NAMES[1], "somebody-else", "PX", "60000"]);
    forget(&servers[0])?;
    assert!(lease.verify().await?, "two servers still have it");
    forget(&servers[1])?;
    forget(&servers[2])?;
    assert!(!lease.verify().await?);
    assert_eq!(soon("the loss", lost).await, LossReason::Taken);
    assert!(!lease.is_held());
    for server in &servers {
        until("the other name is free", async || is_there(server, NAMES[0]).is_ok_and(|there| !there)).await;
    }
    assert_eq!(lease.release().await?, ReleaseOutcome::NotOwner);
    Ok(())
}

#[tokio::test]
async fn a_wait_that_ends_or_is_cancelled_leaves_nothing_behind() -> Tested {
    let servers = three()?;
    let (locks, other) = (connect(&servers).await?, connect(&servers).await?);
    let holder = other.mutex(NAMES[1]).acquire().await?;
    all_have(&servers, NAMES[1]).await;
    let lock = locks.multi(NAMES);
    let error = busy(lock.clone(), Duration::from_secs(1)).await;
    assert_eq!(error.code(), "busy");
    let Error::Busy { votes, .. } = error else { return Err(error.into()) };
    assert!(votes.to_string().contains("busy"), "{votes}");
    let first_is_free = || servers.iter().all(|server| is_there(server, NAMES[0]).is_ok_and(|there| !there));
    until("the first name is given back", async || first_is_free()).await;

    let waiting = begin(lock.clone());
    until("it waits", async || waiters(&servers[0], NAMES[1]).is_ok_and(|count| count == 1)).await;
    assert!(!first_is_free(), "the first name in their order is held meanwhile");
    waiting.abort();
    until("it has given back", async || first_is_free()).await;
    until("it has left the queue", async || waiters(&servers[0], NAMES[1]).is_ok_and(|count| count == 0)).await;

    let waiting = begin(lock);
    until("it waits again", async || waiters(&servers[0], NAMES[1]).is_ok_and(|count| count == 1)).await;
    holder.release().await?;
    let lease = soon("both", waiting).await??;
    drop(lease);
    until("a dropped lease is released", async || is_free(&servers)).await;
    Ok(())
}

#[tokio::test]
async fn what_a_quorum_can_not_do_with_several_names_is_refused_at_once() -> Tested {
    let servers = three()?;
    let locks = connect(&servers).await?;
    let error = locks.multi(NAMES).one_script().acquire().await.err().ok_or("granted")?;
    assert_eq!(error.code(), "unsupported");
    assert!(error.to_string().contains("one after the other"), "{error}");
    let lease = locks.multi(NAMES).acquire().await?;
    assert_eq!(lease.downgrade().await.err().map(|error| error.code()), Some("unsupported"));
    assert!(lease.is_held());
    lease.release().await?;
    Ok(())
}

#[test]
fn threads_hold_several_names_too() -> Tested {
    let servers = three()?;
    let builder =
        leasehold::blocking::LockManager::builder().node_timeout(PATIENCE).response_timeout(PATIENCE).ttl(LONG);
    let locks = builder.quorum(servers.iter().map(Server::url))?;
    let lock = locks.multi(NAMES);
    let fences = lock.run(|lease| Ok::<_, Error>(lease.fences().count()))?;
    assert_eq!(fences, 2);
    until_blocking("all is given back", || is_free(&servers));
    locks.close()?;
    Ok(())
}
