//! Conversions and releases while their slot moves and all declared keys are there. A server that runs such a script
//! stops it when it touches a key that it has deleted.

use std::time::Duration;

use leasehold::{Lease, LockManager};
use leasehold_live::{Tested, begin, options, queued, side, soon, until, waiters};
use leasehold_servers::{Cluster, Server, SlotMove};

async fn client(cluster: &Cluster) -> Result<LockManager, leasehold::Error> {
    options().cluster(cluster.urls()).await
}

/// Keeps the slot moving for a while.
async fn finish(moving: SlotMove<'_>) -> Tested {
    tokio::time::sleep(Duration::from_millis(300)).await;
    Ok(moving.finish()?)
}

#[tokio::test]
#[ignore = "a cluster takes seconds to start"]
async fn an_upgrade_while_its_slot_moves_leaves_no_room_for_a_second_holder() -> Tested {
    let cluster = Cluster::steady(Server::builder)?;
    let (first, second) = (client(&cluster).await?, client(&cluster).await?);
    let lease = first.read_write("a").read().acquire().await?;
    let other = second.read_write("a").read().acquire().await?;
    // Leaves a tombstone.
    assert_eq!(lease.upgrade().await.unwrap_err().code(), "conflict");
    other.release().await?;
    let owner = cluster.owner("a")?;
    let waiting = queued(cluster.server(owner), second.read_write("a").write()).await;
    let moving = cluster.begin_move("a", (owner + 1) % 3)?;
    let (upgraded, finished) = tokio::join!(lease.upgrade(), finish(moving));
    finished?;
    upgraded?;
    assert!(lease.verify().await?);
    assert!(!waiting.is_finished());
    let fence = lease.fence();
    lease.release().await?;
    assert!(soon("the lock", waiting).await??.fence() > fence);
    Ok(())
}

#[tokio::test]
#[ignore = "a cluster takes seconds to start"]
async fn a_release_while_its_slot_moves_grants_the_next_in_line_afterwards() -> Tested {
    let cluster = Cluster::steady(Server::builder)?;
    let (first, second) = (client(&cluster).await?, client(&cluster).await?);
    let released = async |name: &str, members: &[&str], lease: Lease, next: tokio::task::JoinHandle<_>| -> Tested {
        let owner = cluster.owner(name)?;
        let server = cluster.server(owner);
        until("it waits", async || waiters(server, name).is_ok_and(|count| count == 1)).await;
        // Creates the keys that are missing.
        for words in [&["ZADD", &side(name, "queue"), "-99999999999999", "other"][..], members] {
            server.cli(words)?;
            server.cli(&["PEXPIRE", words[1], "600000"])?;
        }
        let moving = cluster.begin_move(name, (owner + 1) % 3)?;
        let (released, finished) = tokio::join!(lease.release(), finish(moving));
        finished?;
        released?;
        let next: Lease = soon("the lock", next).await??;
        assert!(next.verify().await?);
        next.release().await?;
        Ok(())
    };
    let junk = ["ZADD", &side("a", "readers"), "99999999999999", "other"];
    let lease = first.mutex("a").acquire().await?;
    released("a", &junk, lease, begin(second.mutex("a"))).await?;

    let junk = ["ZADD", &side("b", "queue"), "-99999999999999", "another"];
    let lease = first.read_write("b").read().acquire().await?;
    released("b", &junk, lease, begin(second.read_write("b").write())).await?;

    let junk = ["ZADD", &side("c", "queue"), "-99999999999999", "another"];
    let lease = first.semaphore("c", 1).acquire().await?;
    let semaphore = second.semaphore("c", 1);
    released("c", &junk, lease, tokio::spawn(async move { semaphore.acquire().await })).await?;
    Ok(())
}
