//! An operator takes a lock from its holders.

use std::time::Duration;

use leasehold::{LossReason, Owner, ReleaseOutcome};
use leasehold_live::{Tested, busy, client, hasty, introduce, queued, shared_server, soon, subscribed, unique, until};
use leasehold_servers::Server;

#[tokio::test]
async fn the_holders_are_told_and_the_next_in_line_is_granted() -> Tested {
    let server = Server::start()?;
    let (holder, waiter, operator) = (client(&server).await?, client(&server).await?, client(&server).await?);
    introduce(&holder, &server).await?;
    let lease = holder.mutex("door").acquire().await?;
    until("it listens", async || subscribed(&server).is_ok_and(|count| count == 1)).await;
    let waiting = queued(&server, waiter.mutex("door")).await;
    assert_eq!(operator.force_release("door").await?, 1);
    assert_eq!(soon("the loss", lease.lost()).await, LossReason::Revoked);
    let next = soon("the lock", waiting).await??;
    assert!(next.fence() > lease.fence());
    assert_eq!(lease.release().await?, ReleaseOutcome::AlreadyExpired);
    assert!(next.verify().await?);
    Ok(())
}

#[tokio::test]
async fn it_takes_every_kind_of_lock_and_counts_the_holders() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let (one, two, operator) = (client(server).await?, client(server).await?, client(server).await?);
    assert_eq!(operator.force_release(&name).await?, 0);

    let readers = [one.read_write(&name).read().acquire().await?, two.read_write(&name).read().acquire().await?];
    assert_eq!(operator.force_release(&name).await?, 2);
    let reentrant = one.reentrant(&name, &Owner::new()).acquire().await?;
    assert_eq!(operator.inspect(&name).await?.holders.len(), 1);
    assert_eq!(operator.force_release(&name).await?, 1);
    let permits = [one.semaphore(&name, 2).acquire().await?, two.semaphore(&name, 2).acquire().await?];
    assert_eq!(operator.inspect(&name).await?.holders.len(), 2);
    assert_eq!(operator.force_release(&name).await?, 2);

    server.cli(&["SET", &name, "another library's", "PX", "60000"])?;
    assert_eq!(operator.force_release(&name).await?, 1);
    for lease in readers.into_iter().chain([reentrant]).chain(permits) {
        assert!(!lease.verify().await.unwrap_or(false));
    }
    assert!(one.mutex(&name).try_acquire().await?.is_some());
    Ok(())
}

#[tokio::test]
async fn what_is_no_lock_is_left_alone() -> Tested {
    let (server, name) = (shared_server(), unique("data"));
    server.cli(&["RPUSH", &name, "1"])?;
    let operator = client(server).await?;
    let refused = operator.force_release(&name).await;
    assert!(matches!(refused, Err(leasehold::Error::WrongKind { .. })), "{refused:?}");
    assert!(matches!(operator.inspect(&name).await, Err(leasehold::Error::WrongKind { .. })));
    assert_eq!(server.cli(&["LLEN", &name])?.integer(), Some(1));
    Ok(())
}

#[tokio::test]
async fn one_call_takes_it_from_one_holder_even_if_the_answer_is_late() -> Tested {
    let server = Server::start()?;
    let (holder, waiter) = (client(&server).await?, client(&server).await?);
    let operator = hasty(&server, Duration::from_millis(500)).await;
    let lease = holder.mutex("door").acquire().await?;
    let waiting = queued(&server, waiter.mutex("door")).await;
    // Loads the script.
    holder.force_release("window").await?;
    server.pause()?;
    let answer = soon("an end", operator.force_release("door")).await;
    server.resume()?;
    assert!(matches!(&answer, Err(error) if error.code() == "unreachable"), "it may have been done: {answer:?}");
    let next = soon("the lock", waiting).await??;
    assert!(next.fence() > lease.fence());
    assert!(next.verify().await?, "taken from the next one as well");
    Ok(())
}

#[tokio::test]
async fn a_key_without_a_ttl_is_deleted_only_with_foreign() -> Tested {
    let server = shared_server();
    let operator = client(server).await?;
    let (text, hash, set) = (unique("data"), unique("data"), unique("data"));
    server.cli(&["SET", &text, "somebody's data"])?;
    server.cli(&["HSET", &hash, "0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b:1", "1"])?;
    server.cli(&["ZADD", &set, "1", "0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b:1"])?;
    for name in [&text, &hash, &set] {
        let refused = operator.force_release(name).await;
        let Err(error @ leasehold::Error::WrongKind { .. }) = refused else {
            return Err(format!("{refused:?}").into());
        };
        assert!(error.to_string().contains("no TTL") && error.to_string().contains("`foreign`"), "{error}");
        assert_eq!(server.cli(&["EXISTS", name])?.integer(), Some(1));
    }
    // The score says that the last permit has expired.
    for (name, holders) in [(&text, 1), (&hash, 1), (&set, 0)] {
        assert_eq!(operator.force_release_foreign(name).await?, holders);
        assert_eq!(server.cli(&["EXISTS", name])?.integer(), Some(0));
    }
    Ok(())
}

#[tokio::test]
async fn a_busy_error_names_a_key_without_a_ttl() -> Tested {
    let (server, name) = (shared_server(), unique("data"));
    server.cli(&["SET", &name, "somebody's data"])?;
    let error = busy(client(server).await?.mutex(&name), Duration::from_millis(200)).await;
    assert!(error.holder().is_some_and(|holder| holder.foreign), "{error:?}");
    let text = error.to_string();
    assert!(
        text.ends_with("; held by another library's key or other data, without a TTL: it never ends by itself"),
        "{text}"
    );
    Ok(())
}
