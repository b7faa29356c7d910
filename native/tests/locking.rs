//! What a user relies on, on a real server.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use leasehold::{Error, Lease, LockManager, LossReason};
use leasehold_servers::Server;

type Tested = Result<(), Box<dyn std::error::Error>>;

/// The longest time that a test waits for something. Only a test that fails waits that long.
const SOON: Duration = Duration::from_secs(60);
/// Longer than any test takes, even on a slow machine.
const LONG: Duration = Duration::from_secs(600);

/// A client whose times are all longer than a test takes. `durations.rs` tests durations, on virtual time.
async fn client(server: &Server) -> Result<LockManager, Error> {
    let patient = LockManager::builder().ttl(LONG).response_timeout(SOON).claim_window(SOON).wait(LONG);
    patient.connect(&server.url()).await
}

/// Waits until `condition` holds.
async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(SOON, wait).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

/// Polls a future once. It must still be pending afterwards.
async fn begin<T>(future: &mut (impl Future<Output = T> + Unpin)) {
    let pending = poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context).is_pending())).await;
    assert!(pending, "it ended at once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_several_clients_never_hold_a_mutex_together_and_fences_rise() -> Tested {
    let server = Server::start()?;
    let value = Arc::new(AtomicU64::new(0));
    let fences = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let locks = client(&server).await?;
        for _ in 0..4 {
            let (locks, value, fences) = (locks.clone(), Arc::clone(&value), Arc::clone(&fences));
            tasks.push(tokio::spawn(async move {
                for _ in 0..20 {
                    let lease = locks.mutex("counter").acquire().await?;
                    let seen = value.load(Ordering::Relaxed);
                    fences.lock().unwrap().push(lease.fence());
                    tokio::task::yield_now().await;
                    value.store(seen + 1, Ordering::Relaxed);
                    lease.release().await?;
                }
                Ok::<_, Error>(())
            }));
        }
    }
    for task in tasks {
        task.await??;
    }
    assert_eq!(value.load(Ordering::Relaxed), 3 * 4 * 20);
    let fences = fences.lock().unwrap();
    assert!(fences.is_sorted(), "a later holder had a smaller fence");
    assert_eq!(fences.iter().collect::<BTreeSet<_>>().len(), fences.len());
    Ok(())
}

#[tokio::test]
async fn a_lease_granted_to_an_acquire_that_is_dropped_goes_to_the_next() -> Tested {
    let server = Server::start()?;
    let locks = client(&server).await?;
    let lease = locks.mutex("door").acquire().await?;
    let (lock, next) = (locks.mutex("door"), locks.mutex("door"));
    let mut dropped = Box::pin(lock.acquire());
    begin(&mut dropped).await;
    let mut next = Box::pin(next.acquire());
    begin(&mut next).await;
    // The first waiter is granted the lease here, but its future is not polled again.
    lease.release().await?;
    drop(dropped);
    let lease = tokio::time::timeout(SOON, next).await??;
    assert!(lease.is_held());
    Ok(())
}

#[tokio::test]
async fn a_dropped_lease_is_released() -> Tested {
    let server = Server::start()?;
    let (first, second) = (client(&server).await?, client(&server).await?);
    drop(first.mutex("door").acquire().await?);
    let next = second.mutex("door");
    assert!(tokio::time::timeout(SOON, next.acquire()).await??.is_held());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_gives_the_works_answer_and_frees_the_lock() -> Tested {
    let server = Server::start()?;
    let locks = client(&server).await?;
    let lock = locks.mutex("door");
    // Spawned, so that the future has to be `Send`.
    let fence =
        tokio::spawn(async move { lock.run(async |lease: &Lease| Ok::<_, Error>(lease.fence())).await }).await??;
    assert!(fence.get() > 0);
    let failed: Result<(), Box<dyn std::error::Error>> = locks.mutex("door").run(async |_| Err("no ink".into())).await;
    assert_eq!(failed.unwrap_err().to_string(), "no ink");
    until("it is free", async || matches!(locks.mutex("door").try_acquire().await, Ok(Some(_)))).await;
    Ok(())
}

#[tokio::test]
async fn run_ends_the_work_when_the_lease_is_lost() -> Tested {
    struct OnDrop(Arc<AtomicU64>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let server = Server::start()?;
    let locks = client(&server).await?;
    let dropped = Arc::new(AtomicU64::new(0));
    let lock = locks.mutex("door");
    let result: Result<(), Error> = lock
        .run(async |lease| {
            let _work = OnDrop(Arc::clone(&dropped));
            server.cli(&["DEL", "door"]).map_err(|error| panic!("{error}"))?;
            assert!(!lease.verify().await?);
            std::future::pending().await
        })
        .await;
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LossReason::Gone, .. }), "{error:?}");
    assert_eq!(dropped.load(Ordering::Relaxed), 1, "the work was dropped");
    Ok(())
}
