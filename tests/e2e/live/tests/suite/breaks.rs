//! Connections are cut, scripts are forgotten.

use leasehold::Mode;
use leasehold_live::{
    LONG, Tested, client, connections, hands_over_by_message, queued, soon, subscribed, until, waiters,
};
use leasehold_servers::Server;

fn cut(server: &Server, kind: &str) -> Tested {
    server.cli(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"])?;
    Ok(())
}

#[tokio::test]
async fn holders_survive_the_cutting_of_their_command_connection() -> Tested {
    let server = Server::start()?;
    let locks = client(&server).await?;
    let held = locks.mutex("held").acquire().await?;
    for _ in 0..20 {
        cut(&server, "normal")?;
        held.extend(LONG * 2).await?;
        cut(&server, "normal")?;
        let lease = locks.mutex("door").acquire().await?;
        cut(&server, "normal")?;
        lease.extend(LONG * 2).await?;
        cut(&server, "normal")?;
        lease.downgrade().await?;
        cut(&server, "normal")?;
        assert!(lease.verify().await? && locks.inspect("door").await?.holders.len() == 1);
        cut(&server, "normal")?;
        lease.release().await?;
    }
    assert!(held.is_held() && held.verify().await?);
    Ok(())
}

#[tokio::test]
async fn a_waiter_survives_the_cutting_of_its_command_connection() -> Tested {
    let server = Server::start()?;
    let (holder, waiter) = (client(&server).await?, client(&server).await?);
    let lease = holder.mutex("door").acquire().await?;
    let waiting = queued(&server, waiter.mutex("door")).await;
    cut(&server, "normal")?;
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_cut_subscription_is_made_again_and_messages_come_through_it() -> Tested {
    let server = Server::start()?;
    let (holder, waiter) = (client(&server).await?, client(&server).await?);
    let lease = holder.mutex("door").acquire().await?;
    let waiting = queued(&server, waiter.mutex("door")).await;
    for _ in 0..3 {
        cut(&server, "pubsub")?;
        until("it is cut", async || subscribed(&server).is_ok_and(|count| count == 0)).await;
        until("it is subscribed again", async || subscribed(&server).is_ok_and(|count| count == 1)).await;
    }
    assert_eq!(waiters(&server, "door")?, 1);
    lease.release().await?;
    soon("the grant", waiting).await??.release().await?;
    hands_over_by_message(&holder, &waiter, &[&server], "door").await
}

#[tokio::test]
async fn a_grant_that_is_published_while_the_subscription_is_cut_is_not_lost() -> Tested {
    let server = Server::start()?;
    let (holder, waiter) = (client(&server).await?, client(&server).await?);
    let lease = holder.mutex("door").acquire().await?;
    let waiting = queued(&server, waiter.mutex("door")).await;
    cut(&server, "pubsub")?;
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn connections_that_are_cut_leave_none_behind() -> Tested {
    let server = Server::start()?;
    let (holder, waiter) = (client(&server).await?, client(&server).await?);
    let lease = holder.mutex("door").acquire().await?;
    let waiting = queued(&server, waiter.mutex("door")).await;
    for _ in 0..20 {
        cut(&server, "normal")?;
        cut(&server, "pubsub")?;
        assert!(lease.verify().await?);
    }
    until("each has one for commands, and who waits one that is subscribed", async || {
        connections(&server).is_ok_and(|count| count == 3) && subscribed(&server).is_ok_and(|count| count == 1)
    })
    .await;
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn forgotten_scripts_are_sent_again() -> Tested {
    let server = Server::start()?;
    let (first, second) = (client(&server).await?, client(&server).await?);
    let forget = || server.cli(&["SCRIPT", "FLUSH"]);
    for _ in 0..3 {
        forget()?;
        let lease = first.mutex("door").acquire().await?;
        let waiting = queued(&server, second.read_write("door").read()).await;
        forget()?;
        assert!(lease.verify().await?);
        forget()?;
        lease.extend(LONG * 2).await?;
        forget()?;
        assert_eq!(first.inspect("door").await?.waiters.len(), 1);
        forget()?;
        lease.downgrade().await?;
        let beside = soon("the other reader", waiting).await??;
        assert_eq!((lease.mode(), beside.mode()), (Mode::Shared, Mode::Shared));
        forget()?;
        lease.release().await?;
        forget()?;
        beside.release().await?;
    }
    Ok(())
}
