//! The lock's name holds something that is not our lock, or parts of a lock are missing.

use std::time::{Duration, Instant};

use leasehold_live::{
    ASKING, FENCE, LONG, Tested, begin, busy, client, endless_keys, keys, options, queued, shared_server, side, soon,
    text, unique, until, waiters,
};
use leasehold_servers::Server;

#[tokio::test]
async fn a_key_of_another_type_is_told_as_such_and_left_alone() -> Tested {
    let (server, name) = (shared_server(), unique("basket"));
    let locks = client(server).await?;
    server.cli(&["HSET", &name, "apples", "3"])?;
    for error in [
        locks.mutex(&name).acquire().await.unwrap_err(),
        locks.mutex(&name).try_acquire().await.unwrap_err(),
        locks.read_write(&name).read().acquire().await.unwrap_err(),
        locks.inspect(&name).await.unwrap_err(),
    ] {
        assert_eq!((error.code(), error.name()), ("wrong-kind", Some(name.as_str())), "{error:?}");
        assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    }
    assert_eq!(text(server, &["HGET", &name, "apples"])?.as_deref(), Some("3"));
    server.cli(&["DEL", &name])?;
    locks.mutex(&name).acquire().await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_side_key_of_another_type_that_is_needed_is_told_as_such_and_left_alone() -> Tested {
    let (server, locks) = (shared_server(), client(shared_server()).await?);
    for kind in ["queue", "waiters"] {
        let name = unique("basket");
        let key = side(&name, kind);
        server.cli(&["RPUSH", &key, "apple"])?;
        // The waiters are read only if somebody waits.
        if kind == "waiters" {
            server.cli(&["ZADD", &side(&name, "queue"), "1", "01234567-89ab-cdef-0123-456789abcdef:1"])?;
        }
        let error = locks.read_write(&name).read().acquire().await.unwrap_err();
        assert_eq!(error.code(), "wrong-kind", "{kind}: {error:?}");
        assert_eq!(text(server, &["LINDEX", &key, "0"])?.as_deref(), Some("apple"));
        assert_eq!(server.cli(&["EXISTS", &name])?.integer(), Some(0), "{kind}: nothing was written");
        server.cli(&["DEL", &key])?;
    }
    Ok(())
}

#[tokio::test]
async fn a_foreign_key_without_ttl_is_busy_and_left_alone() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let locks = client(server).await?;
    server.cli(&["SET", &name, "for ever"])?;
    assert!(locks.mutex(&name).try_acquire().await?.is_none());
    let wait = Duration::from_millis(500);
    let start = Instant::now();
    let error = busy(locks.mutex(&name), wait).await;
    assert!(start.elapsed() >= wait, "{:?}", start.elapsed());
    assert_eq!((error.code(), error.holder_remaining()), ("busy", None));
    let seen = locks.inspect(&name).await?;
    assert!(seen.holders.iter().all(|holder| holder.foreign && holder.remaining.is_none()));
    assert_eq!(seen.holders.len(), 1);
    assert_eq!(text(server, &["GET", &name])?.as_deref(), Some("for ever"));
    server.cli(&["DEL", &name])?;
    Ok(())
}

#[tokio::test]
async fn a_foreign_key_without_ttl_that_is_deleted_lets_a_waiter_in() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let waiting = {
        server.cli(&["SET", &name, "for ever"])?;
        begin(options().claim_window(ASKING).connect(&server.url()).await?.mutex(&name))
    };
    until("it waits", async || waiters(server, &name).is_ok_and(|count| count == 1)).await;
    server.cli(&["DEL", &name])?;
    soon("the lock", waiting).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn every_key_but_the_counter_has_a_ttl_and_no_name_leaves_a_key_behind() -> Tested {
    let server = Server::start()?;
    let all_end = || endless_keys(&server).map(|endless| assert_eq!(endless, [FENCE]));
    let (first, second) = (client(&server).await?, client(&server).await?);
    for name in ["door", "{door}", "a{door}b"] {
        let lease = first.mutex(name).acquire().await?;
        all_end()?;
        let waiting = queued(&server, second.read_write(name).read()).await;
        all_end()?;
        lease.extend(LONG * 2).await?;
        lease.downgrade().await?;
        let reader = soon("the other reader", waiting).await??;
        all_end()?;
        assert_eq!(busy(second.mutex(name), Duration::from_millis(500)).await.code(), "busy");
        all_end()?;
        reader.release().await?;
        lease.upgrade().await?;
        all_end()?;
        lease.release().await?;
        all_end()?;
        // A wait that was cut short may have left a tombstone, which stays for a minute. The waiter's label stays too.
        let mut left = keys(&server)?;
        left.retain(|key| *key != side(name, "queue") || waiters(&server, name).unwrap_or(1) > 0);
        left.retain(|key| !key.starts_with("leasehold:client:"));
        assert_eq!(left, [FENCE]);
        server.cli(&["FLUSHALL"])?;
    }
    Ok(())
}
