use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant, SystemTime};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, AsyncTypedCommands};
use tokio::task::JoinSet;

use crate::Done;
use crate::locks::Locks;

/// Lets workers, each with its own client, increment a number that only the lock protects. Returns how often they did.
pub(crate) async fn count(locks: &Locks, key: &str, goal: u64, workers: u32, pause: Duration) -> Done<u64> {
    let client = redis::Client::open(locks.url.as_str())?;
    // A separate connection without a timeout, because an answer may take longer than the usual half a second on a busy
    // machine.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let mut tasks = JoinSet::new();
    let mut connected = locks.connect().await?;
    for worker in 0..workers {
        if worker > 0 && !locks.share_client() {
            connected = locks.connect().await?;
        }
        let (lock, key) = (connected.lock(&locks.name), key.to_owned());
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        tasks.spawn(async move {
            let mut counted = 0;
            loop {
                let lease = lock.acquire().await?;
                let added = add(&mut connection, &key, goal).await;
                lease.release().await?;
                if !added? {
                    return Done::Ok(counted);
                }
                counted += 1;
                tokio::time::sleep(some_of(pause)).await;
            }
        });
    }
    let mut all = 0;
    while let Some(counted) = tasks.join_next().await {
        all += counted??;
    }
    Ok(all)
}

/// Reads the number and writes it plus one. Not atomic, on purpose.
async fn add(connection: &mut MultiplexedConnection, key: &str, goal: u64) -> Done<bool> {
    let found = connection.get(key).await?;
    let number: u64 = found.map_or(Ok(0), |text| text.parse())?;
    if number < goal {
        connection.set(key, number + 1).await?;
    }
    Ok(number < goal)
}

/// Lets tasks of one client acquire and release a lock. Prints how long each task waited for each grant.
pub(crate) async fn turns(locks: &Locks, tasks: u32, apart: bool, [warm_up, time]: [Duration; 2]) -> Done {
    let client = locks.connect().await?;
    let from = Instant::now() + warm_up;
    let until = from + time;
    let workers: Vec<_> = (0..tasks)
        .map(|task| {
            let name = if apart { format!("{}-{task}", locks.name) } else { locks.name.clone() };
            let lock = client.lock(&name);
            tokio::spawn(async move {
                let mut waits = Vec::new();
                loop {
                    let asked = Instant::now();
                    let lease = lock.acquire().await?;
                    let wait = asked.elapsed();
                    lease.release().await?;
                    let released = Instant::now();
                    if released > until {
                        return Done::Ok(waits);
                    }
                    if released > from {
                        waits.push(wait.as_micros());
                    }
                }
            })
        })
        .collect();
    let mut told = String::new();
    for worker in workers {
        told += "task";
        for wait in worker.await?? {
            write!(told, " {wait}")?;
        }
        told += "\n";
    }
    told += "worked\n";
    std::io::stdout().write_all(told.as_bytes())?;
    Ok(())
}

/// A random share of the time. The clock's last digits serve as random numbers.
fn some_of(time: Duration) -> Duration {
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    time.mul_f64(f64::from(nanos % 1009) / 1009.0)
}
