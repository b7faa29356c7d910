//! Several names as one lease.

use std::time::Duration;

use leasehold::{Error, LockManager, LossReason, ReleaseOutcome, Wait};
use leasehold_live::{LONG, Tested, Worker, client, is_there, shared_server, soon, text, unique, until, waiters};
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_pairs_in_opposite_orders_never_deadlock() -> Tested {
    let (server, base) = (shared_server(), unique("account"));
    let clients = [client(server).await?, client(server).await?];
    let mut tasks = JoinSet::new();
    for pair in 0..1_000 {
        // Three names in at least two slots: one script takes some pairs, and others are taken one after the other.
        let names = [format!("{{{base}}}:1"), format!("{{{base}}}:2"), format!("{base}:3")];
        let (one, other) = (names[pair % 3].clone(), names[(pair + 1 + pair / 3 % 2) % 3].clone());
        for (locks, names) in clients.iter().zip([[one.clone(), other.clone()], [other, one]]) {
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
    tokio::time::timeout(LONG, done).await.expect("nobody waits in a circle")
}

#[tokio::test]
async fn names_of_one_slot_are_taken_at_once_and_given_back_as_one() -> Tested {
    let (server, tag) = (shared_server(), unique("order"));
    let (locks, other) = (client(server).await?, client(server).await?);
    let names = [format!("{{{tag}}}:stock"), format!("{{{tag}}}:invoice")];
    let lease = locks.multi(&names).one_script().acquire().await?;
    assert!(lease.fences().map(|(name, _)| name.to_owned()).eq(names.clone()));
    assert_eq!(Some(lease.fence()), lease.fences().map(|(_, fence)| fence).max(), "its fence is the greatest of them");
    assert!(is_there(server, &names[0])? && is_there(server, &names[1])?);
    assert!(other.mutex(&names[1]).try_acquire().await?.is_none());
    assert!(other.multi([&names[1], "elsewhere"]).try_acquire().await?.is_none());
    until("who does not get all keeps none", async || is_there(server, "elsewhere").is_ok_and(|there| !there)).await;
    let nested = lease.nested()?;
    lease.extend(LONG * 2).await?;
    assert!(lease.verify().await? && lease.remaining() > LONG);
    assert_eq!(lease.release().await?, ReleaseOutcome::StillHeld);
    let before = nested.fences().find(|(name, _)| *name == names[1]).expect("it is one of the names").1;
    assert_eq!(nested.release().await?, ReleaseOutcome::Released);
    assert!(!is_there(server, &names[0])? && !is_there(server, &names[1])?);
    assert!(other.mutex(&names[1]).acquire().await?.fence() > before);
    Ok(())
}

#[tokio::test]
async fn who_waits_for_one_name_is_granted_by_its_queue_and_holds_no_other_meanwhile() -> Tested {
    let (server, base) = (shared_server(), unique("shelf"));
    let (locks, other) = (client(server).await?, client(server).await?);
    let [a, b] = [format!("{base}:a"), format!("{base}:b")];
    let holder = other.mutex(&b).acquire().await?;
    let lock = locks.multi([&b, &a]);
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    until("it waits", async || waiters(server, &b).is_ok_and(|count| count == 1)).await;
    assert!(!is_there(server, &a)?);
    waiting.abort();
    until("it has left", async || waiters(server, &b).is_ok_and(|count| count == 0)).await;
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until("it waits again", async || waiters(server, &b).is_ok_and(|count| count == 1)).await;
    holder.release().await?;
    let lease = soon("both", waiting).await??;
    assert!(lease.is_held());
    lease.release().await?;
    Ok(())
}

#[tokio::test]
async fn waiters_of_a_full_tenant_take_nothing_from_another_one() -> Tested {
    let (server, base) = (shared_server(), unique("limits"));
    let (locks, other) = (client(server).await?, client(server).await?);
    let limits = |locks: &LockManager, tenant: &str| {
        let (tenant, all) = (format!("{base}:{tenant}"), format!("{base}:all"));
        locks.multi([locks.semaphore(tenant, 2).permits(1), locks.semaphore(all, 25).permits(1)]).wait(Wait::Forever)
    };
    let running = [limits(&locks, "tenant-a").acquire().await?, limits(&other, "tenant-a").acquire().await?];
    let mut waiting = JoinSet::new();
    for number in 0..100 {
        waiting.spawn(limits(if number % 2 == 0 { &locks } else { &other }, "tenant-a").acquire());
    }
    until("both wait", async || waiters(server, &format!("{base}:tenant-a")).is_ok_and(|count| count >= 2)).await;
    let tried = limits(&locks, "tenant-b").try_acquire().await?.ok_or("tenant b has no permit")?;
    let rest = other.semaphore(format!("{base}:all"), 25).permits(22);
    rest.try_acquire().await?.ok_or("a waiter holds a permit")?.release().await?;
    tried.release().await?;
    for lease in running {
        lease.release().await?;
    }
    let done = async {
        while let Some(lease) = waiting.join_next().await {
            lease??.release().await?;
        }
        Tested::Ok(())
    };
    soon("all of tenant a", done).await
}

#[tokio::test]
async fn one_lost_name_ends_the_whole() -> Tested {
    let (server, base) = (shared_server(), unique("pair"));
    let locks = client(server).await?;
    let [a, b] = [format!("{base}:a"), format!("{base}:b")];
    let lease = locks.multi([&a, &b]).acquire().await?;
    let lost = lease.lost();
    text(server, &["SET", &b, "somebody-else", "PX", "60000"])?;
    assert!(!lease.verify().await?);
    assert_eq!(soon("the loss", lost).await, LossReason::Taken);
    until("the other name is free", async || is_there(server, &a).is_ok_and(|there| !there)).await;
    assert!(!lease.is_held());
    assert_eq!(lease.release().await?, ReleaseOutcome::NotOwner);
    Ok(())
}

#[tokio::test]
async fn a_crash_gives_all_back_after_the_ttl() -> Tested {
    let (server, base) = (shared_server(), unique("crash"));
    let locks = client(server).await?;
    let ttl = Duration::from_millis(500);
    let mut holder = Worker::start(env!("CARGO_BIN_EXE_live-worker"), server, ["several", &base], [ttl, ttl])?;
    assert_eq!(holder.report().await, "held both");
    holder.process().kill();
    let both = locks.multi([format!("{base}:b"), format!("{base}:a")]);
    soon("both", both.acquire()).await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn what_can_not_be_is_refused_at_once() -> Tested {
    let locks = client(shared_server()).await?;
    let code = async |names: &[&str]| match locks.multi(names).one_script().acquire().await {
        Err(error @ (Error::InvalidOption { .. } | Error::CrossSlot { .. })) => error.to_string(),
        other => panic!("{names:?}: {other:?}"),
    };
    assert!(code(&[]).await.contains("`names`"));
    assert!(code(&["a", "b", "a"]).await.contains("`names`"));
    assert!(code(&["a", "x{y"]).await.contains("`name`"));
    assert!(code(&["a", "b"]).await.contains("hash tag"));
    Ok(())
}
