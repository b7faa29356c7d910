//! A cluster of three primaries with a replica each.

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::{Error, LockManager, Owner, ReleaseOutcome};
use leasehold_live::{LONG, Tested, ToyServer, begin, hands_over_by_message, options, soon, until, waiters};
use leasehold_servers::{Cluster, Reply, Server};

async fn client(cluster: &Cluster) -> Result<LockManager, Error> {
    options().cluster(cluster.urls()).await
}

async fn waiting(locks: &LockManager, name: &str, count: usize) {
    until("it waits", async || locks.inspect(name).await.is_ok_and(|seen| seen.waiters.len() == count)).await;
}

#[tokio::test]
async fn locks_are_on_all_servers_and_waiters_are_granted_by_message() -> Tested {
    let cluster = Cluster::steady(Server::builder)?;
    let (first, second) = (client(&cluster).await?, client(&cluster).await?);
    let mut owners = Vec::new();
    for name in ["a", "b", "c", "d", "{e}:1", "f"] {
        let lease = first.mutex(name).acquire().await?;
        assert!(second.mutex(name).try_acquire().await?.is_none());
        let next = begin(second.mutex(name));
        waiting(&first, name, 1).await;
        assert_eq!(lease.release().await?, ReleaseOutcome::Released);
        let lease = soon("the lock", next).await??;
        assert!(lease.verify().await?);
        lease.extend(LONG * 2).await?;
        lease.downgrade().await?;
        assert!(first.read_write(name).read().try_acquire().await?.is_some());
        lease.release().await?;
        owners.push(cluster.owner(name)?);
    }
    owners.sort_unstable();
    owners.dedup();
    assert_eq!(owners, [0, 1, 2], "these names are on three servers");
    let servers: Vec<&Server> = (0..6).map(|place| cluster.server(place)).collect();
    for name in ["a", "b", "c"] {
        hands_over_by_message(&first, &second, &servers, name).await?;
    }
    first.close().await;
    second.close().await;
    Ok(())
}

#[tokio::test]
#[ignore = "a cluster takes seconds to start"]
async fn reentrant_locks_semaphores_and_several_names_are_on_all_servers_too() -> Tested {
    let cluster = Cluster::steady(Server::builder)?;
    let (first, second) = (client(&cluster).await?, client(&cluster).await?);
    for name in ["a", "b", "c"] {
        let (ours, theirs) = (Owner::new(), Owner::new());
        let reentrant = format!("{name}:reentrant");
        let lease = first.reentrant(&reentrant, &ours).acquire().await?;
        let next = begin(second.reentrant(&reentrant, &theirs));
        until("somebody listens for its end", async || {
            let channel = format!("redisson_lock__channel:{{{reentrant}}}");
            let on = |place| cluster.server(place).cli(&["PUBSUB", "CHANNELS", &channel]).map(|list| list.list().len());
            (0..6).filter_map(|place| on(place).ok()).sum::<usize>() == 1
        })
        .await;
        lease.release().await?;
        soon("the lock", next).await??.release().await?;

        let permits = format!("{name}:permits");
        let lease = first.semaphore(&permits, 2).permits(2).acquire().await?;
        assert!(second.semaphore(&permits, 2).try_acquire().await?.is_none());
        let semaphore = second.semaphore(&permits, 2);
        let next = tokio::spawn(async move { semaphore.acquire().await });
        let server = cluster.server(cluster.owner(&permits)?);
        until("it waits", async || waiters(server, &permits).is_ok_and(|count| count == 1)).await;
        lease.release().await?;
        soon("a permit", next).await??.release().await?;
    }
    let lease = first.multi(["a", "b", "c"]).acquire().await?;
    for name in ["a", "b", "c"] {
        assert!(second.mutex(name).try_acquire().await?.is_none(), "{name}");
    }
    let several = second.multi(["c", "a"]);
    let next = tokio::spawn(async move { several.acquire().await });
    until("it waits for the first of them", async || {
        first.inspect("a").await.is_ok_and(|seen| seen.waiters.len() == 1)
    })
    .await;
    lease.release().await?;
    soon("both", next).await??.release().await?;
    Ok(())
}

#[tokio::test]
#[ignore = "a cluster takes seconds to start"]
async fn a_released_reentrant_lock_is_told_to_those_who_listen_on_its_shard_as_redisson_does() -> Tested {
    let cluster = Cluster::steady(Server::builder)?;
    let locks = client(&cluster).await?;
    for (name, channel) in [("a", "redisson_lock__channel:{a}"), ("{b}:1", "redisson_lock__channel:{b}:1")] {
        let mut java = cluster.server(cluster.owner(name)?).connect()?;
        java.call(&["SSUBSCRIBE", channel])?;
        locks.reentrant(name, &Owner::new()).acquire().await?.release().await?;
        let message = java.receive()?;
        let words: Vec<_> = message.list().iter().map(Reply::text).collect();
        assert_eq!(words, [Some("smessage"), Some(channel), Some("0")]);
    }
    Ok(())
}

#[tokio::test]
#[ignore = "a cluster takes seconds to start"]
async fn one_server_is_enough_to_find_the_others_and_one_that_is_gone_does_no_harm() -> Tested {
    let mut cluster = Cluster::steady(Server::builder)?;
    let gone = cluster.server(5).url();
    cluster.server_mut(5).stop();
    for nodes in [vec![cluster.server(4).url()], vec![gone, cluster.server(0).url()]] {
        let locks = options().cluster(nodes).await?;
        for name in ["a", "b", "c"] {
            locks.mutex(name).acquire().await?.release().await?;
        }
    }
    Ok(())
}

