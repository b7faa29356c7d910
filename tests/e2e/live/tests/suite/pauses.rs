//! The server doesn't answer for a while.

use std::time::{Duration, Instant};

use leasehold::{LossReason, Wait};
use leasehold_live::{Tested, begin, quick, soon, until, waiters};
use leasehold_servers::Server;

const TIMEOUT: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_client_pause_within_the_ttl_costs_nobody_a_lease() -> Tested {
    let server = Server::start()?;
    let patient = async || quick().response_timeout(Duration::from_secs(3)).connect(&server.url()).await;
    let (first, second) = (patient().await?, patient().await?);
    let lease = first.mutex("door").ttl(Duration::from_secs(4)).acquire().await?;
    let waiting = begin(second.mutex("door"));
    until("it waits", async || waiters(&server, "door").is_ok_and(|count| count == 1)).await;
    server.cli(&["CLIENT", "PAUSE", "700"])?;
    assert!(soon("an answer after the pause", lease.verify()).await?);
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_client_pause_past_the_ttl_is_told_as_a_loss_while_it_lasts() -> Tested {
    let server = Server::start()?;
    let locks = quick().response_timeout(TIMEOUT).connect(&server.url()).await?;
    let lease = locks.mutex("door").ttl(Duration::from_millis(900)).acquire().await?;
    server.cli(&["CLIENT", "PAUSE", "4000"])?;
    let paused = Instant::now();
    assert_eq!(soon("the loss", lease.lost()).await, LossReason::Expired);
    assert!(paused.elapsed() < Duration::from_secs(2), "{:?}", paused.elapsed());
    let error = locks.mutex("door").wait(Wait::For(TIMEOUT)).acquire().await.unwrap_err();
    assert_eq!(error.code(), "unreachable", "{error:?}");
    // Renewals that were delayed in the server bring no lease back.
    let next = soon("the lock after the pause", locks.mutex("door").acquire()).await?;
    assert!(next.fence() > lease.fence());
    assert!(!lease.is_held() && next.verify().await?);
    Ok(())
}
