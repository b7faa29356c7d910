use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use leasehold_servers::{Error, PRIMARY, Sentinel, Server, follow};

use super::single::strike_server;
use super::{FaultLog, Topology, clients, says, until};
use crate::faults::{Fault, Step};
use crate::history::now;

/// Clients mostly leave an old primary within this time after a sentinel has named another one.
const LEFT: Duration = Duration::from_secs(1);
/// A sentinel waits for twice its failover timeout (3 s) before it fails over again.
const BETWEEN: Duration = Duration::from_millis(6_500);
/// A server that is silent for longer than this counts as down.
const DOWN: Duration = Duration::from_millis(1_500);

/// A primary with a replica, and a sentinel.
pub(super) struct Watched {
    /// The primary first.
    servers: [Server; 2],
    sentinel: Sentinel,
    switched: Instant,
    /// When it was certain for the last time that no failover happened by itself.
    noticed: u64,
}

impl Watched {
    pub(super) fn start() -> Result<Self, Error> {
        let start = || Server::builder().arg("--repl-diskless-sync-delay", "0").start();
        let servers = [start()?, start()?];
        follow(&servers[1], &servers[0])?;
        let settings = format!("sentinel down-after-milliseconds {PRIMARY} {}", DOWN.as_millis());
        let sentinel = Sentinel::start(Server::builder(), &servers[0], 1, &settings)?;
        Ok(Self { servers, sentinel, switched: Instant::now(), noticed: now() })
    }

    /// Waits until the replica follows the primary, and until the sentinel may fail over.
    fn is_ready(&self) -> Result<(), Error> {
        let port = format!("master_port:{}", self.servers[0].port());
        let replica = &self.servers[1];
        until("the replica follows", || {
            says(replica, &["INFO", "replication"], "master_link_status:up")
                && says(replica, &["INFO", "replication"], &port)
        })?;
        thread::sleep(BETWEEN.saturating_sub(self.switched.elapsed()));
        Ok(())
    }

    fn fail_over(&mut self, step: &Step, log: &mut FaultLog) -> Result<(), Error> {
        self.is_ready()?;
        let old = self.servers[0].port();
        let struck = log.began(step.fault, &format!("server {old}"));
        match step.fault {
            Fault::PrimaryPause => self.servers[0].pause()?,
            Fault::PrimaryKill => self.servers[0].stop(),
            _ => until("the sentinel begins", || {
                let sentinel = self.sentinel.server();
                sentinel.cli(&["SENTINEL", "FAILOVER", PRIMARY]).is_ok()
            })?,
        }
        until("another server is the primary", || self.sentinel.primary().is_ok_and(|port| port != old))?;
        match step.fault {
            // It still takes itself for the primary, until the sentinel tells it.
            Fault::PrimaryPause => self.servers[0].resume()?,
            Fault::PrimaryKill => self.servers[0].restart()?,
            _ => {}
        }
        thread::sleep(LEFT);
        have_left(&self.servers[0])?;
        struck.ended_with_losses();
        self.servers.swap(0, 1);
        self.switched = Instant::now();
        self.noticed = now();
        Ok(())
    }
}

/// Waits until an old primary has no clients, or is a replica.
fn have_left(old: &Server) -> Result<(), Error> {
    let only_this_one = || clients(old).is_ok_and(|ids| ids.len() <= 1);
    until("the old primary has no clients", || only_this_one() || says(old, &["INFO", "replication"], "role:slave"))
}

impl Topology for Watched {
    fn urls(&self) -> Vec<String> {
        vec![self.sentinel.server().url()]
    }

    fn watched(&self) -> Vec<(String, SocketAddr)> {
        self.servers.iter().map(|server| (format!("server {}", server.port()), server.address())).collect()
    }

    fn strike(&mut self, step: &Step, log: &mut FaultLog) -> Result<(), Error> {
        match step.fault {
            Fault::SentinelFailover | Fault::PrimaryPause | Fault::PrimaryKill => self.fail_over(step, log),
            Fault::Wipe => {
                let struck = log.began(step.fault, &format!("server {}", self.servers[0].port()));
                self.servers[0].cli(&["FLUSHALL"])?;
                struck.ended_with_losses();
                Ok(())
            }
            _ => {
                // A silence that lasts longer would be a failover. That one has a fault of its own.
                let step = Step { lasts: step.lasts.min(DOWN / 3), ..*step };
                strike_server(&self.servers[0], &step, log)
            }
        }
    }

    fn notice(&mut self, log: &mut FaultLog) -> Result<(), Error> {
        if self.sentinel.primary()? != self.servers[0].port() {
            thread::sleep(LEFT);
            have_left(&self.servers[0])?;
            log.happened(self.noticed, &format!("server {}", self.servers[0].port()));
            self.servers.swap(0, 1);
            self.switched = Instant::now();
        }
        self.noticed = now();
        Ok(())
    }
}
