//! The server's memory is full, and it evicts nothing.

use leasehold::ReleaseOutcome;
use leasehold_live::{LONG, Tested, client, queued, soon};
use leasehold_servers::Server;

/// Less than an empty server uses, so that every command that could need more memory is refused.
fn use_up(server: &Server) -> Tested {
    server.cli(&["CONFIG", "SET", "maxmemory", "1"])?;
    Ok(())
}

#[tokio::test]
async fn at_maxmemory_an_acquire_is_refused_with_the_servers_words() -> Tested {
    let server = Server::start()?;
    let (first, second) = (client(&server).await?, client(&server).await?);
    let held = first.mutex("held").acquire().await?;
    use_up(&server)?;
    for error in [
        first.mutex("door").acquire().await.unwrap_err(),
        first.mutex("door").try_acquire().await.unwrap_err(),
        first.read_write("page").read().acquire().await.unwrap_err(),
        // It would have to join the queue.
        second.mutex("held").acquire().await.unwrap_err(),
    ] {
        assert_eq!(error.code(), "server", "{error:?}");
        assert!(error.to_string().contains("OOM"), "{error}");
    }
    assert!(held.verify().await?);
    server.cli(&["CONFIG", "SET", "maxmemory", "0"])?;
    first.mutex("door").acquire().await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn at_maxmemory_leases_are_renewed_and_released() -> Tested {
    let server = Server::start()?;
    let locks = client(&server).await?;
    let writer = locks.read_write("a").write().acquire().await?;
    let readers = locks.read_write("b").read().acquire().await?;
    use_up(&server)?;
    for lease in [writer, readers] {
        assert!(lease.is_held() && lease.verify().await?);
        lease.extend(LONG * 2).await?;
        assert_eq!(lease.release().await?, ReleaseOutcome::Released);
    }
    assert_eq!(server.cli(&["EXISTS", "a", "b"])?.integer(), Some(0));
    Ok(())
}

#[tokio::test]
async fn at_maxmemory_a_release_still_grants_the_next_waiter() -> Tested {
    let server = Server::start()?;
    let (first, second) = (client(&server).await?, client(&server).await?);
    let lease = first.mutex("door").acquire().await?;
    let waiting = queued(&server, second.mutex("door")).await;
    use_up(&server)?;
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    Ok(())
}
