//! The labels of holders and waiters.

use std::time::{Duration, Instant};

use leasehold::LockManager;
use leasehold_live::{Tested, begin, busy, client, introduce, keys, labels, options, queued, soon, unique, until};
use leasehold_servers::{Cluster, Server};

async fn labelled(server: &Server, label: &str) -> Result<LockManager, leasehold::Error> {
    options().label(label).connect(&server.url()).await
}

/// How long a test holds a lock or waits for it.
const MOMENT: Duration = Duration::from_millis(200);

/// A client that has written its label to the server, and answers questions about its leases.
async fn introduced(server: &Server, label: &str) -> Result<LockManager, Box<dyn std::error::Error + Send + Sync>> {
    let locks = labelled(server, label).await?;
    introduce(&locks, server).await?;
    Ok(locks)
}

#[tokio::test]
async fn a_lock_that_is_free_and_soon_given_back_costs_no_command_for_labels() -> Tested {
    let server = Server::start()?;
    let locks = labelled(&server, "web-1/17").await?;
    server.cli(&["CONFIG", "RESETSTAT"])?;
    let mut longest = Duration::ZERO;
    for _ in 0..100 {
        let start = Instant::now();
        locks.mutex("door").acquire().await?.release().await?;
        longest = longest.max(start.elapsed());
    }
    // On a slow machine, a lock may have been held for a second.
    assert!(longest > MOMENT || labels(&server)?.is_empty());
    assert_eq!(locks.inspect("door").await?.holders, []);
    let stats = server.cli(&["INFO", "commandstats"])?;
    let stats = stats.text().unwrap_or_default();
    assert!(!stats.contains("cmdstat_subscribe") && !stats.contains("cmdstat_publish"), "{stats}");
    Ok(())
}

