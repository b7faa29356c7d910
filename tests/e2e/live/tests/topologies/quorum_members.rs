//! A quorum whose members are a cluster, a group behind Sentinel, and a server. The members fail over, move slots, or
//! are down.

use std::time::Duration;

use leasehold::{Error, LossReason, QuorumMember, ReleaseOutcome};
use leasehold_live::{
    ASKING, LONG, RENEWED, Tested, Watched, begin, busy, connections, hasty_quorum, is_busy, is_there, keys, options,
    soon, subscribed, until,
};
use leasehold_servers::{Cluster, PRIMARY, Sentinel, Server, promote, stay_primary};

const NAME: &str = "door";

fn group(sentinel: &Sentinel) -> QuorumMember {
    QuorumMember::sentinel(PRIMARY, [sentinel.server().url()])
}

/// Whether the server of the cluster that has the name's slot has a key for it.
fn is_in(cluster: &Cluster, name: &str) -> bool {
    cluster.owner(name).and_then(|owner| is_there(cluster.server(owner), name)).unwrap_or(false)
}

#[tokio::test]
async fn each_kind_of_member_has_one_vote_and_fences_rise_over_all_slots() -> Tested {
    let (cluster, watched, server) = (Cluster::steady(Server::builder)?, Watched::start()?, Server::start()?);
    let members = || [QuorumMember::cluster(cluster.urls()), group(&watched.sentinel), server.url().into()];
    let client = async || options().quorum(members()).await;
    let (one, two) = (client().await?, client().await?);
    for name in ["a", "b", "c", "{e}:1"] {
        let all_have_it = || async {
            let there = |server| is_there(server, name).is_ok_and(|there| there);
            is_in(&cluster, name) && there(&watched.primary) && there(&server)
        };
        let lease = one.mutex(name).acquire().await?;
        // Otherwise, the next client can get the first member, which has the queue.
        until("all members have it", all_have_it).await;
        let error = busy(two.mutex(name), Duration::from_millis(500)).await;
        assert!(matches!(error, Error::Busy { .. }), "{error:?}");
        // A member that still had the first lease when it was asked gets the next one with its renewal.
        let waiting = begin(two.mutex(name).ttl(RENEWED));
        until("it waits", async || one.inspect(name).await.is_ok_and(|seen| seen.waiters.len() == 1)).await;
        let fence = lease.fence();
        assert!(lease.verify().await?);
        lease.extend(LONG * 2).await?;
        assert_eq!(lease.release().await?, ReleaseOutcome::Released);
        let next = soon("the lock", waiting).await??;
        assert!(next.fence() > fence);
        until("all members have it", all_have_it).await;
        assert_eq!(next.release().await?, ReleaseOutcome::Released);
    }
    let counters: Vec<String> = (0..3).flat_map(|at| keys(cluster.server(at)).unwrap_or_default()).collect();
    let is_counter = |key: &&String| key.starts_with("leasehold:fence");
    assert_eq!(counters.iter().filter(is_counter).count(), 4, "{counters:?}");
    assert!(counters.iter().filter(is_counter).all(|key| key.starts_with("leasehold:fence:quorum:{")), "{counters:?}");
    Ok(())
}