#[tokio::test]
#[ignore = "a cluster takes seconds to start"]
async fn a_server_that_is_no_cluster_and_one_that_is_are_told_apart() -> Tested {
    let alone = Server::start()?;
    let error = options().cluster([alone.url()]).await.unwrap_err();
    assert!(error.to_string().contains("cluster support disabled"), "{error}");
    let cluster = Cluster::steady(Server::builder)?;
    // Each server has only a part of the slots, and may not tell what it is.
    cluster.server(0).cli(&["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-info", "-cluster"])?;
    let mute = format!("redis://app:secret@127.0.0.1:{}/", cluster.server(0).port());
    for (url, slots) in [(mute, None), (cluster.server(1).url(), None), (cluster.server(2).url(), Some(true))] {
        let options = slots.map_or_else(options, |wanted| options().cluster_slots(wanted));
        let error = options.connect(url).await.unwrap_err();
        assert_eq!(error.code(), "unsupported", "{error}");
        assert!(error.to_string().contains("connect with `LockManager::cluster`: MOVED "), "{error}");
    }
    // A cluster has slots anyway.
    for slots in [true, false] {
        let locks = options().cluster_slots(slots).cluster(cluster.urls()).await?;
        locks.mutex("a").acquire().await?.release().await?;
    }
    let error = options().database(1).cluster(cluster.urls()).await;
    // In Valkey 9, a cluster can have several databases.
    assert!(error.as_ref().err().is_none_or(|error| !error.is_retryable()), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn servers_that_send_a_command_round_and_round_are_not_flooded() -> Tested {
    static PORTS: [AtomicU16; 2] = [AtomicU16::new(0), AtomicU16::new(0)];
    static SCRIPTS: AtomicUsize = AtomicUsize::new(0);
    let port = |place: usize| PORTS[place].load(Ordering::SeqCst);
    let start = |place: usize| {
        ToyServer::start(move |words| match words[0].as_str() {
            "CLUSTER" => format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{}\r\n", port(place)),
            "EVALSHA" => {
                SCRIPTS.fetch_add(1, Ordering::SeqCst);
                format!("-MOVED 5 127.0.0.1:{}\r\n", port(1 - place))
            }
            _ => "+OK\r\n".to_owned(),
        })
    };
    let servers = [start(0)?, start(1)?];
    for (place, server) in servers.iter().enumerate() {
        PORTS[place].store(server.port(), Ordering::SeqCst);
    }
    let locks = options().cluster([servers[0].url()]).await?;
    let mut waits = 0;
    let sent = || SCRIPTS.load(Ordering::SeqCst);
    until("both were asked several times", async || {
        let error = locks.mutex("a").wait(Duration::from_secs(1)).acquire().await.unwrap_err();
        assert_eq!(error.code(), "unreachable", "{error:?}");
        waits += 1;
        sent() >= 6
    })
    .await;
    assert!(sent() < 200 * waits, "{} commands in {waits} waits of a second", sent());
    Ok(())
}

#[tokio::test]
async fn bad_addresses_are_refused_at_once_by_field() {
    let field = |error: Error| match error {
        Error::InvalidOption { field, .. } => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(field(LockManager::cluster(["nonsense"]).await.unwrap_err()), "cluster");
    assert_eq!(field(LockManager::cluster(Vec::<String>::new()).await.unwrap_err()), "cluster");
    assert_eq!(field(LockManager::cluster(["unix:///tmp/redis.sock"]).await.unwrap_err()), "cluster");
    assert_eq!(field(LockManager::sentinel("main", ["nonsense"]).await.unwrap_err()), "sentinels");
    assert_eq!(field(LockManager::sentinel("main", Vec::<String>::new()).await.unwrap_err()), "sentinels");
    assert_eq!(field(LockManager::sentinel("", ["redis://127.0.0.1:1/"]).await.unwrap_err()), "service");
    let lonely = LockManager::builder().username("app").cluster(["redis://127.0.0.1:1/"]);
    assert_eq!(field(lonely.await.unwrap_err()), "username");
    let error = options().cluster(["redis://127.0.0.1:1/"]).await.unwrap_err();
    assert_eq!(error.code(), "unreachable", "{error:?}");
}

#[tokio::test]
async fn several_names_are_one_lease_wherever_they_are() -> Tested {
    let cluster = Cluster::steady(Server::builder)?;
    let (first, second) = (client(&cluster).await?, client(&cluster).await?);
    // On three servers one after the other, and on one server by one script.
    let scattered = ["a", "b", "c", "d", "f"];
    let lease = first.multi(scattered).acquire().await?;
    assert!(lease.verify().await?);
    assert!(second.multi(["z", "d"]).try_acquire().await?.is_none());
    let waits = second.multi(["f", "a"]);
    let next = tokio::spawn(async move { waits.acquire().await });
    waiting(&first, "a", 1).await;
    assert_eq!(lease.release().await?, ReleaseOutcome::Released);
    assert_eq!(soon("both", next).await??.release().await?, ReleaseOutcome::Released);
    let together = first.multi(["{e}:1", "{e}:2"]).one_script().acquire().await?;
    assert!(together.verify().await?);
    together.release().await?;
    let refused = first.multi(scattered).one_script().acquire().await;
    assert_eq!(refused.err().map(|error| error.code()), Some("cross-slot"));
    first.close().await;
    second.close().await;
    Ok(())
}
