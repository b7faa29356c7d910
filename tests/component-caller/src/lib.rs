//! A component that begins calls of the lock component and cancels them a little later, which a host can't do.

mod bindings;

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};

use bindings::leasehold::lock::locks::{AcquireOptions, Error, LockManager, ManagerOptions, Target, Topology};
use bindings::wasi::clocks::monotonic_clock::wait_for;

struct Component;

/// Long after a call has begun, and long before it would end.
const A_WHILE: Duration = Duration::from_millis(300);

impl bindings::Guest for Component {
    /// Waits for a lock that somebody holds, gives the wait up, and uses the same manager for another one.
    async fn cancel_acquire(url: String, name: String) -> Result<(), String> {
        let locks = open(url).await?;
        cancelled(locks.acquire(Target::Mutex(name.clone()), None)).await?;
        let other = locks.acquire(Target::Mutex(format!("{name}-other")), None).await.map_err(shown)?;
        other.release().await.map_err(shown)?;
        std::mem::forget((locks, other));
        Ok(())
    }

    /// Stands by a lease that is over in a second, gives that up, and leaves the lease to its end.
    async fn cancel_hold(url: String, name: String) -> Result<(), String> {
        let locks = open(url).await?;
        let options = AcquireOptions { ttl_ms: Some(1_000), wait_ms: None, max_hold_ms: None };
        let lease = locks.acquire(Target::Mutex(name), Some(options)).await.map_err(shown)?;
        cancelled(lease.hold(60_000)).await?;
        // A dropped one would be released.
        std::mem::forget((locks, lease));
        Ok(())
    }

    /// Connects to a server that does not answer, and gives that up.
    async fn cancel_open(url: String) -> Result<(), String> {
        cancelled(LockManager::open(Topology::Single(url), None)).await
    }
}

async fn open(url: String) -> Result<LockManager, String> {
    let options = ManagerOptions {
        prefix: None,
        local_handoffs: None,
        claim_window_ms: Some(300),
        response_timeout_ms: Some(500),
        node_timeout_ms: None,
        mixed_fleet: None,
        fence_retention_ms: None,
    };
    LockManager::open(Topology::Single(url), Some(options)).await.map_err(shown)
}

/// Begins a call, and drops it while it is under way: the component model cancels it.
async fn cancelled<T>(call: impl Future<Output = T>) -> Result<(), String> {
    let nanos = u64::try_from(A_WHILE.as_nanos()).unwrap_or(u64::MAX);
    match select(pin!(call), pin!(wait_for(nanos))).await {
        Either::Left(_) => Err("it ended before it could be cancelled".to_owned()),
        Either::Right(_) => Ok(()),
    }
}

fn shown(error: Error) -> String {
    error.message
}
