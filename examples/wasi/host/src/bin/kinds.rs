//! The kinds of locks as a host calls them: a reentrant lock, a semaphore, several names as one, and an operator's way out.
//!
//! `REDIS_URL=redis://.. kinds <lock.wasm>`. It prints:
//!
//! ```text
//! reentrant: another owner gets it: false; given back: ReleaseOutcome::StillHeld, ReleaseOutcome::Released
//! semaphore: two and one of three are taken; another one: false
//! several names: a fence for each of 2; another client gets one of them: false; given back: ReleaseOutcome::Released
//! operator: taken from 1 holder; its own word: false; its late release: ReleaseOutcome::AlreadyExpired
//! ```

use std::env;
use std::error::Error;

use leasehold_wasmtime_host::{Manager, Multi, RedisProvider, Reentrant, Semaphore, Target, engine, with_provider};
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

/// The owner is a number for each piece of work: who shows it again has the lock once more, without I/O.
async fn reentrant(locks: Manager<'_>) -> Result {
    let account = |owner| Target::Reentrant(Reentrant { name: "example:account:7".to_owned(), owner });
    let outer = locks.acquire(account(1), None).await??;
    let inner = locks.acquire(account(1), None).await??;
    let another = locks.try_acquire(account(2), None).await??.is_some();
    let (first, last) = (inner.release().await??, outer.release().await??);
    println!("reentrant: another owner gets it: {another}; given back: {first:?}, {last:?}");
    Ok(())
}

/// Each acquire is one lease, whatever it weighs.
async fn semaphore(locks: Manager<'_>) -> Result {
    let service = |permits| Target::Semaphore(Semaphore { name: "example:service".to_owned(), limit: 3, permits });
    let (big, small) = (locks.acquire(service(2), None).await??, locks.acquire(service(1), None).await??);
    let another = locks.try_acquire(service(1), None).await??.is_some();
    println!("semaphore: two and one of three are taken; another one: {another}");
    for lease in [big, small] {
        lease.release().await??;
    }
    Ok(())
}

/// All or nothing, and nobody deadlocks, whatever the order in which others name them.
async fn several(locks: Manager<'_>) -> Result {
    let names = ["example:account:1", "example:account:2"].map(str::to_owned);
    let both = Target::Multi(Multi { names: names.to_vec(), one_script: false });
    let lease = locks.acquire(both, None).await??;
    let fences = lease.fences().await?;
    let [_, second] = names;
    let another = locks.try_acquire(Target::Mutex(second), None).await??.is_some();
    let outcome = lease.release().await??;
    let count = fences.len();
    println!(
        "several names: a fence for each of {count}; another client gets one of them: {another}; given back: {outcome:?}"
    );
    Ok(())
}

/// Whoever held it finds out by asking, at its next renewal, or by message while it listens.
async fn operator(locks: Manager<'_>) -> Result {
    let name = "example:import";
    let lease = locks.acquire(Target::Mutex(name.to_owned()), None).await??;
    let holders = locks.force_release(name).await??;
    let (held, outcome) = (lease.verify().await??, lease.release().await??);
    println!("operator: taken from {holders} holder; its own word: {held}; its late release: {outcome:?}");
    Ok(())
}
