//! The labels of holders and waiters.

use std::time::{Duration, Instant};

use leasehold::{LockManager, Wait};
use leasehold_live::{Tested, begin, keys, quick, soon, unique, until, waiters};
use leasehold_servers::{Cluster, Server};

/// Short enough that the first renewal comes soon, and long enough that a busy machine sends it in time.
const TTL: Duration = Duration::from_millis(1_500);

async fn labelled(server: &Server, label: &str) -> Result<LockManager, leasehold::Error> {
    quick().label(label).connect(&server.url()).await
}

/// The labels on the server.
fn told(server: &Server) -> Result<Vec<String>, leasehold_servers::Error> {
    let keys = keys(server)?.into_iter().filter(|key| key.starts_with("leasehold:client:"));
    keys.map(|key| Ok(server.cli(&["GET", &key])?.text().unwrap_or_default().to_owned())).collect()
}

#[tokio::test]
async fn a_lock_that_is_free_and_soon_given_back_costs_no_command_for_labels() -> Tested {
    let server = Server::start()?;
    let locks = labelled(&server, "web-1/17").await?;
    server.cli(&["CONFIG", "RESETSTAT"])?;
    for _ in 0..100 {
        locks.mutex("door").acquire().await?.release().await?;
    }
    assert!(told(&server)?.is_empty());
    assert_eq!(locks.inspect("door").await?.holders, []);
    let stats = server.cli(&["INFO", "commandstats"])?;
    let stats = stats.text().unwrap_or_default();
    assert!(!stats.contains("cmdstat_subscribe") && !stats.contains("cmdstat_publish"), "{stats}");
    Ok(())
}

