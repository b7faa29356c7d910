//! One lock, one lease, one fenced write.
//!
//! `cargo run -p leasehold-examples --bin mutex`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! held: the lease is valid for another .., and is renewed until it is released
//! saved with fence ..: invoice 42 is paid
//! Released
//! ```

use leasehold::{Error, Fence, LockManager};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let locks = LockManager::connect(&url).await?;

    let lease = locks.mutex("example:invoice:42").acquire().await?;
    println!("held: the lease is valid for another {:?}, and is renewed until it is released", lease.remaining());
    save("invoice 42 is paid", lease.fence());
    println!("{:?}", lease.release().await?);
    Ok(())
}

/// A real store keeps the greatest fence that it has seen, and refuses a smaller one. Then a holder that was paused too
/// long can't overwrite the data of the next holder.
fn save(what: &str, fence: Fence) {
    println!("saved with fence {fence}: {what}");
}
