//! A web service that takes money from the accounts of users: a lock for each user, and fences in PostgreSQL.
//!
//! The lock lets one request of a user in at a time, on all machines, and other users go on. A holder can be paused for so
//! long that it loses the lock, and still write afterwards. So each row keeps the greatest fence that it has seen, and
//! refuses a smaller one.

mod accounts;
mod refusal;

use std::error::Error;
use std::future::{Future, IntoFuture};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::{Json, Router, routing::post};
use leasehold::{Closed, LockManager};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub use accounts::Accounts;
pub use refusal::Refusal;

/// What all requests share. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct Service {
    /// One manager for the whole service.
    pub locks: LockManager,
    /// The database.
    pub accounts: Accounts,
    /// How long a request waits for another request of the same user.
    pub patience: Duration,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Withdrawal {
    /// How much to take, in cents.
    pub amount: i64,
}

/// What the service answers.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Receipt {
    /// What is left, in cents.
    pub balance: i64,
    /// The fence of the write, for the log.
    pub fence: u64,
}

/// The routes of the service.
pub fn app(service: Service) -> Router {
    Router::new().route("/users/{user}/withdrawals", post(withdraw)).with_state(service)
}

/// Serves until `ended`. The requests that hold a lock then have the time `drain` to finish, and no other request gets one.
///
/// # Errors
/// If the listener or the manager of the locks fails.
pub async fn serve(
    listener: TcpListener,
    service: Service,
    ended: impl Future<Output = ()>,
    drain: Duration,
) -> Result<Closed, Box<dyn Error + Send + Sync>> {
    let locks = service.locks.clone();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = axum::serve(listener, app(service)).with_graceful_shutdown(async { _ = stopped.await });
    let closing = async {
        ended.await;
        // Both begin at once. Otherwise a request that waits for a lock would delay the end.
        _ = stop.send(());
        locks.close_draining(drain).await
    };
    let (served, closed) = tokio::join!(serving.into_future(), closing);
    served?;
    Ok(closed?)
}

async fn withdraw(
    State(Service { locks, accounts, patience }): State<Service>,
    Path(user): Path<i64>,
    Json(Withdrawal { amount }): Json<Withdrawal>,
) -> Result<Json<Receipt>, Refusal> {
    let lease = locks.mutex(format!("user:{user}")).wait(patience).acquire().await?;
    let fence = lease.fence();
    // If the lease is lost or the caller disconnects, the work is dropped at its next `await`.
    let balance = tokio::select! {
        reason = lease.lost() => return Err(Refusal::Lost(reason)),
        done = take(&accounts, user, amount, fence) => done?,
    };
    // The answer doesn't wait for the release.
    drop(lease);
    Ok(Json(Receipt { balance, fence: fence.get() }))
}

/// Reads, decides, and writes. Nothing but the lock keeps two requests of a user from reading the same balance.
async fn take(accounts: &Accounts, user: i64, amount: i64, fence: leasehold::Fence) -> Result<i64, Refusal> {
    let balance = accounts.claim(user, fence).await?;
    if amount <= 0 || amount > balance {
        return Err(Refusal::TooMuch);
    }
    // Stands for a call to the bank.
    tokio::time::sleep(Duration::from_millis(20)).await;
    accounts.write(user, balance - amount, fence).await?;
    Ok(balance - amount)
}