#[tokio::test]
async fn inspect_shows_who_holds_a_lock_and_who_waits_and_for_how_long() -> Tested {
    let server = Server::start()?;
    let (first, second) = (labelled(&server, "web-1/17").await?, labelled(&server, "web 2/λ").await?);
    let third = labelled(&server, "").await?;
    let lease = first.mutex("door").ttl(TTL).acquire().await?;
    let waiting = begin(second.mutex("door"));
    until("it waits", async || waiters(&server, "door").is_ok_and(|count| count == 1)).await;
    let other = begin(third.mutex("door"));
    until("it waits", async || waiters(&server, "door").is_ok_and(|count| count == 2)).await;
    let named = async || {
        let seen = third.inspect("door").await.ok()?;
        seen.holders.first()?.label.clone().map(|_| seen)
    };
    until("the holder has renewed", async || named().await.is_some()).await;
    let seen = named().await.ok_or("the holder's label is there")?;
    let [holder] = seen.holders.as_slice() else { return Err("one holds".into()) };
    assert_eq!(holder.label.as_deref(), Some("web-1/17"));
    assert!(holder.held.is_some_and(|held| held >= TTL / 4 && held < Duration::from_secs(8)), "{holder:?}");
    let [waiter, unnamed] = seen.waiters.as_slice() else { return Err("two wait".into()) };
    assert_eq!((waiter.label.as_deref(), unnamed.label.as_deref()), (Some("web 2/λ"), None));
    assert!(waiter.waited.is_some_and(|waited| waited >= TTL / 6 && waited <= holder.held.unwrap_or_default()));
    assert!(unnamed.waited.is_some() && unnamed.waited <= waiter.waited, "{unnamed:?}");
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    soon("the lock", other).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn inspect_shows_what_clients_call_their_leases_and_how_long_they_have_held_them() -> Tested {
    let server = Server::start()?;
    let (first, second) = (labelled(&server, "web-1").await?, labelled(&server, "web-2").await?);
    let third = labelled(&server, "web-3").await?;
    let lease = first.mutex("door").label("job 17").ttl(TTL).acquire().await?;
    let next = begin(first.mutex("door").label("job 18").ttl(TTL));
    let waiting = begin(second.mutex("door").label("job λ"));
    until("it waits", async || waiters(&server, "door").is_ok_and(|count| count == 1)).await;
    let called = async |locks: &LockManager| {
        let seen = locks.inspect("door").await.ok()?;
        let holder = seen.holders.first()?.clone();
        Some((holder.lease_label?, seen.waiters.first()?.lease_label.clone(), holder.held?))
    };
    // A client is not waited for if its answer takes long, as it may on a busy machine.
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
    // The time of the next one begins with the hand-over, of which the server does not know.
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
    let (first, second) = (labelled(&server, "web-1").await?, labelled(&server, "web-2").await?);
    let _leases = (
        first.read_write("page").read().label("reader").ttl(TTL).acquire().await?,
        first.multi(["a", "b"]).label("both").ttl(TTL).acquire().await?,
        first.semaphore("reports", 5).permits(2).label("one").ttl(TTL).acquire().await?,
        first.semaphore("reports", 5).permits(1).label("two").ttl(TTL).acquire().await?,
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
async fn a_holder_without_a_subscription_is_not_waited_for_and_a_silent_one_for_100_ms() -> Tested {
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
    // On a busy machine, a single call can take longer.
    let within = async |name: &str, limit| inspect(name).await.is_some_and(|took| took < Duration::from_millis(limit));
    until("nobody is waited for", async || within("door", 50).await).await;
    assert!(!within("gate", 95).await);
    until("it waits for 100 ms", async || within("gate", 150).await).await;
    Ok(())
}

#[tokio::test]
async fn without_messages_the_labels_of_leases_are_missing() -> Tested {
    let rules = "on ~* resetchannels +@all >secret";
    let server = Server::builder().acl("app", rules).start()?;
    let url = format!("redis://app:secret@127.0.0.1:{}/", server.port());
    let (first, second) = (quick().connect(&url).await?, quick().connect(&url).await?);
    let _lease = first.mutex("door").label("job 17").ttl(TTL).acquire().await?;
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
    let (first, second) = (labelled(&server, "web-1").await?, labelled(&server, "web-2").await?);
    let _page = (
        first.read_write("page").read().ttl(TTL).acquire().await?,
        second.read_write("page").read().ttl(TTL).acquire().await?,
    );
    let _permits = first.semaphore("reports", 5).permits(2).ttl(TTL).acquire().await?;
    for (name, expected) in [("page", vec!["web-1", "web-2"]), ("reports", vec!["web-1"])] {
        let labels = async || -> Option<Vec<String>> {
            let seen = second.inspect(name).await.ok()?;
            seen.holders.into_iter().map(|holder| holder.label).collect()
        };
        until("they have renewed", async || labels().await.is_some()).await;
        let mut labels = labels().await.ok_or("all have labels")?;
        labels.sort();
        assert_eq!(labels, expected, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn a_busy_error_tells_who_holds_the_lock_and_for_how_long() -> Tested {
    let server = Server::start()?;
    let (first, second) = (labelled(&server, "web-3/4711").await?, labelled(&server, "web-4/1").await?);
    let _lease = first.mutex("door").ttl(TTL).acquire().await?;
    until("the holder has renewed", async || told(&server).is_ok_and(|told| told == ["web-3/4711"])).await;
    let wait = Duration::from_millis(1_500);
    let start = Instant::now();
    let error = second.mutex("door").wait(Wait::For(wait)).acquire().await.unwrap_err();
    assert!(start.elapsed() < wait * 3, "{:?}", start.elapsed());
    let holder = error.holder().ok_or("the holder is known")?;
    assert_eq!(holder.label.as_deref(), Some("web-3/4711"));
    assert!(!holder.own && holder.held.is_some_and(|held| held >= TTL / 4 + wait), "{holder:?}");
    let text = error.to_string();
    assert!(
        error.waited() >= Some(wait)
            && text.starts_with("lock `door`: busy after ")
            && text.contains("; held by web-3/4711 for "),
        "{text}"
    );
    assert!(text.contains("; its lease expires in "), "{text}");
    // A caller of the same client holds it.
    let error = first.mutex("door").wait(Wait::For(wait)).acquire().await.unwrap_err();
    assert!(
        error.holder().is_some_and(|holder| holder.own && holder.label.as_deref() == Some("web-3/4711")),
        "{error}"
    );
    assert!(error.to_string().contains("; held by this process (web-3/4711)"), "{error}");
    Ok(())
}

#[tokio::test]
async fn the_holder_in_a_busy_error_is_the_last_one() -> Tested {
    let server = Server::start()?;
    let (first, second) = (labelled(&server, "first").await?, labelled(&server, "second").await?);
    let third = labelled(&server, "third").await?;
    let lease = first.mutex("door").acquire().await?;
    let waiting = begin(second.mutex("door"));
    until("it waits", async || waiters(&server, "door").is_ok_and(|count| count == 1)).await;
    let late = begin(third.mutex("door").wait(Wait::For(Duration::from_secs(4))));
    until("it waits", async || waiters(&server, "door").is_ok_and(|count| count == 2)).await;
    lease.release().await?;
    let _second = soon("the lock", waiting).await??;
    let error = soon("the end of the wait", late).await?.unwrap_err();
    assert_eq!(error.holder().and_then(|holder| holder.label.as_deref()), Some("second"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_label_is_deleted_by_close_and_lasts_a_day_without_it() -> Tested {
    let server = Server::start()?;
    let locks = labelled(&server, "web-1").await?;
    let lease = locks.mutex("door").ttl(TTL).acquire().await?;
    until("it has renewed", async || told(&server).is_ok_and(|told| told == ["web-1"])).await;
    let key = keys(&server)?.into_iter().find(|key| key.starts_with("leasehold:client:")).ok_or("the label")?;
    let ttl = server.cli(&["PTTL", &key])?.integer().ok_or("a TTL")?;
    assert!((80_000_000..=86_400_000).contains(&ttl), "{ttl}");
    drop(lease);
    locks.close().await;
    assert!(told(&server)?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_dropped_manager_deletes_its_label_too() -> Tested {
    let server = Server::start()?;
    let locks = labelled(&server, "web-1").await?;
    let lease = locks.mutex("door").ttl(TTL).acquire().await?;
    until("it has renewed", async || told(&server).is_ok_and(|told| told == ["web-1"])).await;
    drop((lease, locks));
    until("the label is gone", async || told(&server).is_ok_and(|told| told.is_empty())).await;
    Ok(())
}

#[tokio::test]
async fn a_server_that_restarts_empty_gets_the_label_again() -> Tested {
    let mut server = Server::start()?;
    let locks = labelled(&server, "web-1").await?;
    let door = locks.mutex("door").ttl(TTL);
    let _lease = door.acquire().await?;
    until("it has renewed", async || told(&server).is_ok_and(|told| told == ["web-1"])).await;
    server.restart()?;
    until("the label is there again", async || told(&server).is_ok_and(|told| told == ["web-1"])).await;
    Ok(())
}

#[tokio::test]
async fn without_the_right_to_labels_everything_works_and_they_are_missing() -> Tested {
    let rules = "on ~door ~leasehold:{* ~leasehold:fence resetchannels &leasehold:* +@all >secret";
    let server = Server::builder().acl("app", rules).start()?;
    let url = format!("redis://app:secret@127.0.0.1:{}/", server.port());
    let (first, second) = (quick().label("web-1").connect(&url).await?, quick().label("web-2").connect(&url).await?);
    let lease = first.mutex("door").ttl(TTL).acquire().await?;
    let waiting = begin(second.mutex("door"));
    until("it waits", async || waiters(&server, "door").is_ok_and(|count| count == 1)).await;
    let seen = second.inspect("door").await?;
    assert_eq!((seen.holders.len(), seen.waiters.len()), (1, 1));
    // The client's own label needs no server.
    assert_eq!((seen.holders[0].label.as_deref(), seen.waiters[0].label.as_deref()), (None, Some("web-2")));
    lease.release().await?;
    let lease = soon("the lock", waiting).await??;
    assert!(lease.verify().await?);
    soon("the end", second.close()).await;
    assert!(told(&server)?.is_empty());
    Ok(())
}

#[tokio::test]
async fn in_a_cluster_a_label_is_where_its_own_key_is_and_clients_hear_each_other() -> Tested {
    let cluster = Cluster::start(Server::builder)?;
    let (first, second) =
        (quick().label("web-1").cluster(cluster.urls()).await?, quick().label("web-2").cluster(cluster.urls()).await?);
    let mut leases = Vec::new();
    for name in 0..3 {
        leases.push(first.mutex(unique(&name.to_string())).label("job 17").ttl(TTL).acquire().await?);
    }
    for lease in &leases {
        let label = async || second.inspect(lease.name()).await.ok()?.holders.first()?.label.clone();
        until("it has renewed", async || label().await.as_deref() == Some("web-1")).await;
        let of_lease = async || second.inspect(lease.name()).await.ok()?.holders.first()?.lease_label.clone();
        until("it answers", async || of_lease().await.as_deref() == Some("job 17")).await;
        let error = second.mutex(lease.name()).wait(Wait::For(TTL)).acquire().await.unwrap_err();
        assert_eq!(error.holder().and_then(|holder| holder.label.as_deref()), Some("web-1"), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn a_label_that_is_too_long_or_has_control_characters_is_refused_before_anything_is_sent() -> Tested {
    for label in ["x".repeat(1 << 20), "x".repeat(129), "a\nb".to_owned(), "\u{1b}[2J".to_owned(), "é".repeat(65)] {
        let error = quick().label(label).connect("redis://127.0.0.1:1/").await.unwrap_err();
        assert_eq!(error.code(), "invalid-option");
        assert!(error.to_string().starts_with("`label` "), "{error}");
    }
    let server = Server::start()?;
    let locks = quick().label("é".repeat(64)).connect(&server.url()).await?;
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
    let locks = quick().connect(&server.url()).await?;
    let _lease = locks.mutex("door").ttl(TTL).acquire().await?;
    let process = format!("/{}", std::process::id());
    until("it has renewed", async || {
        told(&server).is_ok_and(|told| told.len() == 1 && told[0].ends_with(&process) && told[0].len() > process.len())
    })
    .await;
    Ok(())
}
