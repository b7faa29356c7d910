//! The kinds of locks as a host calls them: a reentrant lock, a semaphore, several names, and an operator's release.
//!
//! `REDIS_URL=redis://.. kinds <lock.wasm>`. It prints:
//!
//! ```text
//! reentrant: another owner gets it: false; released: ReleaseOutcome::StillHeld, ReleaseOutcome::Released
//! semaphore: another permit while three are taken: false
//! several names: 2 fences; another client gets one of them: false; released: ReleaseOutcome::Released
//! operator: taken from 1 holder; still held: false; its late release: ReleaseOutcome::AlreadyExpired
//! ```

use std::env;
use std::error::Error;

use leasehold_wasmtime_host::{
    Manager, Multi, Part, RedisProvider, Reentrant, Semaphore, Target, engine, with_provider,
};
use wasmtime::component::Component;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result {
    let usage = "usage: REDIS_URL=redis://.. kinds <lock.wasm>";
    let path = env::args().nth(1).ok_or(usage)?;
    let url = env::var("REDIS_URL").map_err(|_| usage)?;
    let lock = Component::from_file(&engine()?, path)?;
    with_provider(&lock, RedisProvider, async |locks| {
        let manager = locks.open(&url, None).await??;
        reentrant(manager).await?;
        semaphore(manager).await?;
        several(manager).await?;
        operator(manager).await
    })
    .await?
}

/// The owner is a number for each piece of work. The same owner gets the lock again without I/O.
async fn reentrant(locks: Manager<'_>) -> Result {
    let account = |owner| Target::Reentrant(Reentrant { name: "example:account:7".to_owned(), owner });
    let outer = locks.acquire(account(1), None).await??;
    let inner = locks.acquire(account(1), None).await??;
    let another = locks.try_acquire(account(2), None).await??.is_some();
    let (first, last) = (inner.release().await??, outer.release().await??);
    println!("reentrant: another owner gets it: {another}; released: {first:?}, {last:?}");
    Ok(())
}

/// Each acquire is one lease, however many permits it has.
async fn semaphore(locks: Manager<'_>) -> Result {
    let service =
        |permits| Target::Semaphore(Semaphore { name: "example:service".to_owned(), limit: 3, permits, per_ms: None });
    let (big, small) = (locks.acquire(service(2), None).await??, locks.acquire(service(1), None).await??);
    let another = locks.try_acquire(service(1), None).await??.is_some();
    println!("semaphore: another permit while three are taken: {another}");
    for lease in [big, small] {
        lease.release().await??;
    }
    Ok(())
}

/// All names or none. Clients that name them in different orders never deadlock.
async fn several(locks: Manager<'_>) -> Result {
    let names = ["example:account:1", "example:account:2"].map(str::to_owned);
    let both = Target::Multi(Multi { parts: names.clone().map(Part::Mutex).to_vec(), one_script: false });
    let lease = locks.acquire(both, None).await??;
    let fences = lease.fences().await?;
    let [_, second] = names;
    let another = locks.try_acquire(Target::Mutex(second), None).await??.is_some();
    let outcome = lease.release().await??;
    let count = fences.len();
    println!("several names: {count} fences; another client gets one of them: {another}; released: {outcome:?}");
    Ok(())
}

/// The holder finds out from a message if it is subscribed, at its next renewal, or when it calls `verify`.
async fn operator(locks: Manager<'_>) -> Result {
    let name = "example:import";
    let lease = locks.acquire(Target::Mutex(name.to_owned()), None).await??;
    let holders = locks.force_release(name).await??;
    let (held, outcome) = (lease.verify().await??, lease.release().await??);
    println!("operator: taken from {holders} holder; still held: {held}; its late release: {outcome:?}");
    Ok(())
}
