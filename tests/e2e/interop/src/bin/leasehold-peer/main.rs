//! Our own peer: `leasehold-peer LIBRARY REDIS_URL NAME TTL_MS`. Its protocol is in `peers/README.md`.

mod locks;
mod work;

use std::env;
use std::error::Error;
use std::time::Duration;

use leasehold::ReleaseOutcome;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

use locks::Locks;

type Done<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() {
    if let Err(error) = run().await {
        println!("error {error}");
        std::process::exit(1);
    }
}

async fn run() -> Done {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [library, url, name, ttl] = arguments.as_slice() else {
        return Err("usage: leasehold-peer LIBRARY REDIS_URL NAME TTL_MS".into());
    };
    let locks = Locks::new(library, url, name, Duration::from_millis(ttl.parse()?))?;
    let lock = locks.connect().await?.lock(name);
    let mut leases = Vec::new();
    println!("ready");
    let mut orders = BufReader::new(stdin()).lines();
    while let Some(line) = orders.next_line().await? {
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["try"] => {
                let lease = lock.try_acquire().await?;
                println!("{}", if lease.is_some() { "held" } else { "busy" });
                leases.extend(lease);
            }
            ["acquire"] => {
                leases.push(lock.acquire().await?);
                println!("held");
            }
            ["release"] => {
                let outcome = match leases.pop() {
                    Some(lease) => lease.release().await?,
                    None => ReleaseOutcome::NotOwner,
                };
                println!("{}", said(outcome));
            }
            ["count", key, goal, workers, pause] => {
                let pause = Duration::from_millis(pause.parse()?);
                println!("counted {}", work::count(&locks, key, goal.parse()?, workers.parse()?, pause).await?);
            }
            ["work", tasks, place, warm_up, time] => {
                let times = [warm_up.parse()?, time.parse()?].map(Duration::from_millis);
                work::turns(&locks, tasks.parse()?, *place == "apart", times).await?;
            }
            _ => return Err(format!("what is {line:?}?").into()),
        }
    }
    Ok(())
}

fn said(outcome: ReleaseOutcome) -> &'static str {
    match outcome {
        ReleaseOutcome::Released => "released",
        ReleaseOutcome::StillHeld => "still-held",
        _ => "not-held",
    }
}
