//! `leasehold ls`: finds locks by `SCAN`, at a pace that leaves the servers time for others.

mod progress;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::{Inspection, LockManager, redis};
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::time::sleep;

use crate::args::{Ls, Servers};
use crate::glob::{escape, literal, matches};
use crate::keyspace::{busy_keys, key_of, scan_pattern};
use crate::render::{mode, object, shown, state, time};
use crate::report::{Failure, Outcome, Output};
use crate::servers::{Node, of_server};
use crate::signals::{Signals, status};
use progress::Progress;

/// How many keys one `SCAN` looks at. The server does nothing else for half a millisecond.
const SCAN_COUNT: usize = 500;
/// How many locks are inspected at once.
const AT_ONCE: usize = 32;

struct Listing<'a> {
    locks: LockManager,
    servers: &'a Servers,
    arguments: &'a Ls,
    output: Output,
    /// The keys that were listed. `SCAN` can return a key twice, and the servers of a quorum have the same locks.
    listed: HashSet<String>,
    progress: Progress,
}

pub(super) async fn run(servers: &Servers, arguments: &Ls, output: Output) -> Outcome {
    let mut signals = Signals::listen(&[Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM])?;
    let locks = servers.locks().await?;
    let progress = Progress::new(output);
    let mut listing = Listing { locks, servers, arguments, output, listed: HashSet::new(), progress };
    let outcome = tokio::select! {
        outcome = listing.all() => outcome.map(|()| None),
        signal = signals.next() => Ok(Some(signal)),
    };
    listing.progress.clear();
    if let Some(signal) = outcome? {
        let message = format!("{signal} after {}; the list is not complete", listing.progress.seen());
        output.note(|| json!({ "interrupted": signal.as_str(), "message": message }), || message.clone());
        return Ok(status(signal));
    }
    if listing.listed.is_empty() && !output.json {
        output.note(|| json!({}), || "no lock of this pattern is held or waited for".to_owned());
    }
    Ok(0)
}

impl Listing<'_> {
    async fn all(&mut self) -> Outcome<()> {
        // A pattern without wildcards is one name. It needs no search.
        if let Some(name) = literal(&self.arguments.pattern) {
            return self.list(&[&format!("{}{name}", self.servers.prefix)]).await;
        }
        let mut nodes = Vec::new();
        for node in self.servers.nodes().await? {
            match node {
                Ok(node) => nodes.push(node),
                // The majority has every lock that is held.
                Err(failure) if self.servers.quorum => {
                    self.output.note(|| failure.json(), || failure.message.clone());
                }
                Err(failure) => return Err(failure),
            }
        }
        for node in &mut nodes {
            // Only for the progress: the user may lack the right.
            let size = node.query(&redis::cmd("DBSIZE")).await.ok();
            self.progress.expect(size);
        }
        for node in &mut nodes {
            self.scan(node).await?;
        }
        Ok(())
    }

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
            self.progress.advance(SCAN_COUNT);
            self.output.check_reader()?;
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
            let remembered = self.arguments.all && seen.last_fence.is_some();
            if !(used || remembered) {
                continue;
            }
            self.progress.clear();
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
    format!("{:<5} {:<9} {:>7} {:>7} {:>9}  {:>16}  NAME", "STATE", "MODE", "HOLDERS", "WAITING", "TIME LEFT", "FENCE")
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
    format!("{:<5} {held:<9} {holders:>7} {waiters:>7} {left:>9}  {fence:>16}  {}", state(seen), shown(name))
}
