//! A component that starts calls of the lock component and cancels them while they run. A host can only drop them.

mod bindings;

use std::pin::pin;

use futures_util::future::{Either, select};

use bindings::leasehold::lock::locks::{AcquireOptions, Error, Lease, LockManager, ManagerOptions, Target, Topology};
use bindings::wasi::clocks::monotonic_clock::wait_for;

struct Component;

impl bindings::Guest for Component {
    /// Waits for a lock that another client holds, gives up, and uses the same manager for another lock.
    async fn cancel_acquire(url: String, name: String) -> Result<(), String> {
        let locks = open(url, 60_000).await?;
        cancelled(locks.acquire(Target::Mutex(name.clone()), None), waiting(&locks, &name)).await?;
        let other = locks.acquire(Target::Mutex(format!("{name}-other")), None).await.map_err(shown)?;
        other.release().await.map_err(shown)?;
        std::mem::forget((locks, other));
        Ok(())
    }

    /// Calls `hold` until the lease is renewed, cancels the call, and keeps the lease until it expires.
    async fn cancel_hold(url: String, name: String) -> Result<(), String> {
        let locks = open(url, 60_000).await?;
        let options = AcquireOptions { ttl_ms: Some(3_000), wait_ms: None, max_hold_ms: None, max_waiters: None };
        let lease = loop {
            let lease = locks.acquire(Target::Mutex(name.clone()), Some(options)).await.map_err(shown)?;
            // A machine that stops for a TTL loses the lease. Then the guest tries again.
            match cancelled(lease.hold(60_000), renewed(&lease)).await {
                Err(_) if !lease.is_held() => {}
                ended => break ended.map(|()| lease)?,
            }
        };
        // Dropping them would release the lease.
        std::mem::forget((locks, lease));
        Ok(())
    }

    /// Connects to a server that does not answer, and gives up long before the timeout.
    async fn cancel_open(url: String) -> Result<(), String> {
        cancelled(open(url, 60_000), pause(300)).await
    }
}

async fn open(url: String, response_timeout_ms: u64) -> Result<LockManager, String> {
    let options = ManagerOptions {
        prefix: None,
        local_handoffs: None,
        claim_window_ms: Some(60_000),
        response_timeout_ms: Some(response_timeout_ms),
        node_timeout_ms: None,
        mixed_fleet: None,
        cluster_slots: None,
        label: None,
    };
    LockManager::open(Topology::Single(url), Some(options)).await.map_err(shown)
}

/// Starts a call and drops it at the given time, which cancels the call.
async fn cancelled<T>(call: impl Future<Output = T>, time: impl Future<Output = ()>) -> Result<(), String> {
    match select(pin!(call), pin!(time)).await {
        Either::Left(_) => Err("it ended before it could be cancelled".to_owned()),
        Either::Right(_) => Ok(()),
    }
}

/// Waits until a client is in the queue.
async fn waiting(locks: &LockManager, name: &str) {
    while !locks.inspect(name.to_owned()).await.is_ok_and(|seen| !seen.waiters.is_empty()) {
        pause(5).await;
    }
}

async fn renewed(lease: &Lease) {
    let mut left = lease.remaining_ms();
    loop {
        pause(5).await;
        let before = std::mem::replace(&mut left, lease.remaining_ms());
        if left > before {
            return;
        }
    }
}

async fn pause(ms: u64) {
    wait_for(ms * 1_000_000).await;
}

fn shown(error: Error) -> String {
    error.message
}
