//! The servers of a run, and what can happen to them.

mod cluster;
mod quorum;
mod sentinel;
mod single;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use leasehold_servers::{Error, Reply, Server};
use serde::{Deserialize, Serialize};

use crate::faults::{Fault, Step};
use crate::history::{Event, HARNESS, Recorder, What, day};

/// How the servers belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One server with a replica, behind an address that moves with a failover.
    Single,
    /// A primary with a replica, and a sentinel.
    Sentinel,
    /// Three primaries with a replica each.
    Cluster,
    /// Three independent servers.
    Quorum,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Single, Self::Sentinel, Self::Cluster, Self::Quorum];

    /// Starts the servers.
    ///
    /// # Errors
    /// If one does not start.
    pub fn start(self) -> Result<Box<dyn Topology>, Error> {
        Ok(match self {
            Self::Single => Box::new(single::Single::start()?),
            Self::Sentinel => Box::new(sentinel::Watched::start()?),
            Self::Cluster => Box::new(cluster::Shards::start()?),
            Self::Quorum => Box::new(quorum::Members::start()?),
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Single => "single",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
            Self::Quorum => "quorum",
        })
    }
}

/// Running servers.
pub trait Topology: Send {
    /// The addresses that clients are given.
    fn urls(&self) -> Vec<String>;

    /// The servers whose queues are watched, by name. A quorum has a queue on its first server only.
    fn watched(&self) -> Vec<(String, SocketAddr)>;

    /// Strikes, and lets it end. Everything runs again afterwards.
    ///
    /// # Errors
    /// If a server can't be asked, started or stopped.
    fn strike(&mut self, step: &Step, log: &mut FaultLog) -> Result<(), Error>;

    /// Records a failover that happened by itself, as it may on a busy machine. Called before every step and at the end.
    ///
    /// # Errors
    /// If no server can be asked.
    fn notice(&mut self, log: &mut FaultLog) -> Result<(), Error>;
}

/// Records the faults of one sequence.
#[derive(Debug)]
pub struct FaultLog {
    recorder: Arc<Recorder>,
    /// The number of the next fault.
    next: u64,
    names: Vec<String>,
}

impl FaultLog {
    /// The numbers of this sequence begin with `first`. `names` are the locks of the run.
    pub fn new(recorder: Arc<Recorder>, first: u64, names: Vec<String>) -> Self {
        Self { recorder, next: first, names }
    }

    /// The locks of the run.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Notes that a fault begins.
    pub fn began(&mut self, fault: Fault, target: &str) -> Struck {
        let number = self.next;
        self.next += 1;
        self.recorder.note(What::FaultBegan { number, fault: fault.name().to_owned(), target: target.to_owned() });
        Struck { number, recorder: Arc::clone(&self.recorder) }
    }

    /// Notes a failover that happened by itself since this time, in microseconds.
    pub fn happened(&mut self, since: u64, target: &str) {
        let number = self.next;
        self.next += 1;
        let what = What::FaultBegan { number, fault: "unplanned-failover".to_owned(), target: target.to_owned() };
        self.recorder.add(Event { at: since, by: HARNESS.to_owned(), what });
        Struck { number, recorder: Arc::clone(&self.recorder) }.ended_with_losses();
    }
}

/// All locks, where a fault ends.
const ALL_LOCKS: [&str; 1] = ["*"];

/// A fault that has begun.
#[derive(Debug)]
#[must_use = "a fault that has begun must end"]
pub struct Struck {
    number: u64,
    recorder: Arc<Recorder>,
}

impl Struck {
    /// A server was down since this time, and comes back now.
    pub fn was_down(&self, from: u64) {
        self.recorder.note(What::Down { from });
    }

    /// It is over, and nothing was lost.
    pub fn ended(self) {
        self.ended_losing(Vec::new());
    }

    /// It is over, and the data of all locks may be lost.
    pub fn ended_with_losses(self) {
        self.ended_losing(ALL_LOCKS.map(str::to_owned).to_vec());
    }

    /// It is over, and the data of these locks may be lost.
    pub fn ended_losing(self, lost: Vec<String>) {
        self.recorder.note(What::FaultEnded { number: self.number, lost, day: day() });
    }
}

/// One of several, chosen by a plan.
pub(crate) fn chosen<T>(items: &[T], pick: usize) -> Option<&T> {
    items.get(pick.checked_rem(items.len())?)
}

/// `CLIENT KILL` for the clients of a server.
fn kill_clients(server: &Server) -> Result<(), Error> {
    for id in clients(server)? {
        // The connection may have ended meanwhile. The connection that sends these commands kills itself last or never.
        let _ = server.cli(&["CLIENT", "KILL", "ID", &id]);
    }
    Ok(())
}

/// The ids of a server's connections, including the one that asks. Its replicas, its primary, sentinels and the
/// watchers of its log don't count.
fn clients(server: &Server) -> Result<Vec<String>, Error> {
    let list = server.cli(&["CLIENT", "LIST"])?;
    let client = |line: &str| {
        let field = |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        let flags = field("flags").unwrap_or_default();
        let is_client = !flags.contains(['O', 'S', 'M']) && !field("name").unwrap_or_default().contains("sentinel");
        field("id").filter(|_| is_client).map(str::to_owned)
    };
    Ok(list.text().unwrap_or_default().lines().filter_map(client).collect())
}

/// Whether the text that the server answers contains this.
fn says(server: &Server, command: &[&str], text: &str) -> bool {
    server.cli(command).ok().as_ref().and_then(Reply::text).is_some_and(|answer| answer.contains(text))
}

/// Waits until something holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) -> Result<(), Error> {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() > Duration::from_secs(180) {
            return Err(Error::NotStarted(format!("not within 180 s: {what}")));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