#[tokio::test]
async fn a_close_ends_the_connections_to_all_members() -> Tested {
    const USER: &str = "quorum";
    let builder = || Server::builder().acl(USER, "on ~* &* +@all >secret");
    let (cluster, watched, server) =
        (Cluster::steady(builder)?, Watched::start_with(builder, 1)?.patient()?, builder().start()?);
    let all: Vec<&Server> =
        (0..6).map(|at| cluster.server(at)).chain([&watched.primary, &watched.replica, &server]).collect();
    // The servers have connections among themselves, so only this user's count.
    let count = || -> usize {
        let of_user = |server: &&Server| {
            server.cli(&["CLIENT", "LIST"]).map(|list| list.text().unwrap_or_default().matches(" user=quorum ").count())
        };
        all.iter().map(|server| of_user(server).unwrap_or(usize::MAX)).sum::<usize>()
            + connections(watched.sentinel.server()).unwrap_or(usize::MAX)
    };
    let members = || {
        let members = [QuorumMember::cluster(cluster.urls()), group(&watched.sentinel), server.url().into()];
        members.map(|member| member.username(USER).password("secret"))
    };
    let (one, two) = (options().quorum(members()).await?, options().quorum(members()).await?);
    let lease = one.mutex(NAME).acquire().await?;
    until("the member with the queue has it", async || is_in(&cluster, NAME)).await;
    let waiting = begin(two.mutex(NAME));
    until("it waits", async || one.inspect(NAME).await.is_ok_and(|seen| seen.waiters.len() == 1)).await;
    // Each client has one to each member, one to the sentinel, and the second client one for messages.
    until("all connections are open", async || count() >= 9).await;
    // The waiter goes first: it would get the lease that the other gives back.
    assert_eq!(two.close().await.unreleased, 0);
    assert_eq!(one.close().await.unreleased, 0);
    assert!(!lease.is_held());
    assert_eq!(waiting.await?.err().map(|error| error.code()), Some("closed"));
    until("no connection is left", async || count() == 0).await;
    Ok(())
}

#[tokio::test]
async fn a_member_that_fails_over_without_the_lock_frees_it_for_nobody_and_is_won_again() -> Tested {
    let (mut watched, servers) = (Watched::start()?, [Server::start()?, Server::start()?]);
    let members = |watched: &Watched| [group(&watched.sentinel), servers[0].url().into(), servers[1].url().into()];
    let connect = async || hasty_quorum(|| members(&watched)).await;
    let (one, two) = (connect().await, connect().await);
    watched.cut()?;
    let lease = one.mutex(NAME).ttl(RENEWED).acquire().await?;
    until("all have it", async || {
        is_there(&watched.primary, NAME).is_ok_and(|there| there)
            && servers.iter().all(|server| is_there(server, NAME).is_ok_and(|there| there))
    })
    .await;
    watched.lose_primary().await?;
    assert!(!is_there(&watched.replica, NAME)?, "the new primary never had it");
    for _ in 0..5 {
        is_busy(&two.mutex(NAME)).await; // Two of three members are enough.
    }
    until("the holder has it there again", async || is_there(&watched.replica, NAME).is_ok_and(|there| there)).await;
    until("a majority confirms it", async || lease.verify().await.is_ok_and(|held| held)).await;
    assert_eq!(lease.release().await?, ReleaseOutcome::Released);
    Ok(())
}

#[tokio::test]
#[ignore = "a failover takes seconds"]
async fn a_cluster_whose_replica_lacks_the_lock_frees_it_for_nobody_and_is_won_again() -> Tested {
    let (mut cluster, servers) = (Cluster::steady(Server::builder)?, [Server::start()?, Server::start()?]);
    let members =
        |cluster: &Cluster| [QuorumMember::cluster(cluster.urls()), servers[0].url().into(), servers[1].url().into()];
    let connect = async || hasty_quorum(|| members(&cluster)).await;
    let (one, two) = (connect().await, connect().await);
    let owner = cluster.owner(NAME)?;
    cluster.allow_failover(owner)?;
    // From now on, the replica receives nothing.
    cluster.server(owner + 3).pause()?;
    cluster.server(owner).cli(&["CLIENT", "KILL", "TYPE", "replica"])?;
    let lease = one.mutex(NAME).ttl(RENEWED).acquire().await?;
    until("all have it", async || {
        is_there(cluster.server(owner), NAME).is_ok_and(|there| there)
            && servers.iter().all(|server| is_there(server, NAME).is_ok_and(|there| there))
    })
    .await;
    // The queue is on the cluster.
    let waiting = begin(options().claim_window(ASKING).quorum(members(&cluster)).await?.mutex(NAME).ttl(RENEWED));
    until("it waits", async || one.inspect(NAME).await.is_ok_and(|seen| seen.waiters.len() == 1)).await;
    cluster.server_mut(owner).stop();
    cluster.server(owner + 3).resume()?;
    let promoted = cluster.server(owner + 3);
    until("the replica has the slots", async || {
        let role = promoted.cli(&["ROLE"]);
        is_busy(&two.mutex(NAME)).await; // Two of three are enough.
        role.is_ok_and(|role| role.list().first().is_some_and(|role| role.text() == Some("master")))
    })
    .await;
    until("the holder has it there again", async || is_there(promoted, NAME).is_ok_and(|there| there)).await;
    is_busy(&two.mutex(NAME)).await;
    until("a majority confirms it", async || lease.verify().await.is_ok_and(|held| held)).await;
    let fence = lease.fence();
    assert_eq!(lease.release().await?, ReleaseOutcome::Released);
    let next = soon("the lock, from the new queue", waiting).await??;
    assert!(next.fence() > fence);
    until("the cluster has it too", async || is_there(promoted, NAME).is_ok_and(|there| there)).await;
    Ok(())
}

