//! What a failover can still lose, and what is safe anyway.

use leasehold_live::{PATIENCE, Tested, Watched, options, soon, until, write_guarded};
use leasehold_servers::{PRIMARY, Server};

#[tokio::test]
async fn two_holders_after_a_failover_that_lost_the_lock_and_the_resource_refuses_the_first_ones_late_write() -> Tested
{
    let (mut watched, resource) = (Watched::start()?, Server::start()?);
    let client = async || options().sentinel(PRIMARY, watched.urls()).await;
    let (first, second) = (client().await?, client().await?);
    let mut resource = resource.connect()?;

    // From now on, the replica receives nothing. One grant later, its primary is down.
    watched.cut()?;
    let old = first.mutex("door").acquire().await?;
    assert!(write_guarded(&mut resource, "page", old.fence().get(), "by the first holder")?);
    watched.lose_primary().await?;

    let new = soon("the lock", second.mutex("door").acquire()).await?;
    assert!(old.is_held() && new.is_held(), "the lock is held twice, and the first holder can't know it yet");
    assert!(new.fence() > old.fence());
    assert!(write_guarded(&mut resource, "page", new.fence().get(), "by the second holder")?);
    assert!(!write_guarded(&mut resource, "page", old.fence().get(), "too late")?, "the resource knows better");
    until("the first holder is told", async || old.verify().await.is_ok_and(|held| !held)).await;
    soon("the loss", old.lost()).await;
    assert!(new.verify().await?);
    Ok(())
}

#[tokio::test]
#[ignore = "a failover takes seconds"]
async fn a_lease_that_waited_for_replicas_is_not_granted_again_after_a_failover() -> Tested {
    let mut watched = Watched::start()?;
    let client = async || options().sentinel(PRIMARY, watched.urls()).await;
    let (first, second) = (client().await?, client().await?);
    let lease = first.mutex("door").wait_for_replicas(1, PATIENCE).acquire().await?;
    watched.lose_primary().await?;
    let mut refused = None;
    until("an answer", async || {
        refused = second.mutex("door").try_acquire().await.ok();
        refused.is_some()
    })
    .await;
    assert!(matches!(refused, Some(None)), "{refused:?}");
    until("an answer", async || lease.verify().await.is_ok_and(|held| held)).await;
    lease.release().await?;
    Ok(())
}
