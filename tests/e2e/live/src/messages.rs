//! What clients tell each other by messages.

use leasehold::{Error, Lease, LockManager};
use leasehold_servers::Server;
use tokio::task::JoinHandle;

use crate::waiting::{begin, soon, until};
use crate::{Tested, keys, text, unique, waiters};

/// Asserts that two clients hand a lock over with one script call, the release. The waiter doesn't ask, so a message
/// brings the lock. The lock's name begins with `name`. The lock is on one of these servers, which no other client
/// uses.
///
/// On a slow machine, a waiter may ask in between. So this goes on until two hand-overs took one call each. Without
/// messages, each would take more calls.
///
/// # Errors
/// If a call fails.
///
/// # Panics
/// If the lock is not handed over by messages.
pub async fn hands_over_by_message(
    first: &LockManager,
    second: &LockManager,
    servers: &[&Server],
    name: &str,
) -> Tested {
    let name = unique(name);
    // With their first waits, the clients subscribe and write their labels.
    let mut lease = first.mutex(&name).acquire().await?;
    for next in [second, first] {
        let waiter = waits(next, servers, &name).await;
        lease.release().await?;
        lease = soon("a first hand-over", waiter).await??;
    }
    let hand_overs = async {
        let mut in_one_call = 0;
        for next in [second, first].into_iter().cycle() {
            let waiter = waits(next, servers, &name).await;
            let before = calls(servers)?;
            lease.release().await?;
            lease = waiter.await??;
            let after = calls(servers)?;
            assert!(lease.verify().await?);
            in_one_call += u8::from(after == [before[0] + 1, before[1], before[2]]);
            if in_one_call == 2 {
                break;
            }
        }
        lease.release().await?;
        Ok(())
    };
    soon("two hand-overs that take one call each", hand_overs).await
}

/// Begins to acquire, and returns once the waiter is in a server's queue.
async fn waits(locks: &LockManager, servers: &[&Server], name: &str) -> JoinHandle<Result<Lease, Error>> {
    let waiting = begin(locks.mutex(name));
    // In a cluster, the other servers refuse the question.
    until("it waits", async || servers.iter().any(|server| waiters(server, name).is_ok_and(|count| count == 1))).await;
    waiting
}

/// How many scripts the servers have run, by `EVALSHA` and by `EVAL`, and how many `SUBSCRIBE` commands.
fn calls(servers: &[&Server]) -> Result<[u64; 3], leasehold_servers::Error> {
    let mut all = [0; 3];
    for server in servers {
        let stats = text(server, &["INFO", "commandstats"])?.unwrap_or_default();
        for (sum, command) in all.iter_mut().zip(["evalsha", "eval", "subscribe"]) {
            let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
            *sum += line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0);
        }
    }
    Ok(all)
}

/// Makes the client subscribe and write its label to the server, by a first wait for a lock. Its first renewal would do
/// the same, but later.
///
/// # Errors
/// If a call fails.
///
/// # Panics
/// If it never does.
pub async fn introduce(locks: &LockManager, server: &Server) -> Tested {
    let (name, before) = (unique("introduction"), labels(server)?.len());
    text(server, &["SET", &name, "somebody", "PX", "600000"])?;
    let waiting = begin(locks.mutex(&name));
    until("its label is on the server", async || labels(server).is_ok_and(|labels| labels.len() > before)).await;
    until("it waits", async || waiters(server, &name).is_ok_and(|count| count == 1)).await;
    waiting.abort();
    until("it waits no more", async || waiters(server, &name).is_ok_and(|count| count == 0)).await;
    text(server, &["DEL", &name])?;
    Ok(())
}

/// The labels that clients have written to the server.
///
/// # Errors
/// As [`Server::cli`].
pub fn labels(server: &Server) -> Result<Vec<String>, leasehold_servers::Error> {
    let keys = keys(server)?.into_iter().filter(|key| key.starts_with("leasehold:client:"));
    keys.map(|key| Ok(text(server, &["GET", &key])?.unwrap_or_default())).collect()
}