#[tokio::test]
async fn an_old_primary_of_a_member_is_left_at_once_though_it_still_takes_writes() -> Tested {
    let (watched, servers) = (Watched::start()?, [Server::start()?, Server::start()?]);
    let members = || [group(&watched.sentinel), servers[0].url().into(), servers[1].url().into()];
    let client = async || options().quorum(members()).await;
    let (one, two) = (client().await?, client().await?);
    let lease = one.mutex(NAME).acquire().await?;
    // The queue is on the group.
    until("the group has it", async || is_there(&watched.primary, NAME).is_ok_and(|there| there)).await;
    let waiting = begin(two.mutex(NAME));
    until("it waits", async || one.inspect(NAME).await.is_ok_and(|seen| seen.waiters.len() == 1)).await;
    stay_primary(&watched.primary)?;
    watched.sentinel.fail_over()?;
    watched.is_left_by(&[one.clone(), two.clone()]).await;
    assert!(watched.primary.cli(&["SET", "still", "writable"]).is_ok(), "and it was not by READONLY");
    until("the waiter listens there", async || subscribed(&watched.replica).is_ok_and(|count| count >= 1)).await;
    assert!(lease.is_held() && soon("an answer", lease.verify()).await?);
    let fence = lease.fence();
    assert_eq!(lease.release().await?, ReleaseOutcome::Released);
    assert!(soon("the lock", waiting).await??.fence() > fence);
    Ok(())
}

/// What the docs say that a quorum can still lose: a lease with a bare majority, of which one member fails over.
#[tokio::test]
async fn a_bare_majority_that_fails_over_can_have_two_holders_and_the_fence_tells_them_apart() -> Tested {
    let (mut watched, mut third, server) = (Watched::start()?, Server::start()?, Server::start()?);
    let members =
        |watched: &Watched, third: &Server| [group(&watched.sentinel), server.url().into(), third.url().into()];
    let connect = async || hasty_quorum(|| members(&watched, &third)).await;
    let (one, two) = (connect().await, connect().await);
    third.stop();
    watched.cut()?;
    let old = one.mutex(NAME).acquire().await?;
    // The third member would have the lock if the holder had time to ask it again.
    watched.lose_primary().await?;
    third.restart()?;
    let new = soon("the lock", two.mutex(NAME).acquire()).await?;
    assert!(old.is_held() && new.is_held(), "the first holder can't know it yet");
    assert!(new.fence() > old.fence());
    until("the first holder is told", async || old.verify().await.is_ok_and(|held| !held)).await;
    assert_ne!(soon("the loss", old.lost()).await, LossReason::Expired);
    assert!(new.verify().await?);
    Ok(())
}

