//! Reentrant locks: owners, and other clients that use Redisson's wire format on the same key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use leasehold::{LossReason, Owner, ReleaseOutcome};
use leasehold_live::{
    ASKING, LONG, PATIENCE, Tested, begin, client, options, shared_server, soon, text, unique, until,
};
use leasehold_servers::{Reply, Server};
use tokio::task::JoinSet;

/// A Java thread's id, as it is on the server.
const JAVA: &str = "8743c9c0-0795-4907-87fd-6c719a6b4586:42";

fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

fn listeners(server: &Server, name: &str) -> i64 {
    let reply = server.cli(&["PUBSUB", "NUMSUB", &channel(name)]);
    reply.ok().and_then(|reply| reply.list().get(1)?.integer()).unwrap_or(-1)
}

fn java_locks(server: &Server, name: &str, ttl: &str) -> Tested {
    server.cli(&["HSET", name, JAVA, "1"])?;
    server.cli(&["PEXPIRE", name, ttl])?;
    Ok(())
}

#[tokio::test]
async fn an_owner_takes_its_lock_again_and_gives_it_back_as_often() -> Tested {
    let (server, name) = (shared_server(), unique("account"));
    let (locks, owner) = (client(server).await?, Owner::new());
    let lock = locks.reentrant(&name, &owner);
    let first = lock.acquire().await?;
    let second = lock.acquire().await?;
    let third = lock.try_acquire().await?.expect("the owner's own");
    assert_eq!((first.fence(), first.hold_count()), (third.fence(), 3));
    assert!(locks.reentrant(&name, &Owner::new()).try_acquire().await?.is_none(), "another owner of the same client");
    assert!(client(server).await?.reentrant(&name, &owner).try_acquire().await?.is_none(), "another client");
    assert_eq!(second.release().await?, ReleaseOutcome::StillHeld);
    assert_eq!(first.release().await?, ReleaseOutcome::StillHeld);
    assert!(third.is_held() && third.verify().await?);
    assert_eq!(third.release().await?, ReleaseOutcome::Released);
    assert_eq!(server.cli(&["EXISTS", &name])?.integer(), Some(0));
    Ok(())
}

#[tokio::test]
async fn it_stands_on_the_server_as_redisson_writes_it() -> Tested {
    let (server, name) = (shared_server(), unique("account"));
    let lease = client(server).await?.reentrant(&name, &Owner::new()).acquire().await?;
    let fields = server.cli(&["HGETALL", &name])?;
    let [owner, count] = fields.list() else { panic!("{fields:?}") };
    assert_eq!(count.text(), Some("1"));
    let (uuid, counter) = owner.text().and_then(|owner| owner.split_once(':')).expect("<uuid>:<number>");
    assert!(uuid.len() == 36 && counter.bytes().all(|digit| digit.is_ascii_digit()), "{fields:?}");
    let left = server.cli(&["PTTL", &name])?.integer().unwrap_or(-1);
    let ttl = i64::try_from(LONG.as_millis())?;
    assert!(left > ttl / 2 && left <= ttl, "{left}");
    drop(lease);
    Ok(())
}

#[tokio::test]
async fn a_java_holder_excludes_us_and_its_message_wakes_us() -> Tested {
    let (server, name) = (shared_server(), unique("account"));
    let lock = client(server).await?.reentrant(&name, &Owner::new());
    let woken = async || -> Result<Duration, Box<dyn std::error::Error + Send + Sync>> {
        java_locks(server, &name, "600000")?;
        assert!(lock.try_acquire().await?.is_none());
        let waiting = begin(lock.clone());
        until("it listens", async || listeners(server, &name) == 1).await;
        // After the subscription the client asks once more. By now it has its answer.
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(text(server, &["HGET", &name, JAVA])?.as_deref(), Some("1"), "it is still theirs, untouched");
        let start = Instant::now();
        server.cli(&["DEL", &name])?;
        server.cli(&["PUBLISH", &channel(&name), "0"])?;
        let lease = soon("the lock", waiting).await??;
        let took = start.elapsed();
        until("it listens no more", async || listeners(server, &name) == 0).await;
        lease.release().await?;
        Ok(took)
    };
    // A waiter that gets no message asks by itself only after this time. On a slow machine a message may take as long,
    // so there are three tries.
    let asks = PATIENCE / 3;
    assert!(woken().await? < asks || woken().await? < asks || woken().await? < asks, "no message wakes it");
    Ok(())
}

#[tokio::test]
async fn a_holder_that_never_publishes_or_dies_lets_a_waiter_in() -> Tested {
    let (server, name) = (shared_server(), unique("account"));
    let locks = options().claim_window(ASKING).connect(&server.url()).await?;
    for dies in [false, true] {
        java_locks(server, &name, if dies { "1000" } else { "600000" })?;
        let waiting = begin(locks.reentrant(&name, &Owner::new()));
        if !dies {
            until("it listens", async || listeners(server, &name) == 1).await;
            server.cli(&["DEL", &name])?;
        }
        let lease = soon("the lock", waiting).await??;
        lease.release().await?;
    }
    Ok(())
}

#[tokio::test]
async fn our_release_is_told_to_those_who_listen_and_our_lease_is_extended() -> Tested {
    let (server, name) = (shared_server(), unique("account"));
    let locks = client(server).await?;
    let lease = locks.reentrant(&name, &Owner::new()).acquire().await?;
    let fence = lease.fence();
    lease.extend(LONG * 2).await?;
    assert!(lease.verify().await? && lease.remaining() > LONG);

    let mut java = server.connect()?;
    java.call(&["SUBSCRIBE", &channel(&name)])?;
    lease.release().await?;
    assert_eq!(java.receive()?.list().last().and_then(Reply::text), Some("0"));

    java_locks(server, &name, "60000")?;
    server.cli(&["DEL", &name])?;
    let next = locks.reentrant(&name, &Owner::new()).acquire().await?;
    assert!(next.fence() > fence, "fences rise over our own holders");
    next.release().await?;
    Ok(())
}

#[tokio::test]
async fn what_java_takes_after_our_end_is_left_to_it() -> Tested {
    let (server, name) = (shared_server(), unique("account"));
    let locks = client(server).await?;
    let lease = locks.reentrant(&name, &Owner::new()).acquire().await?;
    server.cli(&["DEL", &name])?;
    java_locks(server, &name, "60000")?;
    assert!(!lease.verify().await?);
    assert_eq!(lease.lost().await, LossReason::Taken);
    assert_eq!(lease.release().await?, ReleaseOutcome::NotOwner);
    assert_eq!(text(server, &["HGET", &name, JAVA])?.as_deref(), Some("1"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_of_several_clients_exclude_each_other_and_all_get_their_turn() -> Tested {
    const ROUNDS: u32 = 25;
    let (server, inside) = (Server::start()?, Arc::new(AtomicU32::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let locks = client(&server).await?;
        for _ in 0..4 {
            let (lock, inside) = (locks.reentrant("account", &Owner::new()), Arc::clone(&inside));
            tasks.spawn(async move {
                for _ in 0..ROUNDS {
                    let lease = lock.acquire().await?;
                    let again = lock.acquire().await?;
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    again.release().await?;
                    lease.release().await?;
                }
                Tested::Ok(())
            });
        }
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    assert_eq!(server.cli(&["EXISTS", "account"])?.integer(), Some(0));
    Ok(())
}
