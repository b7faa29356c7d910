//! `REDIS_URL=redis://.. leasehold-wasmtime-host <lock.wasm>`: does a job under a lock, and stops it if the lock is lost.

use std::env;
use std::error::Error;
use std::time::Duration;

use leasehold_wasmtime_host::{
    HoldEnd, Lease, Locks, LossReason, RedisProvider, ReleaseOutcome, Target, engine, with_provider,
};
use tokio::time::sleep;
use wasmtime::component::Component;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result {
    let usage = "usage: REDIS_URL=redis://.. leasehold-wasmtime-host <lock.wasm>";
    let path = env::args().nth(1).ok_or(usage)?;
    let url = env::var("REDIS_URL").map_err(|_| usage)?;
    let lock = Component::from_file(&engine()?, path)?;
    with_provider(&lock, RedisProvider, async |locks| job(locks, &url).await).await?
}

async fn job(locks: Locks<'_>, url: &str) -> Result {
    let manager = locks.open(url, None).await??;
    let lease = manager.acquire(Target::Mutex("nightly-job".to_owned()), None).await??;
    let fence = lease.fence().await?;
    tokio::select! {
        done = work(fence) => done?,
        lost = kept(lease) => return Err(format!("the lock is lost: {:?}", lost?).into()),
    }
    let outcome = lease.release().await??;
    println!("{}", if outcome == ReleaseOutcome::Released { "released" } else { "the lease had already ended" });
    Ok(())
}

/// Keeps the lease renewed, and returns when it is lost.
async fn kept(lease: Lease<'_>) -> Result<LossReason> {
    loop {
        if let HoldEnd::Lost(reason) = lease.hold(10_000).await?? {
            return Ok(reason);
        }
    }
}

async fn work(fence: u64) -> Result {
    println!("working with fence {fence}");
    sleep(Duration::from_millis(100)).await;
    Ok(())
}