/// The docs say this too. A group that a partition divides has a vote on each side, unless its old primary stops.
#[tokio::test]
async fn a_group_with_two_primaries_votes_for_two_holders_until_the_old_one_needs_its_replica() -> Tested {
    let (watched, servers) = (Watched::start()?, [Server::start()?, Server::start()?]);
    // Each side of the partition has a sentinel, a server and one of the group's two servers.
    let there = || QuorumMember::from("redis://127.0.0.1:1/");
    let one = hasty_quorum(|| [group(&watched.sentinel), servers[0].url().into(), there()]).await;
    watched.sentinel.server().pause()?;
    promote(&watched.replica)?;
    let sentinel = Sentinel::start(Server::builder(), &watched.replica, 0, "")?;
    let two = hasty_quorum(|| [group(&sentinel), there(), servers[1].url().into()]).await;

    let (old, new) = (one.mutex(NAME).acquire().await?, two.mutex(NAME).acquire().await?);
    assert!(new.fence() > old.fence());
    for lease in [&old, &new] {
        until("it is extended", async || lease.extend(LONG * 2).await.is_ok()).await;
        until("neither can know", async || lease.verify().await.is_ok_and(|held| held)).await;
    }
    watched.primary.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"])?;
    assert!(soon("an answer", old.extend(LONG * 3)).await.is_err(), "it ends with its TTL");
    until("a majority confirms it", async || new.verify().await.is_ok_and(|held| held)).await;
    Ok(())
}

#[tokio::test]
#[ignore = "a cluster takes seconds to start"]
async fn a_slot_that_moves_delays_nobody_while_the_other_members_agree() -> Tested {
    let (cluster, servers) = (Cluster::steady(Server::builder)?, [Server::start()?, Server::start()?]);
    let members = || [QuorumMember::cluster(cluster.urls()), servers[0].url().into(), servers[1].url().into()];
    let locks = options().quorum(members()).await?;
    locks.mutex(NAME).acquire().await?.release().await?;
    let to = (cluster.owner(NAME)? + 1) % 3;
    let moving = cluster.begin_move(NAME, to)?;
    for _ in 0..5 {
        let lease = soon("the lock", locks.mutex(NAME).acquire()).await?;
        assert!(lease.verify().await?);
        lease.release().await?;
    }
    moving.finish()?;
    let lease = locks.mutex(NAME).ttl(RENEWED).acquire().await?;
    until("the cluster has it at its new place", async || is_there(cluster.server(to), NAME).is_ok_and(|there| there))
        .await;
    assert_eq!(lease.release().await?, ReleaseOutcome::Released);
    Ok(())
}

#[tokio::test]
#[ignore = "a cluster takes seconds to start"]
async fn a_cluster_that_is_needed_votes_after_its_slot_has_moved() -> Tested {
    let (cluster, server, mut third) = (Cluster::steady(Server::builder)?, Server::start()?, Server::start()?);
    let members = || [QuorumMember::cluster(cluster.urls()), server.url().into(), third.url().into()];
    let (one, two) = (hasty_quorum(members).await, hasty_quorum(members).await);
    for locks in [&one, &two] {
        drop(locks.mutex(NAME).acquire().await?);
    }
    third.stop();
    // Without the cluster there is no majority. Its old server answers `ASK`, and the new one `TRYAGAIN`.
    let to = (cluster.owner(NAME)? + 1) % 3;
    let moving = cluster.begin_move(NAME, to)?;
    let refused = one.mutex(NAME).wait(Duration::from_millis(700)).acquire().await.err().ok_or("granted")?;
    assert!(matches!(refused, Error::Unreachable { .. }) && refused.is_retryable(), "{refused:?}");
    let waiting = begin(one.mutex(NAME));
    moving.finish()?;
    let lease = soon("the lock", waiting).await??;
    assert!(is_there(cluster.server(to), NAME)?);
    // The second client still asks the old server, which answers `MOVED`.
    assert!(two.mutex(NAME).try_acquire().await?.is_none());
    assert_eq!(lease.release().await?, ReleaseOutcome::Released);
    assert_eq!(two.mutex(NAME).acquire().await?.release().await?, ReleaseOutcome::Released);
    Ok(())
}

