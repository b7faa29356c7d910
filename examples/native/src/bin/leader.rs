//! Two candidates and an observer. The first one leads, resigns, and the second one follows at once.
//!
//! `cargo run -p leasehold-examples --bin leader`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! 10.0.0.1:80 leads
//! nobody else leads: true
//! 10.0.0.1:80 resigns: Released
//! 10.0.0.2:80 leads
//! a later term has a greater fence: true
//! ```

use leasehold::{Error, LockManager, Observer};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let (first, second) = (LockManager::connect(&url).await?, LockManager::connect(&url).await?);
    let mut observer = first.election("example:leader").observe();

    let term = first.election("example:leader").value("10.0.0.1:80").campaign().await?;
    leads(&mut observer).await?;
    let candidate = second.election("example:leader").value("10.0.0.2:80");
    let waits = tokio::spawn(candidate.campaign());
    println!("nobody else leads: {}", !candidate.is_leader());

    let fence = term.fence(); // send it along with every write that only the leader may do
    println!("10.0.0.1:80 resigns: {:?}", term.resign().await?);
    leads(&mut observer).await?;
    let next = waits.await.expect("the task goes on")?;
    println!("a later term has a greater fence: {}", next.fence() > fence);

    next.resign().await?;
    tokio::join!(first.close(), second.close());
    Ok(())
}

/// Waits until somebody leads.
async fn leads(observer: &mut Observer) -> Result<(), Error> {
    loop {
        if let Some(leader) = observer.next().await? {
            println!("{} leads", leader.value);
            return Ok(());
        }
    }
}
