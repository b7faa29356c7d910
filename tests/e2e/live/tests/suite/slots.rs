//! One address that enforces the slots of a cluster.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Error, LockManager, Owner, redis_1};
use leasehold_live::{CLOSE, FENCE, Tested, ToyServer, client, is_there, keys, options, shared_server, unique, until};
use leasehold_servers::Server;

use super::acl::{PASSWORD, use_every_branch, user};

const LOADING: &str = "-LOADING Redis is loading the dataset in memory\r\n";
const BUSY: &str = "-BUSY Redis is busy running a script\r\n";
const CROSSSLOT: &str = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";

#[tokio::test]
async fn every_kind_works_where_one_address_enforces_slots() -> Tested {
    let server = Server::builder().start_enforcing_slots()?;
    let [first, second] = [client(&server).await?, options().cluster_slots(true).connect(server.url()).await?];
    use_every_branch(&server, [first.clone(), second.clone()], "lock:door").await?;

    let owner = Owner::new();
    let outer = first.reentrant("again", &owner).acquire().await?;
    first.reentrant("again", &owner).try_acquire().await?.expect("its owner has it").release().await?;
    assert!(second.reentrant("again", &Owner::new()).try_acquire().await?.is_none());
    outer.release().await?;

    let permit = first.semaphore("few", 1).acquire().await?;
    assert!(second.semaphore("few", 1).try_acquire().await?.is_none());
    permit.release().await?;

    // In different slots, as in a cluster.
    let both = first.multi(["one", "other"]).acquire().await?;
    assert!(second.mutex("other").try_acquire().await?.is_none());
    both.release().await?;
    let together = first.multi(["one", "other"]).one_script().acquire().await;
    assert!(matches!(together, Err(Error::CrossSlot { .. })), "{together:?}");

    let lease = first.mutex("door").acquire().await?;
    assert_eq!(second.force_release("door").await?, 1);
    assert!(second.mutex("door").acquire().await?.fence() > lease.fence());
    let counters: Vec<_> = keys(&server)?.into_iter().filter(|key| key.starts_with(FENCE)).collect();
    assert!(!is_there(&server, FENCE)? && counters.len() > 1, "each slot has a counter: {counters:?}");

    // A client that doesn't ask has one counter for all slots.
    let mute = options().cluster_slots(false).connect(server.url()).await?;
    let error = mute.mutex("door").acquire().await.err();
    let text = error.as_ref().map(ToString::to_string).unwrap_or_default();
    assert!(matches!(error, Some(Error::Unsupported { .. })) && text.contains("enforces the slots"), "{text}");
    Ok(())
}

