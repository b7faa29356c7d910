use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, Lease, Lock};
use tokio::task::JoinHandle;

/// The longest time that a test waits for something.
pub const SOON: Duration = Duration::from_secs(10);

/// Begins to acquire, in a separate task.
pub fn begin(lock: Lock) -> JoinHandle<Result<Lease, Error>> {
    tokio::spawn(async move { lock.acquire().await })
}

/// Waits for something that must happen, at most [`SOON`].
///
/// # Panics
/// If it does not happen.
pub async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(SOON, future).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

/// Waits until `condition` holds, at most [`SOON`].
///
/// # Panics
/// If it never holds.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    soon(what, wait).await;
}

/// [`until`] for a thread without a runtime.
///
/// # Panics
/// If it never holds.
pub fn until_blocking(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < SOON, "not in time: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}
