//! Servers that refuse `TIME` in scripts and don't know `PEXPIRETIME`, such as Redis 6.2. A client of one server learns it when it
//! connects. All others learn it from their first lock.

use leasehold::{Error, LockManager, QuorumMember};
use leasehold_live::{Tested, Watched, options, soon};
use leasehold_servers::{Builder, Cluster, PRIMARY, Server};

fn builder() -> Builder {
    Server::builder().without_clock()
}

/// A call that would wait for long for a busy lock fails at once, with the reason and what to do.
async fn is_refused(locks: Result<LockManager, Error>, how: &str) -> Tested {
    let error = match locks {
        Ok(locks) => soon(how, locks.mutex("door").acquire()).await.err(),
        Err(error) => Some(error),
    };
    let text = error.as_ref().map(ToString::to_string).unwrap_or_default();
    assert_eq!(error.map(|error| error.code()), Some("unsupported"), "{how}: {text}");
    assert!(text.contains("refuses TIME in scripts") && text.contains("+pexpiretime and +persist"), "{how}: {text}");
    Ok(())
}

#[tokio::test]
async fn a_lock_on_a_cluster_that_tells_scripts_no_time_is_unsupported() -> Tested {
    let cluster = Cluster::steady(builder)?;
    is_refused(options().cluster(cluster.urls()).await, "cluster").await
}

#[tokio::test]
async fn a_lock_behind_sentinel_and_one_in_a_quorum_are_unsupported_too() -> Tested {
    let watched = Watched::start_with(builder, 1)?;
    let sentinels = [watched.sentinel.server().url()];
    is_refused(options().sentinel(PRIMARY, sentinels.clone()).await, "sentinel").await?;
    let (one, other) = (builder().start()?, builder().start()?);
    let members = [QuorumMember::sentinel(PRIMARY, sentinels), one.url().into(), other.url().into()];
    is_refused(options().quorum(members).await, "quorum").await?;
    // One such member is outvoted.
    let servers = [Server::start()?, Server::start()?];
    let members = [one.url(), servers[0].url(), servers[1].url()];
    soon("quorum", options().quorum(members).await?.mutex("door").acquire()).await?.release().await?;
    Ok(())
}
