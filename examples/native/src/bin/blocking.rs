//! Locks without async: a thread holds a lock while it computes, and another thread waits for it.
//!
//! `cargo run -p leasehold-examples --bin blocking`, with `REDIS_URL` or a server on 127.0.0.1:6379. The crate's feature
//! `blocking` has the API. It prints:
//!
//! ```text
//! held with fence ..; computed 55
//! the waiting thread has the lock: its fence is greater: true
//! notified of a loss: ..
//! not saved: lock `example:report`: the lease was lost: ..
//! ```

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use leasehold::Error;
use leasehold::blocking::LockManager;

fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let locks = LockManager::connect(&url)?;
    let report = locks.mutex("example:report").ttl(Duration::from_secs(6)); // the default is 30 s

    let lease = report.acquire()?;
    let fence = lease.fence();
    let other = LockManager::connect(&url)?;
    let waiting = thread::spawn(move || {
        let lease = other.mutex("example:report").acquire()?;
        let greater = lease.fence() > fence;
        lease.release()?;
        Ok::<_, Error>(greater)
    });
    // The background thread renews the lease meanwhile.
    println!("held with fence {fence}; computed {}", (1..=10).sum::<u32>());
    lease.release()?;
    let greater = waiting.join().expect("the thread did not panic")?;
    println!("the waiting thread has the lock: its fence is greater: {greater}");

    // `run` releases the lock at the end, also if the work panics. It fails if the lease was lost before the end.
    let saved = report.run(|lease| {
        let (sender, losses) = mpsc::channel();
        lease.on_lost(move |reason| sender.send(reason).unwrap_or_default());
        // An operator takes the lock. The holder finds out by a message if it listens, or at its next renewal.
        locks.force_release(lease.name())?;
        if let Ok(reason) = losses.recv_timeout(Duration::from_secs(30)) {
            println!("notified of a loss: {reason}");
        }
        Ok::<_, Error>(())
    });
    if let Err(error) = saved {
        println!("not saved: {error}");
    }
    locks.close()?;
    Ok(())
}
