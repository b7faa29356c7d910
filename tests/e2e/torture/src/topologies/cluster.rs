use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use leasehold_servers::{Cluster, Error, Server};

use super::single::strike_server;
use super::{FaultLog, Topology, chosen, says, until};
use crate::faults::{Fault, Step};
use crate::history::now;

const SHARDS: usize = 3;
/// A server of the cluster that is silent for 1.5 s is replaced. Pauses are far shorter.
const LONGEST_PAUSE: Duration = Duration::from_millis(700);

/// Three primaries, each with a replica. Servers `n` and `n + 3` are always one shard.
pub(super) struct Shards {
    cluster: Cluster,
    /// The place of each shard's primary.
    primaries: [usize; SHARDS],
    /// When it was certain for the last time that no failover happened by itself.
    noticed: u64,
}

impl Shards {
    pub(super) fn start() -> Result<Self, Error> {
        Ok(Self { cluster: Cluster::start(Server::builder)?, primaries: [0, 1, 2], noticed: now() })
    }

    fn server(&self, place: usize) -> &Server {
        self.cluster.server(place)
    }

    /// The locks that a server serves now.
    fn names(&self, place: usize, log: &FaultLog) -> Vec<String> {
        log.names().iter().filter(|name| self.cluster.owner(name).is_ok_and(|owner| owner == place)).cloned().collect()
    }

    fn wipe(&self, place: usize, log: &mut FaultLog) -> Result<(), Error> {
        let names = self.names(place, log);
        let struck = log.began(Fault::Wipe, &self.shown(place));
        self.server(place).cli(&["FLUSHALL"])?;
        struck.ended_losing(names);
        Ok(())
    }

    /// Waits until the replica of a shard has the data.
    fn is_ready(&self, place: usize) -> Result<(), Error> {
        let replica = self.server(other(place));
        until("the replica follows", || says(replica, &["INFO", "replication"], "master_link_status:up"))
    }

    fn is_primary(&self, place: usize) -> bool {
        says(self.server(place), &["INFO", "replication"], "role:master")
    }

    /// The replica takes over when it has caught up. Nothing is lost.
    fn fail_over(&mut self, place: usize, log: &mut FaultLog) -> Result<(), Error> {
        self.is_ready(place)?;
        let struck = log.began(Fault::ShardFailover, &self.shown(place));
        // A try ends after some seconds if the cluster didn't agree.
        until("the replica takes over", || {
            if self.is_primary(other(place)) {
                return true;
            }
            let _ = self.server(other(place)).cli(&["CLUSTER", "FAILOVER"]);
            thread::sleep(Duration::from_millis(200));
            self.is_primary(other(place))
        })?;
        struck.ended();
        self.primaries[place % SHARDS] = other(place);
        Ok(())
    }

    /// The replica becomes the primary. It lacks the writes that have not reached it.
    fn kill(&mut self, place: usize, log: &mut FaultLog) -> Result<(), Error> {
        self.is_ready(place)?;
        let names = self.names(place, log);
        let struck = log.began(Fault::PrimaryKill, &self.shown(place));
        self.cluster.server_mut(place).stop();
        until("the replica takes over", || self.is_primary(other(place)))?;
        struck.ended_losing(names);
        self.primaries[place % SHARDS] = other(place);
        self.cluster.server_mut(place).restart()?;
        self.is_ready(other(place))
    }

    fn move_slot(&self, name: &str, step: &Step, log: &mut FaultLog) -> Result<(), Error> {
        let from = self.cluster.owner(name)?;
        let others: Vec<usize> = self.primaries.iter().copied().filter(|place| *place != from).collect();
        let Some(to) = chosen(&others, step.pick / 7) else { return Ok(()) };
        let struck = log.began(step.fault, &format!("{name} from {} to {}", self.shown(from), self.shown(*to)));
        let moving = self.cluster.begin_move(name, *to)?;
        thread::sleep(step.lasts);
        moving.finish()?;
        until("the others know it", || self.cluster.owner(name).is_ok_and(|owner| owner == *to))?;
        struck.ended();
        Ok(())
    }

    fn shown(&self, place: usize) -> String {
        format!("server {}", self.server(place).port())
    }
}

/// The other server of a shard.
const fn other(place: usize) -> usize {
    (place + SHARDS) % (SHARDS * 2)
}

impl Topology for Shards {
    fn urls(&self) -> Vec<String> {
        self.cluster.urls()
    }

    fn watched(&self) -> Vec<(String, SocketAddr)> {
        (0..SHARDS * 2).map(|place| (self.shown(place), self.server(place).address())).collect()
    }

    fn strike(&mut self, step: &Step, log: &mut FaultLog) -> Result<(), Error> {
        // Strikes where a lock is.
        let name = chosen(log.names(), step.pick).cloned().unwrap_or_default();
        let owner = self.cluster.owner(&name)?;
        match step.fault {
            Fault::Wipe => self.wipe(owner, log),
            Fault::ShardFailover => self.fail_over(owner, log),
            Fault::PrimaryKill => self.kill(owner, log),
            Fault::MoveSlot => self.move_slot(&name, step, log),
            _ => {
                let step = Step { lasts: step.lasts.min(LONGEST_PAUSE), ..*step };
                strike_server(self.server(owner), &step, log)
            }
        }
    }

    fn notice(&mut self, log: &mut FaultLog) -> Result<(), Error> {
        for shard in 0..SHARDS {
            let place = self.primaries[shard];
            if !self.is_primary(place) && self.is_primary(other(place)) {
                log.happened(self.noticed, &self.shown(place));
                self.primaries[shard] = other(place);
            }
        }
        self.noticed = now();
        Ok(())
    }
}
