//! A name that holds another kind of lock, or something else, is reported as such and left as it is.

use leasehold::{Error, Lease, LockManager, Owner};
use leasehold_live::{ASKING, LONG, Tested, begin, client, options, shared_server, soon, unique, until, waiters};

async fn take(locks: &LockManager, kind: &str, name: &str) -> Result<Lease, Error> {
    match kind {
        "mutex" => locks.mutex(name).acquire().await,
        "readers" => locks.read_write(name).read().acquire().await,
        "reentrant" => locks.reentrant(name, &Owner::new()).acquire().await,
        _ => locks.semaphore(name, 3).acquire().await,
    }
}

#[tokio::test]
async fn every_kind_refuses_a_name_that_another_kind_holds() -> Tested {
    let server = shared_server();
    let (locks, other) = (client(server).await?, client(server).await?);
    let kinds = ["mutex", "readers", "reentrant", "semaphore"];
    for holder in kinds {
        for taker in kinds {
            if holder == taker
                || (holder != "reentrant" && taker != "reentrant" && holder != "semaphore" && taker != "semaphore")
            {
                continue;
            }
            let name = unique("door");
            let lease = take(&locks, holder, &name).await?;
            for client in [&locks, &other] {
                let refused = take(client, taker, &name).await;
                assert!(matches!(&refused, Err(Error::WrongKind { .. })), "{taker} on {holder}: {refused:?}");
            }
            assert!(lease.verify().await?, "{holder} after {taker}");
            lease.release().await?;
            take(&other, taker, &name).await?.release().await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_is_no_lock_is_never_overwritten() -> Tested {
    let (server, name) = (shared_server(), unique("data"));
    let locks = client(server).await?;
    let data: [&[&str]; 6] = [
        &["HSET", "x", "mode", "write"],
        &["HSET", "x", "name", "Ada", "born", "1815"],
        &["HSET", "x", "user:42", "Ada"],
        &["ZADD", "x", "100", "a player"],
        &["RPUSH", "x", "1"],
        &["SADD", "x", "1"],
    ];
    for words in data {
        let words: Vec<&str> = words.iter().map(|word| if *word == "x" { name.as_str() } else { word }).collect();
        server.cli(&words)?;
        let before = server.cli(&["DUMP", &name])?;
        for kind in ["mutex", "readers", "reentrant", "semaphore"] {
            let refused = take(&locks, kind, &name).await;
            assert!(matches!(&refused, Err(Error::WrongKind { .. })), "{kind} on {words:?}: {refused:?}");
        }
        let (seen, forced) = (locks.inspect(&name).await, locks.force_release(&name).await);
        assert!(matches!(&seen, Err(Error::WrongKind { .. })), "{words:?}: {seen:?}");
        assert!(matches!(&forced, Err(Error::WrongKind { .. })), "{words:?}: {forced:?}");
        assert_eq!(format!("{before:?}"), format!("{:?}", server.cli(&["DUMP", &name])?));
        server.cli(&["DEL", &name])?;
    }
    Ok(())
}

#[tokio::test]
async fn a_name_that_waiters_of_another_kind_are_to_get_is_theirs() -> Tested {
    let server = shared_server();
    let (holder, other) = (client(server).await?, client(server).await?);
    let waiter = options().claim_window(ASKING).connect(&server.url()).await?;
    for (theirs, ours) in
        [("semaphore", "mutex"), ("semaphore", "readers"), ("semaphore", "force"), ("mutex", "semaphore")]
    {
        let name = unique("door");
        let lock = |locks: &LockManager| match theirs {
            "mutex" => locks.mutex(&name),
            _ => locks.semaphore(&name, 1).permits(1),
        };
        let lease = lock(&holder).acquire().await?;
        let waiting = begin(lock(&waiter));
        until("it waits", async || waiters(server, &name).is_ok_and(|count| count == 1)).await;
        // As after a crash, until a waiter asks again.
        server.cli(&["DEL", &name])?;
        let granted = match ours {
            "mutex" => other.mutex(&name).try_acquire().await?.is_some(),
            "readers" => other.read_write(&name).read().try_acquire().await?.is_some(),
            "semaphore" => other.semaphore(&name, 3).try_acquire().await?.is_some(),
            _ => other.force_release(&name).await? > 0,
        };
        assert!(!granted, "{ours} passed those who wait for a {theirs}");
        let next = soon("the lock", waiting).await??;
        assert!(next.verify().await?, "a {theirs} was granted as a {ours}");
        next.extend(LONG * 2).await?;
        assert!(matches!(take(&other, ours, &name).await, Err(Error::WrongKind { .. })) || ours == "force");
        next.release().await?;
        drop(lease);
    }
    Ok(())
}
