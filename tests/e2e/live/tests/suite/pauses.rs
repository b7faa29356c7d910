//! The server doesn't answer for a while.

use std::time::Duration;

use leasehold::LossReason;
use leasehold_live::{Tested, client, hasty, queued, soon};
use leasehold_servers::Server;

/// Much longer than any test takes. The pause stops scripts only, because `CLIENT UNPAUSE` can't end a pause of all
/// commands.
const LONG_MS: &str = "600000";

#[tokio::test]
async fn a_client_pause_within_the_ttl_costs_nobody_a_lease() -> Tested {
    let server = Server::start()?;
    let (first, second) = (client(&server).await?, client(&server).await?);
    let lease = first.mutex("door").acquire().await?;
    let waiting = queued(&server, second.mutex("door")).await;
    server.cli(&["CLIENT", "PAUSE", "500"])?;
    assert!(soon("an answer after the pause", lease.verify()).await?);
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_client_pause_past_the_ttl_is_told_as_a_loss_while_it_lasts() -> Tested {
    let server = Server::start()?;
    let locks = hasty(&server, Duration::from_millis(500)).await;
    let lease = locks.mutex("door").ttl(Duration::from_millis(900)).acquire().await?;
    server.cli(&["CLIENT", "PAUSE", LONG_MS, "WRITE"])?;
    assert_eq!(soon("the loss", lease.lost()).await, LossReason::Expired);
    let error = locks.mutex("door").wait(Duration::from_millis(500)).acquire().await.unwrap_err();
    assert_eq!(error.code(), "unreachable", "{error:?}");
    server.cli(&["CLIENT", "UNPAUSE"])?;
    // Renewals that were delayed in the server bring no lease back.
    let next = soon("the lock after the pause", client(&server).await?.mutex("door").acquire()).await?;
    assert!(next.fence() > lease.fence());
    assert!(!lease.is_held() && next.verify().await?);
    Ok(())
}
