//! Waiting in order, for the given time, and giving up.

use std::time::Duration;

use leasehold::Mode;
use leasehold_live::{LONG, Tested, begin, client, queued, shared_server, soon, unique, until, waiters};

#[tokio::test]
async fn try_acquire_never_waits() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let (first, second) = (client(server).await?, client(server).await?);
    let lease = first.mutex(&name).acquire().await?;
    for locks in [&first, &second] {
        assert!(locks.mutex(&name).try_acquire().await?.is_none());
        assert!(locks.read_write(&name).read().try_acquire().await?.is_none());
    }
    assert_eq!(waiters(server, &name)?, 0);
    lease.release().await?;
    let lease = second.mutex(&name).try_acquire().await?.ok_or("it is free")?;
    assert!(lease.verify().await?);
    Ok(())
}

#[tokio::test]
async fn cancelled_acquires_leave_no_waiter_and_no_lease_behind() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let (first, second, third) = (client(server).await?, client(server).await?, client(server).await?);
    let lease = first.mutex(&name).acquire().await?;
    // At every moment: before the command is sent, while it is on its way, and while it waits.
    for millis in 0..20 {
        let lock = second.mutex(&name);
        assert!(tokio::time::timeout(Duration::from_millis(millis), lock.acquire()).await.is_err());
    }
    until("the queue is empty", async || waiters(server, &name).is_ok_and(|count| count == 0)).await;
    // And while it is granted.
    let mut lease = lease;
    for millis in 0..20 {
        let waiting = queued(server, second.mutex(&name)).await;
        let released = tokio::spawn(lease.release());
        tokio::time::sleep(Duration::from_micros(millis * 100)).await;
        waiting.abort();
        drop(waiting);
        released.await??;
        lease = soon("the lock", third.mutex(&name).acquire()).await?;
    }
    Ok(())
}

#[tokio::test]
async fn waiters_are_seen_and_served_in_the_order_of_their_coming() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let holder = client(server).await?;
    let lease = holder.mutex(&name).acquire().await?;
    let (sender, mut served) = tokio::sync::mpsc::unbounded_channel();
    let modes = [Mode::Exclusive, Mode::Shared, Mode::Exclusive, Mode::Shared];
    for (place, mode) in modes.into_iter().enumerate() {
        let (locks, sender) = (client(server).await?, sender.clone());
        let lock = locks.read_write(&name);
        let lock = if mode == Mode::Shared { lock.read() } else { lock.write() };
        tokio::spawn(async move {
            let lease = lock.acquire().await?;
            let _ = sender.send((place, lease.fence()));
            lease.release().await
        });
        until("it waits", async || waiters(server, &name).is_ok_and(|count| count == place as i64 + 1)).await;
    }
    let seen = holder.inspect(&name).await?;
    assert_eq!(seen.holders.len(), 1);
    assert!(!seen.holders[0].foreign && seen.holders[0].mode == Mode::Exclusive);
    assert!(seen.holders[0].remaining.is_some_and(|left| left > LONG / 2));
    assert_eq!(seen.waiters.iter().map(|waiter| waiter.mode).collect::<Vec<_>>(), modes);
    assert!(seen.last_fence.is_some_and(|last| last >= lease.fence()));
    let mut last = lease.fence();
    lease.release().await?;
    for place in 0..modes.len() {
        let (came, fence) = soon("the next", served.recv()).await.ok_or("nobody")?;
        assert_eq!(came, place);
        assert!(fence > last);
        last = fence;
    }
    Ok(())
}

#[tokio::test]
async fn inspect_of_a_name_that_nobody_uses_shows_nothing() -> Tested {
    let seen = client(shared_server()).await?.inspect(unique("door")).await?;
    assert!(seen.holders.is_empty() && seen.waiters.is_empty() && seen.last_fence.is_none());
    Ok(())
}

#[tokio::test]
async fn many_callers_of_one_client_wait_as_one_and_are_served_without_the_server() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let (first, second) = (client(server).await?, client(server).await?);
    let lease = first.mutex(&name).acquire().await?;
    let callers: Vec<_> = (0..100).map(|_| begin(second.mutex(&name))).collect();
    until("it waits", async || waiters(server, &name).is_ok_and(|count| count == 1)).await;
    assert_eq!(first.inspect(&name).await?.waiters.len(), 1);
    lease.release().await?;
    let mut last = None;
    for caller in callers {
        let lease = soon("its turn", caller).await??;
        assert!(Some(lease.fence()) > last);
        last = Some(lease.fence());
        lease.release().await?;
    }
    Ok(())
}
