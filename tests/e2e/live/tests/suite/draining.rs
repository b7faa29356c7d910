//! A manager that lets running work finish before it closes.

use std::time::Duration;

use leasehold::{Error, LossReason};
use leasehold_live::{Tested, client, is_there, shared_server, soon, unique};
use tokio::sync::oneshot;

const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn running_work_finishes_and_the_next_client_gets_the_lock_from_it() -> Tested {
    let (server, name, free) = (shared_server(), unique("invoice"), unique("free"));
    let (locks, other) = (client(server).await?, client(server).await?);
    let (holds, held) = oneshot::channel();
    let (finish, finished) = oneshot::channel();
    let work = tokio::spawn(locks.mutex(&name).run(async move |lease| {
        let _ = holds.send(());
        let _ = finished.await;
        lease.verify().await
    }));
    held.await?;
    let drain = tokio::spawn(locks.close_draining(LONG));
    let next = tokio::spawn(other.mutex(&name).acquire());
    // Once it is refused, the drain has begun.
    while let Some(lease) = locks.mutex(&free).try_acquire().await.ok().flatten() {
        lease.release().await?;
    }
    assert!(matches!(locks.mutex(&name).acquire().await, Err(Error::Closed)));
    assert!(is_there(server, &name)? && !drain.is_finished());

    let _ = finish.send(());
    assert!(soon("the work", work).await??, "the server still has the lease");
    let closed = soon("the end", drain).await??;
    assert_eq!((closed.lost, closed.unreleased), (0, 0));
    soon("the lock", next).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn work_that_takes_too_long_loses_its_lease_and_is_counted() -> Tested {
    let (server, name) = (shared_server(), unique("invoice"));
    let locks = client(server).await?;
    let lease = locks.mutex(&name).acquire().await?;
    let closed = soon("the end", locks.close_draining(Duration::from_millis(50))).await?;
    assert_eq!((closed.lost, closed.unreleased), (1, 0));
    assert_eq!(lease.lost().await, LossReason::Closed);
    assert!(!is_there(server, &name)?);
    Ok(())
}
