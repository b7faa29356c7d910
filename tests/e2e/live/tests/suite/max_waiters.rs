//! Calls that are refused because so many callers wait already.

use leasehold::Error;
use leasehold_live::{Tested, begin, client, shared_server, unique, until, waiters};

#[tokio::test]
async fn a_client_that_comes_is_refused_behind_the_callers_of_another_one() -> Tested {
    let (server, name) = (shared_server(), unique("report"));
    let (holder, first, second) = (client(server).await?, client(server).await?, client(server).await?);
    let lease = holder.mutex(&name).acquire().await?;
    let waiting: Vec<_> = (0..3).map(|_| begin(first.mutex(&name))).collect();
    until("a heartbeat has told the three callers", async || {
        let seen = holder.inspect(&name).await.map(|seen| seen.waiters);
        seen.is_ok_and(|waiters| waiters.iter().map(|waiter| waiter.callers).sum::<u64>() == 3)
    })
    .await;

    let refused = second.mutex(&name).max_waiters(3).acquire().await;
    let Err(error @ Error::Busy { .. }) = refused else { return Err(format!("{refused:?}").into()) };
    assert_eq!(error.waiters(), Some(3));
    assert!(error.to_string().contains("busy: the limit of waiting callers is reached (3)"), "{error}");
    assert_eq!(waiters(server, &name)?, 1, "it has left nothing");
    let own = first.mutex(&name).max_waiters(2).acquire().await;
    assert_eq!(own.err().and_then(|error| error.waiters()), Some(3), "its own callers count at once");

    let admitted = begin(second.mutex(&name).max_waiters(4));
    until("it waits", async || waiters(server, &name).is_ok_and(|count| count == 2)).await;
    lease.release().await?;
    for waits in waiting.into_iter().chain([admitted]) {
        waits.await??.release().await?;
    }
    Ok(())
}
