//! Serves on 127.0.0.1:3000, until SIGTERM or Ctrl-C: see the library.
//!
//! `REDIS_URL` has the locks, and `DATABASE_URL` is a PostgreSQL database such as `postgres://user:password@host/name`.

use std::env;
use std::error::Error;
use std::time::Duration;

use leasehold::LockManager;
use leasehold_service::{Accounts, Service, serve};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// How long the requests that run have to finish: 5 s less than most hosts wait before they kill a process.
const DRAIN: Duration = Duration::from_secs(25);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let redis = env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let locks = LockManager::builder().prefix("service:").ttl(Duration::from_secs(10)).connect(redis).await?;
    let accounts = Accounts::new(PgPool::connect(&env::var("DATABASE_URL")?).await?).await?;
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on {}", listener.local_addr()?);
    let mut sigterm = signal(SignalKind::terminate())?;
    let ended = async move {
        tokio::select! {
            _ = sigterm.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    let service = Service { locks, accounts, patience: Duration::from_secs(2) };
    let closed = serve(listener, service, ended, DRAIN).await?;
    if closed.lost > 0 {
        eprintln!("{} requests still held a lock", closed.lost);
    }
    Ok(())
}
