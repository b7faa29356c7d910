//! Many leases on one manager: released at once by `close`, and renewed at the same moment. The large ones take a minute each in
//! a debug build.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use leasehold::{Lease, LockManager};
use leasehold_live::{Tested, soon};
use leasehold_servers::Server;

/// How many acquires are under way at a time.
const AT_A_TIME: usize = 100;
/// How long an acquire may take while another manager releases everything.
const HARDLY_ANY: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn close_gives_back_10_000_leases_and_delays_nobody_else() -> Tested {
    close_gives_back(10_000).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn close_gives_back_100_000_leases_and_delays_nobody_else() -> Tested {
    close_gives_back(100_000).await
}

#[test]
fn of_5_000_renewals_that_are_due_at_one_moment_none_is_lost() -> Tested {
    renewals_at_one_moment(5_000, Duration::from_secs(9))
}

#[test]
fn of_50_000_renewals_that_are_due_at_one_moment_none_is_lost() -> Tested {
    renewals_at_one_moment(50_000, Duration::from_secs(60))
}

async fn close_gives_back(count: usize) -> Tested {
    let server = Server::start()?;
    let locks = LockManager::builder().ttl(Duration::from_secs(60)).connect(&server.url()).await?;
    let leases = acquire_all(&locks, count, Duration::from_secs(60)).await?;
    let others = Others::start(&server)?;
    let start = Instant::now();
    let closed = soon_enough(locks.close()).await;
    let took = start.elapsed();
    let worst = others.stop()?;
    let left = still_locked(&server, count)?;
    println!("close of {count} leases: {took:?}, {left} left, the others' slowest acquire {worst:?}");
    drop(leases);
    assert_eq!(closed.unreleased, 0, "{left} left after {took:?}");
    assert_eq!(left, 0, "of {count} after {took:?}; the others' slowest acquire: {worst:?}");
    assert!(worst < HARDLY_ANY, "{worst:?}");
    Ok(())
}

fn renewals_at_one_moment(count: usize, ttl: Duration) -> Tested {
    let server = Server::start()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (locks, leases, last) = runtime.block_on(async {
        let locks = LockManager::connect(&server.url()).await?;
        let leases = acquire_all(&locks, count, ttl).await?;
        Ok::<_, leasehold::Error>((locks, leases, Instant::now()))
    })?;
    // Nothing runs in the meantime, and the last lease is due for renewal like all the others.
    thread::sleep(ttl / 3);
    let stalled = last.elapsed();
    runtime.block_on(async {
        tokio::time::sleep(ttl).await;
        let lost = leases.iter().filter(|lease| !lease.is_held()).count();
        println!("{count} renewals after a stall of {stalled:?}: {lost} leases lost");
        assert_eq!(lost, 0, "of {count}");
        assert_eq!(soon_enough(locks.close()).await.unreleased, 0);
        Ok(())
    })
}

fn name(number: usize) -> String {
    format!("l{number}")
}

async fn acquire_all(locks: &LockManager, count: usize, ttl: Duration) -> Result<Vec<Lease>, leasehold::Error> {
    let mut leases = Vec::with_capacity(count);
    let numbers: Vec<usize> = (0..count).collect();
    for numbers in numbers.chunks(AT_A_TIME) {
        let acquires: Vec<_> = numbers
            .iter()
            .map(|number| {
                let lock = locks.mutex(name(*number)).ttl(ttl);
                tokio::spawn(async move { lock.acquire().await })
            })
            .collect();
        for acquire in acquires {
            leases.push(soon("a lease", acquire).await.expect("the task ends")?);
        }
    }
    Ok(leases)
}

/// How many of the leases' keys are on the server.
fn still_locked(server: &Server, count: usize) -> Result<i64, Box<dyn std::error::Error + Send + Sync>> {
    let mut connection = server.connect()?;
    let numbers: Vec<usize> = (0..count).collect();
    let mut left = 0;
    for numbers in numbers.chunks(1_000) {
        let names: Vec<String> = numbers.iter().map(|number| name(*number)).collect();
        let mut command = vec!["EXISTS"];
        command.extend(names.iter().map(String::as_str));
        left += connection.call(&command)?.integer().unwrap_or(i64::MAX);
    }
    Ok(left)
}

async fn soon_enough<T>(closing: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), closing).await.expect("close ends")
}

/// Another manager on a separate thread, which acquires one free lock after the other.
struct Others {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Option<Duration>, leasehold::Error>>,
}

impl Others {
    fn start(server: &Server) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let (stop, url) = (Arc::new(AtomicBool::new(false)), server.url());
        let (ready, started) = mpsc::channel();
        let asked = Arc::clone(&stop);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                let locks = LockManager::connect(&url).await?;
                let mut worst = None;
                locks.mutex("other").acquire().await?.release().await?;
                let _ = ready.send(());
                while !asked.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    let lease = locks.mutex("other").acquire().await?;
                    worst = worst.max(Some(start.elapsed()));
                    lease.release().await?;
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                Ok(worst)
            })
        });
        started.recv()?;
        Ok(Self { stop, thread })
    }

    /// How long its slowest acquire took.
    fn stop(self) -> Result<Duration, Box<dyn std::error::Error + Send + Sync>> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.thread.join().expect("the thread ends")?.ok_or("nobody else acquired meanwhile")?)
    }
}
