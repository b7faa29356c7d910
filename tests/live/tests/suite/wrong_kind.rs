//! A name that holds another kind of lock, or something else: told as such, and left as it is.

use leasehold::{Error, Lease, LockManager, Owner};
use leasehold_live::{Tested, client, shared_server, unique};

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
    let data: [&[&str]; 5] = [
        &["HSET", "x", "mode", "write"],
        &["HSET", "x", "name", "Ada", "born", "1815"],
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
        assert_eq!(format!("{before:?}"), format!("{:?}", server.cli(&["DUMP", &name])?));
        server.cli(&["DEL", &name])?;
    }
    Ok(())
}