#[tokio::test]
async fn inspect_shows_who_holds_a_lock_and_who_waits_and_for_how_long() -> Tested {
    let server = Server::start()?;
    let (first, second) = (introduced(&server, "web-1/17").await?, labelled(&server, "web 2/λ").await?);
    let third = labelled(&server, "").await?;
    let lease = first.mutex("door").acquire().await?;
    let granted = Instant::now();
    let waiting = queued(&server, second.mutex("door")).await;
    let other = queued(&server, third.mutex("door")).await;
    // So that the times differ.
    tokio::time::sleep(MOMENT).await;
    let (waited, held) = (MOMENT - MOMENT / 10, granted.elapsed());
    let seen = third.inspect("door").await?;
    let [holder] = seen.holders.as_slice() else { return Err("one holds".into()) };
    assert_eq!(holder.label.as_deref(), Some("web-1/17"));
    assert!(holder.held.is_some_and(|time| time >= held - held / 10), "{holder:?} after {held:?}");
    let [waiter, unnamed] = seen.waiters.as_slice() else { return Err("two wait".into()) };
    assert_eq!((waiter.label.as_deref(), unnamed.label.as_deref()), (Some("web 2/λ"), None));
    assert!(waiter.waited.is_some_and(|time| time >= waited && time <= holder.held.unwrap_or_default()), "{waiter:?}");
    assert!(unnamed.waited.is_some() && unnamed.waited <= waiter.waited, "{unnamed:?}");
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    soon("the lock", other).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn inspect_shows_what_clients_call_their_leases_and_how_long_they_have_held_them() -> Tested {
    let server = Server::start()?;
    let (first, second) = (introduced(&server, "web-1").await?, labelled(&server, "web-2").await?);
    let third = labelled(&server, "web-3").await?;
    let lease = first.mutex("door").label("job 17").acquire().await?;
    let next = begin(first.mutex("door").label("job 18"));
    let waiting = queued(&server, second.mutex("door").label("job λ")).await;
    let called = async |locks: &LockManager| {
        let seen = locks.inspect("door").await.ok()?;
        let holder = seen.holders.first()?.clone();
        Some((holder.lease_label?, seen.waiters.first()?.lease_label.clone(), holder.held?))
    };
    // On a slow machine a client's answer may take long, and then `inspect` doesn't wait for it.
    let until_called = async |locks: &LockManager, job: &str| {
        let mut held = Duration::ZERO;
        until(job, async || {
            called(locks).await.is_some_and(|(holder, waiter, time)| {
                held = time;
                holder == job && waiter.as_deref() == Some("job λ")
            })
        })
        .await;
        held
    };
    let held = until_called(&third, "job 17").await;
    let own = until_called(&first, "job 17").await;
    assert!(own >= held, "{own:?} {held:?}");
    // The next lease is held from the hand-over on. The server doesn't know about the hand-over.
    let released = Instant::now();
    lease.release().await?;
    let lease = soon("the lock", next).await??;
    let later = until_called(&third, "job 18").await;
    assert!(later <= released.elapsed(), "{later:?} after {:?}", released.elapsed());
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn readers_permits_and_several_names_have_labels_of_their_leases() -> Tested {
    let server = Server::start()?;
    let (first, second) = (introduced(&server, "web-1").await?, labelled(&server, "web-2").await?);
    let _leases = (
        first.read_write("page").read().label("reader").acquire().await?,
        first.multi(["a", "b"]).label("both").acquire().await?,
        first.semaphore("reports", 5).permits(2).label("one").acquire().await?,
        first.semaphore("reports", 5).permits(1).label("two").acquire().await?,
    );
    for (name, expected) in [("page", "reader"), ("a", "both"), ("b", "both"), ("reports", "one, two")] {
        until(name, async || {
            second.inspect(name).await.is_ok_and(|seen| {
                !seen.holders.is_empty()
                    && seen.holders.iter().all(|holder| holder.lease_label.as_deref() == Some(expected))
            })
        })
        .await;
    }
    Ok(())
}

#[tokio::test]
async fn a_holder_without_a_subscription_is_not_waited_for_and_a_silent_one_not_for_long() -> Tested {
    let server = Server::start()?;
    let (first, second) = (labelled(&server, "web-1").await?, labelled(&server, "web-2").await?);
    let _lease = first.mutex("door").label("job 17").acquire().await?;
    // Another client's channel has a subscriber that says nothing.
    let id = "0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b";
    let mut listener = server.connect()?;
    listener.call(&["SUBSCRIBE", &format!("leasehold:{id}")])?;
    server.cli(&["SET", "gate", &format!("{id}:1 5"), "PX", "60000"])?;
    let inspect = async |name: &str| {
        let began = Instant::now();
        let seen = second.inspect(name).await.ok()?;
        assert_eq!(seen.holders.first()?.lease_label, None);
        Some(began.elapsed())
    };
    let patience = Duration::from_millis(95);
    // On a slow machine, a call may take longer for other reasons.
    until("nobody is waited for", async || inspect("door").await.is_some_and(|took| took < patience)).await;
    assert!(soon("an end", inspect("gate")).await.is_some_and(|took| took >= patience));
    Ok(())
}

#[tokio::test]
async fn without_messages_the_labels_of_leases_are_missing() -> Tested {
    let rules = "on ~* resetchannels +@all >secret";
    let server = Server::builder().acl("app", rules).start()?;
    let url = format!("redis://app:secret@127.0.0.1:{}/", server.port());
    let (first, second) = (options().connect(&url).await?, options().connect(&url).await?);
    let _lease = first.mutex("door").label("job 17").acquire().await?;
    let label = async |locks: &LockManager| {
        Ok::<_, leasehold::Error>(locks.inspect("door").await?.holders[0].lease_label.clone())
    };
    assert_eq!(label(&second).await?, None);
    assert_eq!(label(&first).await?.as_deref(), Some("job 17"), "its own needs no message");
    Ok(())
}

#[tokio::test]
async fn readers_and_holders_of_permits_have_labels_too() -> Tested {
    let server = Server::start()?;
    let (first, second) = (introduced(&server, "web-1").await?, introduced(&server, "web-2").await?);
    let _page = (first.read_write("page").read().acquire().await?, second.read_write("page").read().acquire().await?);
    let _permits = first.semaphore("reports", 5).permits(2).acquire().await?;
    for (name, expected) in [("page", vec!["web-1", "web-2"]), ("reports", vec!["web-1"])] {
        let labels = async || -> Option<Vec<String>> {
            let seen = second.inspect(name).await.ok()?;
            seen.holders.into_iter().map(|holder| holder.label).collect()
        };
        let mut labels = labels().await.ok_or("all have labels")?;
        labels.sort();
        assert_eq!(labels, expected, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn a_busy_error_tells_who_holds_the_lock_and_for_how_long() -> Tested {
    let server = Server::start()?;
    let (first, second) = (introduced(&server, "web-3/4711").await?, labelled(&server, "web-4/1").await?);
    let _lease = first.mutex("door").acquire().await?;
    let wait = Duration::from_millis(500);
    // On a slow machine, the wait may be over before the answers about the holder are there.
    let mut error = busy(second.mutex("door"), wait).await;
    until("the holder is known", async || {
        error = busy(second.mutex("door"), wait).await;
        error.holder().is_some_and(|holder| holder.label.is_some())
    })
    .await;
    let holder = error.holder().ok_or("the holder is known")?;
    assert_eq!(holder.label.as_deref(), Some("web-3/4711"));
    assert!(!holder.own && holder.held.is_some_and(|held| held >= wait - wait / 10), "{holder:?}");
    let text = error.to_string();
    assert!(
        error.waited() >= Some(wait)
            && text.starts_with("lock `door`: busy after ")
            && text.contains("; held by web-3/4711 for "),
        "{text}"
    );
    assert!(text.contains("; its lease expires in "), "{text}");
    // A caller of the same client holds it.
    let error = busy(first.mutex("door"), wait).await;
    assert!(
        error.holder().is_some_and(|holder| holder.own && holder.label.as_deref() == Some("web-3/4711")),
        "{error}"
    );
    assert!(error.to_string().contains("; held by this process (web-3/4711)"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_label_is_deleted_by_close_and_lasts_a_day_without_it() -> Tested {
    let server = Server::start()?;
    let locks = introduced(&server, "web-1").await?;
    let lease = locks.mutex("door").acquire().await?;
    assert_eq!(labels(&server)?, ["web-1"]);
    let key = keys(&server)?.into_iter().find(|key| key.starts_with("leasehold:client:")).ok_or("the label")?;
    let ttl = server.cli(&["PTTL", &key])?.integer().ok_or("a TTL")?;
    assert!((80_000_000..=86_400_000).contains(&ttl), "{ttl}");
    drop(lease);
    locks.close().await;
    assert!(labels(&server)?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_dropped_manager_deletes_its_label_too() -> Tested {
    let server = Server::start()?;
    let locks = introduced(&server, "web-1").await?;
    let lease = locks.mutex("door").acquire().await?;
    assert_eq!(labels(&server)?, ["web-1"]);
    drop((lease, locks));
    until("the label is gone", async || labels(&server).is_ok_and(|labels| labels.is_empty())).await;
    Ok(())
}

#[tokio::test]
async fn a_server_that_restarts_empty_gets_the_label_again() -> Tested {
    let mut server = Server::start()?;
    let locks = introduced(&server, "web-1").await?;
    let _lease = locks.mutex("door").acquire().await?;
    assert_eq!(labels(&server)?, ["web-1"]);
    server.restart()?;
    introduce(&locks, &server).await?;
    until("the label is there again", async || labels(&server).is_ok_and(|labels| labels == ["web-1"])).await;
    Ok(())
}

#[tokio::test]
async fn without_the_right_to_labels_everything_works_and_they_are_missing() -> Tested {
    let rules = "on ~door ~leasehold:{* ~leasehold:fence resetchannels &leasehold:* +@all >secret";
    let server = Server::builder().acl("app", rules).start()?;
    let url = format!("redis://app:secret@127.0.0.1:{}/", server.port());
    let (first, second) =
        (options().label("web-1").connect(&url).await?, options().label("web-2").connect(&url).await?);
    let lease = first.mutex("door").acquire().await?;
    let waiting = queued(&server, second.mutex("door")).await;
    let seen = second.inspect("door").await?;
    assert_eq!((seen.holders.len(), seen.waiters.len()), (1, 1));
    // The client's own label needs no server.
    assert_eq!((seen.holders[0].label.as_deref(), seen.waiters[0].label.as_deref()), (None, Some("web-2")));
    lease.release().await?;
    let lease = soon("the lock", waiting).await??;
    assert!(lease.verify().await?);
    soon("the end", second.close()).await;
    assert!(labels(&server)?.is_empty());
    Ok(())
}

#[tokio::test]
async fn in_a_cluster_a_label_is_where_its_own_key_is_and_clients_hear_each_other() -> Tested {
    let cluster = Cluster::steady(Server::builder)?;
    let (first, second) = (
        options().label("web-1").cluster(cluster.urls()).await?,
        options().label("web-2").cluster(cluster.urls()).await?,
    );
    let mut leases = Vec::new();
    for name in 0..3 {
        leases.push(first.mutex(unique(&name.to_string())).label("job 17").acquire().await?);
    }
    // With its first wait, a client writes its label to the server and subscribes.
    let _other = second.mutex("other").acquire().await?;
    let _waiting = begin(first.mutex("other"));
    for lease in &leases {
        let label = async || second.inspect(lease.name()).await.ok()?.holders.first()?.label.clone();
        until("it has told", async || label().await.as_deref() == Some("web-1")).await;
        let of_lease = async || second.inspect(lease.name()).await.ok()?.holders.first()?.lease_label.clone();
        until("it answers", async || of_lease().await.as_deref() == Some("job 17")).await;
        let known = async || {
            let error = busy(second.mutex(lease.name()), MOMENT).await;
            error.holder().is_some_and(|holder| holder.label.as_deref() == Some("web-1"))
        };
        until("the error tells it", known).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_label_that_is_too_long_or_has_control_characters_is_refused_before_anything_is_sent() -> Tested {
    for label in ["x".repeat(1 << 20), "x".repeat(129), "a\nb".to_owned(), "\u{1b}[2J".to_owned(), "é".repeat(65)] {
        let error = options().label(label).connect("redis://127.0.0.1:1/").await.unwrap_err();
        assert_eq!(error.code(), "invalid-option");
        assert!(error.to_string().starts_with("`label` "), "{error}");
    }
    let server = Server::start()?;
    let locks = options().label("é".repeat(64)).connect(&server.url()).await?;
    assert!(locks.mutex("door").label("é".repeat(64)).acquire().await.is_ok());
    for label in ["x".repeat(1 << 20), "x".repeat(129), "a\nb".to_owned()] {
        let error = locks.mutex("other").label(label).acquire().await.unwrap_err();
        assert_eq!(error.code(), "invalid-option");
        assert!(error.to_string().contains("`label` "), "{error}");
    }
    assert!(!keys(&server)?.iter().any(|key| key == "other"));
    Ok(())
}

#[tokio::test]
async fn by_default_a_label_is_the_host_and_the_process() -> Tested {
    let server = Server::start()?;
    introduce(&client(&server).await?, &server).await?;
    let (told, process) = (labels(&server)?, format!("/{}", std::process::id()));
    assert!(told.len() == 1 && told[0].ends_with(&process) && told[0].len() > process.len(), "{told:?}");
    Ok(())
}
