//! Serves on 127.0.0.1:3000, until Ctrl-C: see the library.
//!
//! `REDIS_URL` has the locks, and `DATABASE_URL` is a PostgreSQL database such as `postgres://user:password@host/name`.

use std::env;
use std::error::Error;
use std::time::Duration;

use leasehold::LockManager;
use leasehold_service::{Accounts, Service, app};
use sqlx::PgPool;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let redis = env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let locks = LockManager::builder().prefix("service:").ttl(Duration::from_secs(10)).connect(redis).await?;
    let accounts = Accounts::new(PgPool::connect(&env::var("DATABASE_URL")?).await?).await?;
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on {}", listener.local_addr()?);
    let ended = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    let service = Service { locks: locks.clone(), accounts, patience: Duration::from_secs(2) };
    axum::serve(listener, app(service)).with_graceful_shutdown(ended).await?;
    // The requests have ended. What is still held is released here.
    locks.close().await;
    Ok(())
}
