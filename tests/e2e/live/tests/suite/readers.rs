//! Readers and writers.

use std::time::Duration;

use leasehold::Mode;
use leasehold_live::{Tested, client, queued, shared_server, soon, unique};
use tokio::task::JoinSet;

#[tokio::test]
async fn readers_of_several_clients_hold_together_and_a_writer_waits_for_the_last() -> Tested {
    let (server, name) = (shared_server(), unique("page"));
    let (first, second, third) = (client(server).await?, client(server).await?, client(server).await?);
    let one = first.read_write(&name).read().acquire().await?;
    let other = second.read_write(&name).read().acquire().await?;
    let writing = queued(server, third.read_write(&name).write()).await;
    one.release().await?;
    assert!(other.verify().await? && !writing.is_finished());
    other.release().await?;
    let writer = soon("the writer's lease", writing).await??;
    assert_eq!(writer.mode(), Mode::Exclusive);
    assert!(first.read_write(&name).read().try_acquire().await?.is_none());
    writer.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_writer_that_waits_is_not_overtaken_by_new_readers() -> Tested {
    let (server, name) = (shared_server(), unique("page"));
    let (first, second, third) = (client(server).await?, client(server).await?, client(server).await?);
    let reader = first.read_write(&name).read().acquire().await?;
    let writing = queued(server, second.read_write(&name).write()).await;
    let reading = queued(server, third.read_write(&name).read()).await;
    assert!(third.read_write(&name).read().try_acquire().await?.is_none());
    reader.release().await?;
    let writer = soon("the writer's lease", writing).await??;
    assert!(!reading.is_finished());
    writer.release().await?;
    soon("the reader's lease", reading).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_downgrade_lets_waiting_readers_in_and_no_writer_between() -> Tested {
    let (server, name) = (shared_server(), unique("page"));
    let (first, second, third) = (client(server).await?, client(server).await?, client(server).await?);
    let lease = first.read_write(&name).write().acquire().await?;
    let before = lease.fence();
    let reading = queued(server, second.read_write(&name).read()).await;
    let writing = queued(server, third.read_write(&name).write()).await;
    lease.downgrade().await?;
    assert_eq!(lease.mode(), Mode::Shared);
    assert!(lease.fence() > before);
    let beside = soon("the reader's lease", reading).await??;
    assert!(lease.verify().await? && !writing.is_finished());
    lease.release().await?;
    beside.release().await?;
    soon("the writer's lease", writing).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn an_upgrade_beside_another_reader_is_a_conflict_at_once() -> Tested {
    let (server, name) = (shared_server(), unique("page"));
    let (first, second) = (client(server).await?, client(server).await?);
    let lease = first.read_write(&name).read().acquire().await?;
    for same_client in [true, false] {
        let locks = if same_client { &first } else { &second };
        let other = locks.read_write(&name).read().acquire().await?;
        let error = soon("an answer", lease.upgrade()).await.unwrap_err();
        assert_eq!((error.code(), error.name()), ("conflict", Some(name.as_str())));
        assert!(lease.mode() == Mode::Shared && lease.verify().await? && other.verify().await?);
        other.release().await?;
    }
    let before = lease.fence();
    lease.upgrade().await?;
    assert!(lease.mode() == Mode::Exclusive && lease.fence() > before);
    assert!(second.read_write(&name).read().try_acquire().await?.is_none());
    lease.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_stream_of_readers_starves_no_writer() -> Tested {
    let (server, name) = (shared_server(), unique("page"));
    let writers = client(server).await?;
    let mut readers = JoinSet::new();
    // There is always a reader, until the test ends.
    for _ in 0..3 {
        let locks = client(server).await?;
        for _ in 0..3 {
            let lock = locks.read_write(&name).read();
            readers.spawn(async move {
                loop {
                    let lease = lock.acquire().await?;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    lease.release().await?;
                }
                #[expect(unreachable_code, reason = "it says which errors end the loop")]
                Ok::<(), leasehold::Error>(())
            });
        }
    }
    for _ in 0..10 {
        soon("a writer's turn", writers.read_write(&name).write().acquire()).await?.release().await?;
    }
    assert!(readers.try_join_next().is_none(), "they go on");
    Ok(())
}
