//! `leasehold ls`: finds locks by `SCAN`, at a pace that leaves the servers time for others.
//!
//! A lock has no key that tells it from other data by its name. So `ls` scans the names themselves, and looks at the
//! beginning of each value. The queues show the names that clients wait for, whatever client holds them.

mod candidates;
mod progress;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::redis_1::redis;
use leasehold::{Holder, Inspection, LockManager};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::args::{Ls, Servers};
use crate::glob::{escape, literal, matches};
use crate::keyspace::{is_reserved, key_of, queue_pattern};
use crate::kinds::{Kind, kinds};
use crate::render::{has_kind, label_of, mode, object, shown, state, time};
use crate::report::{Failure, Outcome, Output, exit};
use crate::servers::Node;
use crate::signals::{Signal, Signals, status};
use candidates::{candidates, no_scan};
use progress::Progress;

/// How many keys one `SCAN` looks at. The server does nothing else for half a millisecond.
const SCAN_COUNT: usize = 500;
/// How many locks are inspected at once.
const AT_ONCE: usize = 32;
/// How long after its last output a terminal's SIGHUP may come.
const HANGUP: Duration = Duration::from_millis(100);

struct Listing<'a> {
    locks: LockManager,
    servers: &'a Servers,
    arguments: &'a Ls,
    output: Output,
    /// The keys that were listed. `SCAN` can return a key twice, and the servers of a quorum have the same locks.
    listed: HashSet<String>,
    /// The heading is printed.
    headed: bool,
    progress: Progress,
}

/// How a name was found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// The user gave it, so every holder counts.
    Named,
    Scanned,
}

pub(super) async fn run(servers: &Servers, arguments: &Ls, output: Output) -> Outcome {
    let mut signals = Signals::listen(&[Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM])?;
    let locks = servers.locks().await?;
    let progress = Progress::new(output);
    let mut listing = Listing { locks, servers, arguments, output, listed: HashSet::new(), headed: false, progress };
    let mut outcome = tokio::select! {
        outcome = listing.all() => outcome.map(|()| None),
        signal = signals.next() => Ok(Some(signal)),
    };
    // A terminal that goes away refuses output a moment before its SIGHUP comes. The signal is the better report.
    if outcome.as_ref().is_err_and(|failure| failure.exit == exit::OUTPUT)
        && let Ok(signal) = timeout(HANGUP, signals.next()).await
    {
        outcome = Ok(Some(signal));
    }
    listing.progress.clear();
    if let Some(signal) = outcome? {
        let message = format!("{signal} after {}; the list is not complete", listing.progress.seen());
        output.note(|| json!({ "interrupted": signal.as_str(), "message": message }), || message.clone());
        return Ok(status(signal));
    }
    if listing.listed.is_empty() && !output.json {
        let none = if arguments.pattern == "*" { "no lock" } else { "no lock that matches the pattern" };
        output.note(|| json!({}), || format!("{none} is held or waited for"));
    }
    Ok(0)
}