#[tokio::test]
async fn a_connection_of_ones_own_and_a_user_with_few_keys_find_out_too() -> Tested {
    let server = Server::builder().start_enforcing_slots()?;
    let connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    let locks = LockManager::from_connection(redis_1::connection(connection)).await?;
    locks.mutex("door").acquire().await?.release().await?;
    let keys = ["~orders:*", "~leasehold:{orders:*", "~leasehold:fence:*"].map(str::to_owned);
    let rules = ["on", ">secret", "&leasehold:*", "+@all"].map(str::to_owned).into_iter().chain(keys);
    let url = user(&server, "tenant", &rules.collect::<Vec<_>>())?;
    let locks = options().connect(url.as_str()).await?;
    locks.mutex("orders:7").acquire().await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn the_option_is_refused_where_the_server_takes_keys_of_different_slots() -> Tested {
    let server = shared_server();
    let refused = options().cluster_slots(true).connect(server.url()).await.err();
    assert_refused(refused, "leave it out");
    let locks = options().cluster_slots(false).connect(server.url()).await?;
    locks.mutex(unique("door")).acquire().await?.release().await?;
    // Where a server can't be such an address, it is not even asked.
    let slots = || options().cluster_slots(true);
    assert_refused(slots().sentinel("main", [server.url()]).await.err(), "behind Sentinel");
    assert_refused(slots().quorum([server.url()]).await.err(), "in a quorum");
    let without_scripts = slots().without_scripts().connect(server.url()).await.err();
    assert!(
        matches!(without_scripts, Some(Error::InvalidOption { field: "without_scripts", .. })),
        "{without_scripts:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_server_that_does_not_tell_is_used_without_slots_and_refuses_the_option() -> Tested {
    let server = Server::start()?;
    let rules = ["on", ">secret", "~*", "&*", "+@all", "-eval"].map(str::to_owned);
    assert!(rules[1].ends_with(PASSWORD));
    let url = user(&server, "mute", &rules)?;
    options().connect(url.as_str()).await?;
    assert_refused(options().cluster_slots(true).connect(url.as_str()).await.err(), "NOPERM");

    // This one closes the connection at both questions.
    let toy = ToyServer::start(|words| match words.first().map(String::as_str) {
        Some("INFO" | "EVAL") => CLOSE.to_owned(),
        Some("PING") => "+PONG\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    })?;
    options().connect(toy.url()).await?;
    let refused = options().cluster_slots(true).connect(toy.url()).await.err();
    assert!(matches!(refused, Some(Error::Unreachable { .. })), "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn a_manager_connects_while_a_server_is_not_ready_and_grants_nothing_before_it_has_told_about_slots() -> Tested {
    for slots in [None, Some(true)] {
        for (last, code) in [(CROSSSLOT, "protocol"), (":0\r\n", "invalid-option")] {
            let (questions, infos) = (AtomicU32::new(0), AtomicU32::new(0));
            let scripts = Arc::new(Mutex::new(Vec::new()));
            let sent = Arc::clone(&scripts);
            let toy = ToyServer::start(move |words| match words.first().map(String::as_str) {
                Some("INFO") if infos.fetch_add(1, Ordering::Relaxed) < 3 => BUSY.to_owned(),
                Some("EVAL") => match questions.fetch_add(1, Ordering::Relaxed) {
                    0 => LOADING.to_owned(),
                    1 => BUSY.to_owned(),
                    _ => last.to_owned(),
                },
                // No script answers that, so the call ends.
                Some("EVALSHA") => {
                    sent.lock().unwrap().push(words.to_vec());
                    "+OK\r\n".to_owned()
                }
                _ => "+OK\r\n".to_owned(),
            })?;
            let builder = slots.map_or(options(), |wanted| options().cluster_slots(wanted));
            let locks = builder.connect(toy.url()).await?;
            let error = locks.mutex("door").acquire().await.unwrap_err();
            let has_slots = last == CROSSSLOT;
            let code = if has_slots || slots.is_some() { code } else { "protocol" };
            assert_eq!(error.code(), code, "{error}");
            assert_eq!(error.to_string().contains("leave it out"), code == "invalid-option", "{error}");
            let scripts = scripts.lock().unwrap();
            assert_eq!(scripts.is_empty(), code == "invalid-option", "{scripts:?}");
            let has_counter = |words: &Vec<String>| words.iter().any(|word| word.starts_with("leasehold:fence:{"));
            assert!(scripts.iter().all(|words| has_counter(words) == has_slots), "{scripts:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_call_ends_at_its_wait_with_the_words_of_a_server_that_never_gets_ready() -> Tested {
    for slots in [None, Some(true)] {
        let scripts = Arc::new(AtomicU32::new(0));
        let sent = Arc::clone(&scripts);
        let toy = ToyServer::start(move |words| match words.first().map(String::as_str) {
            Some("EVAL") => LOADING.to_owned(),
            Some("EVALSHA") => {
                sent.fetch_add(1, Ordering::Relaxed);
                CLOSE.to_owned()
            }
            _ => "+OK\r\n".to_owned(),
        })?;
        assert_unreachable(toy.url(), slots, "LOADING Redis is loading").await;
        assert_eq!(scripts.load(Ordering::Relaxed), 0, "nothing is asked for before the server has told");
    }
    Ok(())
}

#[tokio::test]
async fn a_manager_connects_while_a_long_script_runs_and_a_waiter_gets_the_lock_after_it() -> Tested {
    for enforces in [false, true] {
        let builder = Server::builder().arg("--lua-time-limit", "1");
        let server = if enforces { builder.start_enforcing_slots()? } else { builder.start()? };
        let script = {
            let mut connection = server.connect()?;
            std::thread::spawn(move || connection.call(&["EVAL", "while true do end", "0"]).map(drop))
        };
        let mut side = server.connect()?;
        until("the script runs", async || {
            side.call(&["PING"]).is_ok_and(|reply| format!("{reply:?}").contains("BUSY"))
        })
        .await;
        let locks = client(&server).await?;
        let waiting = tokio::spawn(async move { locks.mutex("door").acquire().await });
        assert_unreachable(server.url(), None, "BUSY ").await;
        assert!(!waiting.is_finished());
        server.cli(&["SCRIPT", "KILL"])?;
        let lease = waiting.await??;
        assert_eq!(is_there(&server, FENCE)?, !enforces, "each slot has a counter, or the server");
        lease.release().await?;
        script.join().expect("it ended").ok();
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_restarts_behind_a_balancer_is_no_proxy_that_closes_at_a_question() -> Tested {
    // The balancer accepts connections and closes them while its server is down. It goes down before or during the questions.
    let once = (0..22).map(|command| command..command + 1);
    for down in (0..7).map(|last| 0..last).chain(once) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answered = Arc::clone(&asked);
        let (commands, closes) = (AtomicU32::new(0), down.clone());
        let toy = ToyServer::start(move |words| {
            if closes.contains(&commands.fetch_add(1, Ordering::Relaxed)) {
                return CLOSE.to_owned();
            }
            let command = words.first().cloned().unwrap_or_default();
            let answer = if command == "EVAL" { CROSSSLOT } else { "+OK\r\n" };
            answered.lock().unwrap().push(command);
            answer.to_owned()
        })?;
        match options().connect(toy.url()).await {
            Err(error) => assert!(error.is_retryable(), "{down:?}: {error}"),
            Ok(_) => {
                let asked = asked.lock().unwrap();
                assert!(
                    ["INFO", "EVAL", "GET"].iter().all(|name| asked.contains(&name.to_string())),
                    "{down:?}: {asked:?}"
                );
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_node_whose_cluster_is_not_ready_is_asked_again_whether_other_nodes_have_slots() -> Tested {
    let toy = |unready: u32| {
        let questions = AtomicU32::new(0);
        ToyServer::start(move |words| match words.first().map(String::as_str) {
            Some("EVAL") => CROSSSLOT.to_owned(),
            Some("GET") if questions.fetch_add(1, Ordering::Relaxed) < unready => {
                "-CLUSTERDOWN The cluster is down\r\n".to_owned()
            }
            Some("GET") => "-MOVED 1024 127.0.0.1:7001\r\n".to_owned(),
            _ => "+OK\r\n".to_owned(),
        })
    };
    let locks = options().connect(toy(32)?.url()).await?;
    for _ in 0..2 {
        let error = locks.mutex("door").acquire().await.unwrap_err();
        assert!(error.code() == "unsupported" && error.to_string().contains("`LockManager::cluster`"), "{error}");
    }
    assert_unreachable(toy(u32::MAX)?.url(), None, "CLUSTERDOWN The cluster is down").await;

    // One slot without a server does no harm to the others.
    let questions = AtomicU32::new(0);
    let toy = ToyServer::start(move |words| match words.first().map(String::as_str) {
        Some("EVAL") => CROSSSLOT.to_owned(),
        Some("GET") if questions.fetch_add(1, Ordering::Relaxed) == 7 => {
            "-CLUSTERDOWN Hash slot not served\r\n".to_owned()
        }
        Some("GET") => "$-1\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    })?;
    options().connect(toy.url()).await?;
    Ok(())
}

#[tokio::test]
async fn a_node_that_lacks_few_slots_grants_the_other_locks_and_says_how_to_connect_for_those() -> Tested {
    let start = || Server::builder().arg("--cluster-enabled", "yes").start();
    let [node, other] = [start()?, start()?];
    let slots = (0..16_384).map(|slot| slot.to_string());
    let words: Vec<String> = ["CLUSTER", "ADDSLOTS"].map(str::to_owned).into_iter().chain(slots).collect();
    node.cli(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
    let [id, slot] = [other.cli(&["CLUSTER", "MYID"])?, node.cli(&["CLUSTER", "KEYSLOT", "door"])?];
    let (id, slot) = (id.text().unwrap_or_default(), slot.integer().unwrap_or_default().to_string());
    node.cli(&["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()])?;
    until("they know each other", async || node.cli(&["CLUSTER", "SETSLOT", &slot, "NODE", id]).is_ok()).await;
    until("the cluster is up", async || {
        let told = node.cli(&["CLUSTER", "INFO"]);
        told.is_ok_and(|told| told.text().is_some_and(|text| text.contains("cluster_state:ok")))
    })
    .await;
    let locks = client(&node).await?;
    locks.mutex("window").acquire().await?.release().await?;
    let error = locks.mutex("door").acquire().await.unwrap_err();
    let text = error.to_string();
    assert!(error.code() == "unsupported" && text.contains("`LockManager::cluster`: MOVED "), "{text}");
    Ok(())
}

/// A manager connects, and its calls end with this text, unless a busy machine lets no answer arrive in time.
async fn assert_unreachable(url: String, slots: Option<bool>, why: &str) {
    until("the server's answer in the error", async || {
        let options = LockManager::builder().response_timeout(Duration::from_millis(300));
        let options = slots.map_or(options.clone(), |wanted| options.cluster_slots(wanted));
        let called = async {
            let locks = options.connect(url.as_str()).await?;
            locks.mutex("other").wait(Duration::from_millis(300)).acquire().await
        };
        let error = called.await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }) && error.is_retryable(), "{slots:?}: {error:?}");
        error.name() == Some("other") && error.to_string().contains(why)
    })
    .await;
}

fn assert_refused(error: Option<Error>, why: &str) {
    let text = error.as_ref().map(ToString::to_string).unwrap_or_default();
    assert!(matches!(&error, Some(Error::InvalidOption { field: "cluster_slots", .. })), "{error:?}");
    assert!(text.contains(why), "{text}");
}
