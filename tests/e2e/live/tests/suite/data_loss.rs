//! The server loses its data, or somebody deletes the key.

use leasehold::{LossReason, ReleaseOutcome};
use leasehold_live::{
    ASKING, Tested, client, introduce, options, queued, shared_server, soon, subscribed, unique, until,
};
use leasehold_servers::Server;

#[tokio::test]
async fn a_holder_is_told_after_flushall_and_fences_still_rise() -> Tested {
    let server = Server::start()?;
    let locks = client(&server).await?;
    let (door, page) = (locks.mutex("door"), locks.read_write("page").read());
    let (held, read) = (door.acquire().await?, page.acquire().await?);
    server.cli(&["FLUSHALL"])?;
    assert!(!held.verify().await? && !read.verify().await?);
    assert_eq!(soon("the loss", held.lost()).await, LossReason::Gone);
    assert_eq!(soon("the loss", read.lost()).await, LossReason::Gone);
    let (next, next_read) = (door.acquire().await?, page.acquire().await?);
    assert!(next.fence() > held.fence() && next_read.fence() > read.fence());
    assert_eq!(held.release().await?, ReleaseOutcome::AlreadyExpired);
    assert!(next.verify().await?, "the lost one took nothing back");
    Ok(())
}

#[tokio::test]
async fn fences_rise_from_one_flushall_to_the_next() -> Tested {
    let server = Server::start()?;
    let (first, second) = (client(&server).await?, client(&server).await?);
    let mut last = 0;
    for round in 0..200 {
        let lease = if round % 2 == 0 { &first } else { &second }.mutex("door").acquire().await?;
        assert!(lease.fence().get() > last, "round {round}");
        last = lease.fence().get();
        server.cli(&["FLUSHALL"])?;
        drop(lease);
    }
    Ok(())
}

#[tokio::test]
async fn a_waiter_gets_the_lock_after_flushall_and_the_holder_is_told() -> Tested {
    let server = Server::start()?;
    let first = client(&server).await?;
    let second = options().claim_window(ASKING).connect(&server.url()).await?;
    let lease = first.mutex("door").acquire().await?;
    let waiting = queued(&server, second.mutex("door")).await;
    server.cli(&["FLUSHALL"])?;
    let next = soon("the lock", waiting).await??;
    assert!(!lease.verify().await?);
    let reason = soon("the loss", lease.lost()).await;
    assert!(matches!(reason, LossReason::Gone | LossReason::Taken), "{reason}");
    assert!(next.fence() > lease.fence());
    drop(lease);
    assert!(next.verify().await?);
    Ok(())
}

#[tokio::test]
async fn a_restart_without_data_is_told_to_the_holder_and_survived_by_the_waiter() -> Tested {
    let mut server = Server::start()?;
    let (first, second) = (client(&server).await?, client(&server).await?);
    introduce(&first, &server).await?;
    let alone = first.mutex("window").acquire().await?;
    let lease = first.mutex("door").acquire().await?;
    let waiting = queued(&server, second.mutex("door")).await;
    server.restart()?;
    let next = soon("the lock", waiting).await??;
    assert!(!lease.verify().await? && !alone.verify().await?);
    soon("the loss", lease.lost()).await;
    assert_eq!(soon("the loss", alone.lost()).await, LossReason::Gone);
    assert!(next.fence() > lease.fence());
    until("both are subscribed again", async || subscribed(&server).is_ok_and(|count| count == 2)).await;
    next.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_deleted_key_is_told_as_gone_and_an_overwritten_one_as_taken() -> Tested {
    let (server, gone, taken, other) = (shared_server(), unique("gone"), unique("taken"), unique("other"));
    let locks = client(server).await?;
    let acquire = async |name: &str| locks.mutex(name).acquire().await;
    let [first, second, third] = [acquire(&gone).await?, acquire(&taken).await?, acquire(&other).await?];
    server.cli(&["DEL", &gone])?;
    server.cli(&["SET", &taken, "somebody", "PX", "60000"])?;
    server.cli(&["DEL", &other])?;
    server.cli(&["RPUSH", &other, "somebody's list"])?;
    for lease in [&first, &second, &third] {
        assert!(!lease.verify().await?);
    }
    assert_eq!(soon("the loss", first.lost()).await, LossReason::Gone);
    assert_eq!(soon("the loss", second.lost()).await, LossReason::Taken);
    assert_eq!(soon("the loss", third.lost()).await, LossReason::Taken);
    assert_eq!(second.release().await?, ReleaseOutcome::NotOwner);
    assert_eq!(server.cli(&["GET", &taken])?.text(), Some("somebody"), "it was left alone");
    assert_eq!(server.cli(&["LLEN", &other])?.integer(), Some(1), "it was left alone");
    server.cli(&["DEL", &other])?;
    Ok(())
}

#[tokio::test]
async fn verify_finds_out_at_once_and_the_loss_is_told() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let lease = client(server).await?.mutex(&name).acquire().await?;
    assert!(lease.verify().await?);
    server.cli(&["DEL", &name])?;
    assert!(lease.is_held(), "locally nothing is known yet");
    assert!(!lease.verify().await?);
    assert_eq!(soon("the loss", lease.lost()).await, LossReason::Gone);
    assert!(!lease.is_held());
    Ok(())
}

#[tokio::test]
async fn a_release_tells_that_the_key_was_gone_or_somebody_elses() -> Tested {
    let (server, gone, taken) = (shared_server(), unique("gone"), unique("taken"));
    let locks = client(server).await?;
    let (first, second) = (locks.mutex(&gone).acquire().await?, locks.mutex(&taken).acquire().await?);
    server.cli(&["DEL", &gone])?;
    server.cli(&["SET", &taken, "somebody", "PX", "60000"])?;
    assert_eq!(first.release().await?, ReleaseOutcome::AlreadyExpired);
    assert_eq!(second.release().await?, ReleaseOutcome::NotOwner);
    assert_eq!(server.cli(&["GET", &taken])?.text(), Some("somebody"));
    Ok(())
}