impl Listing<'_> {
    async fn all(&mut self) -> Outcome<()> {
        // A pattern without wildcards is one name. It needs no search.
        if let Some(name) = literal(&self.arguments.pattern) {
            let key = format!("{}{name}", self.servers.prefix);
            let mut node = self.servers.node_of(&key).await.ok();
            return self.list(node.as_mut(), &[key], Found::Named).await;
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

    /// The pattern of the locks' keys.
    fn pattern(&self) -> String {
        format!("{}{}", escape(&self.servers.prefix), self.arguments.pattern)
    }

    /// The patterns of the keys that tell of locks. `*` finds the queues too.
    fn searches(&self) -> Vec<String> {
        let pattern = self.pattern();
        if pattern == "*" { vec![pattern] } else { vec![queue_pattern(&pattern), pattern] }
    }

    async fn scan(&mut self, node: &mut Node) -> Outcome<()> {
        for wanted in self.searches() {
            self.scan_for(node, &self.pattern(), &wanted).await?;
        }
        Ok(())
    }

    /// Lists the locks that match `pattern`, from the keys that match `wanted`.
    async fn scan_for(&mut self, node: &mut Node, pattern: &str, wanted: &str) -> Outcome<()> {
        let mut cursor = 0_u64;
        loop {
            let start = Instant::now();
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(wanted).arg("COUNT").arg(SCAN_COUNT);
            let (next, found): (u64, Vec<Vec<u8>>) =
                node.query(&scan).await.map_err(|error| no_scan(&error, node, "SCAN"))?;
            // Names are text, so other bytes are no lock of ours.
            let found = found.into_iter().filter_map(|key| String::from_utf8(key).ok());
            let (sides, names): (Vec<String>, Vec<String>) = found.partition(|key| is_reserved(key));
            let mut locks = candidates(node, names).await?;
            locks.extend(sides.iter().filter_map(|key| key_of(key)).map(str::to_owned));
            locks.retain(|key| matches(pattern, key) && !self.listed.contains(key));
            self.pause(start.elapsed()).await;
            for keys in locks.chunks(AT_ONCE) {
                let start = Instant::now();
                self.list(Some(node), keys, Found::Scanned).await?;
                self.pause(start.elapsed()).await;
            }
            self.progress.advance(SCAN_COUNT / self.searches().len());
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

    /// Lists those of the keys that are locks in use. The node has them, and knows their kinds.
    async fn list(&mut self, node: Option<&mut Node>, keys: &[String], found: Found) -> Outcome<()> {
        let inspected = join_all(keys.iter().map(|key| self.locks.inspect_server(self.name(key)))).await;
        let mut locks = Vec::new();
        for (key, seen) in keys.iter().zip(inspected) {
            let seen = match seen {
                Ok(seen) => seen,
                // The key holds something else, or the name can't be one of ours.
                Err(error) if ["wrong-kind", "invalid-option"].contains(&error.code()) => {
                    if found == Found::Named {
                        let failure = Failure::from(error);
                        self.output.note(|| failure.json(), || failure.message.clone());
                    }
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let is_ours = |holder: &Holder| found == Found::Named || !holder.foreign;
            let is_used = seen.holders.iter().any(is_ours) || !seen.waiters.is_empty();
            if is_used && self.listed.insert(key.clone()) {
                locks.push((key.clone(), seen));
            }
        }
        let is_held: Vec<String> =
            locks.iter().filter(|(_, seen)| has_kind(seen)).map(|(key, _)| key.clone()).collect();
        let kinds = match node {
            Some(node) if !is_held.is_empty() => kinds(node, &is_held).await,
            _ => Vec::new(),
        };
        let mut kinds: HashMap<String, Kind> =
            is_held.into_iter().zip(kinds).filter_map(|(key, kind)| Some((key, kind?))).collect();
        for (key, seen) in locks {
            let (name, kind) = (self.name(&key), kinds.remove(&key));
            self.progress.clear();
            if !self.output.json && !self.headed {
                self.output.print(|| json!(null), heading)?;
                self.headed = true;
            }
            self.output.print(|| object(name, &seen, kind.as_ref()), || row(name, &seen, kind.as_ref()))?;
        }
        Ok(())
    }

    /// The pattern of each search begins with the prefix.
    fn name<'k>(&self, key: &'k str) -> &'k str {
        key.strip_prefix(&self.servers.prefix).unwrap_or(key)
    }
}

fn heading() -> String {
    let (held, waited) = ("HELD", "WAITED");
    format!(
        "{:<5} {:<9} {:>9} {:>7} {:>7} {held:>9} {waited:>9} {:>9}  {:>16}  {:<36}  NAME",
        "STATE", "KIND", "PERMITS", "HOLDERS", "WAITING", "TIME LEFT", "FENCE", "LABEL"
    )
}

fn row(name: &str, seen: &Inspection, kind: Option<&Kind>) -> String {
    // The mode says more than that it is a lock.
    let held = match (seen.holders.first(), kind) {
        (None, _) => "-",
        (Some(holder), None | Some(Kind::Lock)) => mode(holder.mode),
        (Some(_), Some(kind)) => kind.word(),
    };
    let permits = kind.and_then(|kind| Some((kind.taken(seen)?, seen.limit?)));
    let permits = permits.map_or_else(|| "-".to_owned(), |(taken, limit)| format!("{taken}/{limit}"));
    let left = match seen.holders.first() {
        None => "-".to_owned(),
        // The lock is busy until its last holder is gone.
        Some(_) => seen.holders.iter().map(|holder| holder.remaining).max().flatten().map_or("no TTL".to_owned(), time),
    };
    let fence = seen.last_fence.map_or_else(|| "-".to_owned(), |fence| fence.to_string());
    let (holders, waiters) = (seen.holders.len(), seen.waiting);
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
        "{state:<5} {held:<9} {permits:>9} {holders:>7} {waiters:>7} {for_so_long:>9} {waited:>9} {left:>9}  {fence:>16}  {label:<36}  {}",
        shown(name)
    )
}
