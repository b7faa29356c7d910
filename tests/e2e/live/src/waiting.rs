use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, Lease, Lock};
use leasehold_servers::Server;
use tokio::task::JoinHandle;

use crate::raw::{is_there, waiters};

/// The longest time that a test waits for something. Only a test that fails waits that long.
pub const SOON: Duration = Duration::from_secs(60);

/// Begins to acquire, in a separate task.
pub fn begin(lock: Lock) -> JoinHandle<Result<Lease, Error>> {
    tokio::spawn(async move { lock.acquire().await })
}

/// Begins to acquire, and returns once the caller is in the queue of this server, behind those that were there before.
///
/// # Panics
/// If it never is.
pub async fn queued(server: &Server, lock: Lock) -> JoinHandle<Result<Lease, Error>> {
    let name = lock.name().to_owned();
    let before = waiters(server, &name).unwrap_or(0);
    let waiting = begin(lock);
    until("it waits", async || waiters(server, &name).is_ok_and(|count| count > before)).await;
    waiting
}

/// Waits this long for a lock that stays held, and returns the error. On a slow machine the server may not have
/// answered by then. In that case it waits again.
///
/// # Panics
/// If it gets the lock, or never learns that the lock is held.
pub async fn busy(lock: Lock, wait: Duration) -> Error {
    let lock = lock.wait(wait);
    let ended = async {
        loop {
            match lock.acquire().await {
                Ok(lease) => panic!("it was granted: {lease:?}"),
                Err(Error::Unreachable { .. }) => {}
                Err(error) => return error,
            }
        }
    };
    soon("the end of the wait", ended).await
}

/// Tries to take a lock that is held. If the servers don't answer in time, it tries again.
///
/// # Panics
/// If it gets the lock, or never learns that the lock is held.
pub async fn is_busy(lock: &Lock) {
    until("an answer", async || match lock.try_acquire().await {
        Ok(None) => true,
        Err(Error::Unreachable { .. }) => false,
        other => panic!("{other:?}"),
    })
    .await;
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

/// Waits until each lease is renewed: the time that it has left rises.
///
/// # Panics
/// If a lease is not renewed.
pub async fn renewed(leases: &[Lease]) {
    let mut least: Vec<Duration> = leases.iter().map(Lease::remaining).collect();
    let mut done = vec![false; leases.len()];
    until("a renewal", async || {
        for ((lease, least), done) in leases.iter().zip(&mut least).zip(&mut done) {
            let left = lease.remaining();
            *done |= left > *least + Duration::from_secs(1);
            *least = left.min(*least);
        }
        done.iter().all(|done| *done)
    })
    .await;
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

/// Waits until every server of a quorum has the lease. Before that, another client can be faster on one of them. Then it
/// finds no queue there, and the holder asks that server again only after a third of the TTL.
///
/// # Panics
/// If one of them never has it.
pub async fn all_have(servers: &[Server], name: &str) {
    for server in servers {
        until("all have it", async || is_there(server, name).is_ok_and(|there| there)).await;
    }
}
