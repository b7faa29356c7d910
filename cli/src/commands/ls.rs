//! `leasehold ls`: finds locks by `SCAN`, at a pace that leaves the servers time for others.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::{Inspection, LockManager, redis};
use serde_json::json;
use tokio::time::sleep;

use crate::args::{Ls, Servers};
use crate::glob::{escape, matches};
use crate::keyspace::{busy_keys, key_of, scan_pattern};
use crate::render::{label_of, mode, object, shown, state, time};
use crate::report::{Failure, Outcome, Output};
use crate::servers::{Node, of_server};

/// How many keys one `SCAN` looks at. The server does nothing else for about a third of a millisecond.
const SCAN_COUNT: usize = 1_000;
/// How many locks are inspected at once.
const AT_ONCE: usize = 32;

struct Listing<'a> {
    locks: LockManager,
    servers: &'a Servers,
    arguments: &'a Ls,
    output: Output,
    /// The keys that were listed. `SCAN` can return a key twice, and the servers of a quorum have the same locks.
    listed: HashSet<String>,
}

pub(super) async fn run(servers: &Servers, arguments: &Ls, output: Output) -> Outcome {
    let locks = servers.locks().await?;
    let mut listing = Listing { locks, servers, arguments, output, listed: HashSet::new() };
    for node in servers.nodes().await? {
        match node {
            Ok(mut node) => listing.scan(&mut node).await?,
            // The majority has every lock that is held.
            Err(failure) if servers.quorum => output.note(|| failure.json(), || failure.message.clone()),
            Err(failure) => return Err(failure),
        }
    }
    if listing.listed.is_empty() && !output.json {
        output.note(|| json!({}), || "no lock of this pattern is held or waited for".to_owned());
    }
    Ok(0)
}

impl Listing<'_> {
    async fn scan(&mut self, node: &mut Node) -> Outcome<()> {
        let pattern = format!("{}{}", escape(&self.servers.prefix), self.arguments.pattern);
        let mut cursor = 0_u64;
        loop {
            let start = Instant::now();
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(scan_pattern(&pattern)).arg("COUNT").arg(SCAN_COUNT);
            let (next, found): (u64, Vec<Vec<u8>>) = node.query(&scan).await.map_err(|error| {
                let mut failure = of_server(&error, &node.address, "SCAN");
                failure.remedy = format!("{}; `leasehold inspect NAME` needs no SCAN", failure.remedy);
                failure
            })?;
            // Names are text, so other bytes are no lock of ours.
            let found = found.iter().filter_map(|key| std::str::from_utf8(key).ok()).filter_map(key_of);
            let keys: Vec<&str> = found.filter(|key| matches(&pattern, key) && !self.listed.contains(*key)).collect();
            let busy = if self.arguments.all { keys } else { busy(node, keys).await? };
            self.pause(start.elapsed()).await;
            for keys in busy.chunks(AT_ONCE) {
                let start = Instant::now();
                self.list(keys).await?;
                self.pause(start.elapsed()).await;
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Leaves the servers alone for the rest of the time.
    async fn pause(&self, worked: Duration) {
        let pace = self.arguments.pace;
        sleep(worked * (100 - pace) / pace).await;
    }

    async fn list(&mut self, keys: &[&str]) -> Outcome<()> {
        let names: Vec<&str> = keys.iter().filter_map(|key| key.strip_prefix(&self.servers.prefix)).collect();
        let seen = join_all(names.iter().map(|name| self.locks.inspect(*name))).await;
        for (name, seen) in names.into_iter().zip(seen) {
            let seen = match seen {
                Ok(seen) => seen,
                // The key holds something else, or the name can't be one of ours.
                Err(error) if ["wrong-kind", "invalid-option"].contains(&error.code()) => {
                    let failure = Failure::from(error);
                    self.output.note(|| failure.json(), || failure.message.clone());
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let used = !seen.holders.is_empty() || !seen.waiters.is_empty();
            if !used && !self.arguments.all {
                continue;
            }
            if self.listed.is_empty() && !self.output.json {
                self.output.print(|| json!(null), heading)?;
            }
            if self.listed.insert(format!("{}{name}", self.servers.prefix)) {
                self.output.print(|| object(name, &seen), || row(name, &seen))?;
            }
        }
        Ok(())
    }
}

/// Those of the keys whose locks are held or waited for.
async fn busy<'a>(node: &mut Node, keys: Vec<&'a str>) -> Outcome<Vec<&'a str>> {
    if keys.is_empty() {
        return Ok(keys);
    }
    let mut pipeline = redis::pipe();
    for key in &keys {
        pipeline.cmd("EXISTS").arg(&busy_keys(key));
    }
    let there: Vec<redis::Value> =
        node.pipeline(pipeline.ignore_errors()).await.map_err(|error| of_server(&error, &node.address, "EXISTS"))?;
    // A key that is moving to another server answers with an error. The inspection finds it.
    let busy = keys.into_iter().zip(there).filter(|(_, there)| !matches!(there, redis::Value::Int(0)));
    Ok(busy.map(|(key, _)| key).collect())
}

fn heading() -> String {
    let (held, waited) = ("HELD", "WAITED");
    format!(
        "{:<5} {:<9} {:>7} {:>7} {held:>9} {waited:>9} {:>9}  {:>16}  {:<36}  NAME",
        "STATE", "MODE", "HOLDERS", "WAITING", "TIME LEFT", "FENCE", "LABEL"
    )
}

fn row(name: &str, seen: &Inspection) -> String {
    let held = seen.holders.first().map_or("-", |holder| mode(holder.mode));
    let left = match seen.holders.first() {
        None => "-".to_owned(),
        // The lock is busy until its last holder is gone.
        Some(_) => seen.holders.iter().map(|holder| holder.remaining).max().flatten().map_or("no TTL".to_owned(), time),
    };
    let fence = seen.last_fence.map_or_else(|| "-".to_owned(), |fence| fence.to_string());
    let (holders, waiters) = (seen.holders.len(), seen.waiters.len());
    let or_none = |longest: Option<Duration>| longest.map_or_else(|| "-".to_owned(), time);
    let for_so_long = or_none(seen.holders.iter().filter_map(|holder| holder.held).max());
    let waited = or_none(seen.waiters.iter().filter_map(|waiter| waiter.waited).max());
    let label = match seen.holders.as_slice() {
        [] => "-".to_owned(),
        [one] => label_of(one),
        [first, others @ ..] => format!("{} and {} more", label_of(first), others.len()),
    };
    let state = state(seen);
    format!(
        "{state:<5} {held:<9} {holders:>7} {waiters:>7} {for_so_long:>9} {waited:>9} {left:>9}  {fence:>16}  {label:<36}  {}",
        shown(name)
    )
}
