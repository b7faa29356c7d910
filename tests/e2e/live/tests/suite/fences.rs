//! The counter that all names of a server draw their fences from.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold::{Error, LockManager, Wait};
use leasehold_live::{FENCE, LONG, Tested, busy, client, keys, options, soon, text};
use leasehold_servers::Server;
use tokio::task::JoinSet;

/// A client without a label, which would be one more key as soon as a lease is held for a second.
async fn unnamed(server: &Server) -> Result<LockManager, Error> {
    options().label("").connect(&server.url()).await
}

#[tokio::test]
async fn after_a_thousand_names_were_locked_and_released_the_counter_is_the_only_key() -> Tested {
    let server = Server::start()?;
    let locks = unnamed(&server).await?;
    let mut leases = Vec::new();
    for name in 0..1_000 {
        leases.push(match name % 4 {
            0 => locks.read_write(format!("page {name}")).read().acquire().await?,
            1 => locks.semaphore(format!("permits {name}"), 3).acquire().await?,
            _ => locks.mutex(format!("door {name}")).acquire().await?,
        });
    }
    assert!(keys(&server)?.len() > 1_000);
    for lease in leases {
        lease.release().await?;
    }
    assert_eq!(keys(&server)?, [FENCE]);
    Ok(())
}

#[tokio::test]
async fn a_counter_of_another_version_is_told_with_its_key_and_the_remedy_and_left_alone() -> Tested {
    let server = Server::start()?;
    let locks = unnamed(&server).await?;
    locks.mutex("door").acquire().await?.release().await?;
    for unknown in ["v3:1", "", "-1", "1e3", "9007199254740992"] {
        server.cli(&["SET", FENCE, unknown])?;
        for error in [
            locks.mutex("door").acquire().await.unwrap_err(),
            locks.mutex("door").try_acquire().await.unwrap_err(),
            locks.read_write("door").read().acquire().await.unwrap_err(),
            locks.semaphore("door", 1).acquire().await.unwrap_err(),
            locks.multi(["{door}1", "{door}2"]).acquire().await.unwrap_err(),
        ] {
            assert_eq!(error.code(), "protocol", "{unknown}: {error:?}");
            let message = error.to_string();
            assert!(message.contains(FENCE) && message.contains("DEL"), "{unknown}: {message}");
        }
        assert_eq!(text(&server, &["GET", FENCE])?.as_deref(), Some(unknown));
        assert_eq!(keys(&server)?, [FENCE], "nobody was granted");
    }
    server.cli(&["DEL", FENCE])?;
    locks.mutex("door").acquire().await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_counter_of_another_type_is_told_with_its_key_and_the_remedy_and_left_alone() -> Tested {
    let server = Server::start()?;
    let locks = client(&server).await?;
    let held = locks.read_write("page").read().acquire().await?;
    let waited = busy(client(&server).await?.mutex("page"), Duration::from_millis(500)).await;
    assert_eq!(waited.code(), "busy");
    server.cli(&["DEL", FENCE])?;
    server.cli(&["RPUSH", FENCE, "apple"])?;
    for error in [
        locks.mutex("door").acquire().await.unwrap_err(),
        locks.mutex("door").try_acquire().await.unwrap_err(),
        locks.read_write("door").read().acquire().await.unwrap_err(),
        locks.semaphore("door", 1).acquire().await.unwrap_err(),
        locks.multi(["{door}1", "{door}2"]).acquire().await.unwrap_err(),
        locks.force_release("door").await.unwrap_err(),
        held.upgrade().await.unwrap_err(),
    ] {
        assert_eq!(error.code(), "protocol", "{error:?}");
        let message = error.to_string();
        assert!(message.contains(FENCE) && message.contains("DEL"), "{message}");
    }
    assert_eq!(text(&server, &["LINDEX", FENCE, "0"])?.as_deref(), Some("apple"));
    assert_eq!(server.cli(&["EXISTS", "door", "{door}1", "{door}2"])?.integer(), Some(0), "nobody was granted");
    server.cli(&["DEL", FENCE])?;
    held.upgrade().await?;
    locks.mutex("door").acquire().await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_lock_that_is_held_is_renewed_and_released_beside_a_counter_of_another_version() -> Tested {
    let server = Server::start()?;
    let lease = unnamed(&server).await?.mutex("door").acquire().await?;
    server.cli(&["SET", FENCE, "v3:1"])?;
    assert!(lease.verify().await?);
    lease.extend(LONG * 2).await?;
    lease.release().await?;
    assert_eq!(keys(&server)?, [FENCE]);
    Ok(())
}

#[tokio::test]
async fn fences_rise_from_one_delete_of_the_counter_to_the_next() -> Tested {
    let server = Server::start()?;
    let (first, second) = (client(&server).await?, client(&server).await?);
    let mut last = 0;
    for round in 0..200 {
        let locks = if round % 2 == 0 { &first } else { &second };
        let lease = match round % 3 {
            0 => locks.read_write("door").read().acquire().await?,
            _ => locks.mutex("door").acquire().await?,
        };
        assert!(lease.fence().get() > last, "round {round}");
        last = lease.fence().get();
        server.cli(&["DEL", FENCE])?;
        lease.release().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_force_release_fences_are_above_those_that_the_victim_still_hands_over() -> Tested {
    let server = Server::start()?;
    let (victim, next, operator) = (client(&server).await?, client(&server).await?, client(&server).await?);
    let done = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for _ in 0..8 {
        let (lock, done) = (victim.mutex("door"), done.clone());
        callers.spawn(async move {
            let mut turns = Vec::new();
            while !done.load(Ordering::Relaxed) {
                let lease = lock.acquire().await?;
                turns.push((lease.fence().get(), Instant::now()));
                lease.release().await?;
            }
            Ok::<_, leasehold::Error>(turns)
        });
    }
    let mut forced = Vec::new();
    while forced.len() < 40 {
        operator.force_release("door").await?;
        let lease = soon("the lock", next.mutex("door").wait(Wait::Forever).acquire()).await?;
        // Whoever has a greater fence must have come later than this.
        forced.push((lease.fence().get(), Instant::now()));
        lease.release().await?;
    }
    done.store(true, Ordering::Relaxed);
    let mut turns = Vec::new();
    while let Some(caller) = callers.join_next().await {
        turns.extend(caller??);
    }
    assert!(turns.len() > forced.len(), "the victim's callers had turns");
    for (fence, left) in forced {
        for (other, came) in &turns {
            assert_ne!(*other, fence);
            assert!(*other < fence || *came >= left, "{other} was handed over before {fence} was given back");
        }
    }
    Ok(())
}