#[tokio::test]
#[ignore = "a cluster takes seconds to start"]
async fn members_that_are_down_at_the_start_join_when_they_are_back() -> Tested {
    let (cluster, watched, mut server) = (Cluster::steady(Server::builder)?, Watched::start()?, Server::start()?);
    let members =
        |server: &Server| [QuorumMember::cluster(cluster.urls()), group(&watched.sentinel), server.url().into()];
    let pause = |pause: bool| -> Tested {
        for at in 0..6 {
            if pause { cluster.server(at).pause()? } else { cluster.server(at).resume()? }
        }
        Ok(())
    };
    pause(true)?;
    // Some members don't answer. Only the node timeout ends a command to them.
    let locks = hasty_quorum(|| members(&server)).await;
    let lease = locks.mutex(NAME).acquire().await?;
    until("a majority has it", async || lease.verify().await.is_ok_and(|held| held)).await;
    pause(false)?;
    server.stop();
    until("the cluster and the group are a majority", async || lease.verify().await.is_ok_and(|held| held)).await;
    assert_eq!(lease.release().await?, ReleaseOutcome::Released);

    // Two of three members are down.
    pause(true)?;
    until("the error counts the members", async || {
        let hasty = options().node_timeout(Duration::from_millis(500)).response_timeout(Duration::from_secs(1));
        let error = hasty.quorum(members(&server)).await.expect_err("two are down");
        assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
        let text = error.to_string();
        text.contains("(cluster 127.0.0.1:") && text.contains("1 agreed")
    })
    .await;
    pause(false)?;
    Ok(())
}

#[tokio::test]
async fn a_cluster_or_a_group_that_is_listed_twice_is_refused() -> Tested {
    let (cluster, watched, server) = (Cluster::steady(Server::builder)?, Watched::start()?, Server::start()?);
    let (urls, third) = (cluster.urls(), || QuorumMember::from(server.url()));
    let refused = async |members: [QuorumMember; 3], text: &str| {
        let error = options().quorum(members).await.err();
        let message = error.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(matches!(error, Some(Error::InvalidOption { field: "servers", .. })), "{error:?}");
        assert!(message.contains(text), "{message}");
    };
    let one = |at: usize| QuorumMember::cluster([urls[at].as_str()]);
    refused([one(0), one(0), third()], "twice").await;
    // By other servers of it, so that only the cluster can tell.
    refused([one(1), third(), one(5)], "one cluster twice").await;
    refused([one(0), urls[1].clone().into(), third()], "a server of a cluster").await;
    refused([group(&watched.sentinel), watched.primary.url().into(), third()], "are the same server").await;
    refused([QuorumMember::sentinel("", [urls[0].as_str()]), one(0), third()], "without its name").await;
    refused([QuorumMember::cluster::<[&str; 0]>([]), one(0), third()], "is empty").await;
    Ok(())
}

#[tokio::test]
#[ignore = "a cluster takes seconds to start"]
async fn a_cluster_that_may_evict_locks_is_refused_if_asked_for() -> Tested {
    let cluster = Cluster::steady(|| Server::builder().arg("--maxmemory-policy", "allkeys-lru"))?;
    let servers = [Server::start()?, Server::start()?];
    let members = || [QuorumMember::cluster(cluster.urls()), servers[0].url().into(), servers[1].url().into()];
    let error = options().check_eviction(true).quorum(members()).await.err();
    assert!(matches!(error, Some(Error::Unsupported { .. })), "{error:?}");
    options().quorum(members()).await?.mutex(NAME).acquire().await?.release().await?;
    Ok(())
}
