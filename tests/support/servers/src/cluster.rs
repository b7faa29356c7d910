use crate::Error;
use crate::replication::says;
use crate::resp::Reply;
use crate::server::{Builder, Server};
use crate::wait::until;

pub(crate) const SLOTS: usize = 16_384;
const PRIMARIES: usize = 3;

/// Three primaries with one replica each. Servers 0 to 2 are the primaries, 3 to 5 their replicas in the same order.
#[derive(Debug)]
pub struct Cluster {
    servers: Vec<Server>,
}

impl Cluster {
    /// Starts six servers with the same settings, and waits until they agree. With TLS, they also use it among themselves.
    ///
    /// # Errors
    /// If that does not happen in time.
    pub fn start(builder: impl Fn() -> Builder) -> Result<Self, Error> {
        let start = || {
            builder()
                .arg("--cluster-enabled", "yes")
                .arg("--cluster-node-timeout", "1500")
                .arg("--cluster-replica-validity-factor", "0")
                .arg("--repl-diskless-sync-delay", "0")
                .start()
        };
        let servers = (0..PRIMARIES * 2).map(|_| start()).collect::<Result<Vec<_>, _>>()?;
        let cluster = Self { servers };
        cluster.give_slots()?;
        cluster.meet()?;
        cluster.replicate()?;
        Ok(cluster)
    }

    /// The same, but no replica takes the place of a primary by itself, and a server counts as failing only after a
    /// minute of silence. So a slow machine causes no failover.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn steady(builder: impl Fn() -> Builder) -> Result<Self, Error> {
        let cluster = Self::start(|| builder().arg("--cluster-replica-no-failover", "yes"))?;
        for server in &cluster.servers {
            server.cli(&["CONFIG", "SET", "cluster-node-timeout", "60000"])?;
        }
        Ok(cluster)
    }

    /// In a steady cluster, lets the replica of this primary take its place once the primary has been silent for 1.5
    /// seconds.
    ///
    /// # Errors
    /// If a server can't be asked.
    pub fn allow_failover(&self, primary: usize) -> Result<(), Error> {
        for server in &self.servers {
            server.cli(&["CONFIG", "SET", "cluster-node-timeout", "1500"])?;
        }
        self.server(primary + PRIMARIES).cli(&["CONFIG", "SET", "cluster-replica-no-failover", "no"]).map(|_| ())
    }

    fn give_slots(&self) -> Result<(), Error> {
        for (place, server) in self.servers.iter().enumerate() {
            server.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(place + 1).to_string()])?;
        }
        for (place, primary) in self.servers.iter().take(PRIMARIES).enumerate() {
            let slots = (SLOTS * place / PRIMARIES..SLOTS * (place + 1) / PRIMARIES).map(|slot| slot.to_string());
            let words: Vec<String> = ["CLUSTER", "ADDSLOTS"].map(str::to_owned).into_iter().chain(slots).collect();
            primary.cli(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Introduces every server to every other, because gossip alone would take seconds.
    fn meet(&self) -> Result<(), Error> {
        for server in &self.servers {
            for other in &self.servers {
                server.cli(&["CLUSTER", "MEET", "127.0.0.1", &other.cluster_port().to_string()])?;
            }
        }
        let all = format!("cluster_known_nodes:{}", self.servers.len());
        for server in &self.servers {
            until("the servers know each other", || {
                Ok(says(server, &["CLUSTER", "INFO"], &all)?
                    && says(server, &["CLUSTER", "INFO"], "cluster_state:ok")?
                    && !says(server, &["CLUSTER", "NODES"], "handshake")?)
            })?;
        }
        Ok(())
    }

    fn replicate(&self) -> Result<(), Error> {
        for (primary, replica) in self.servers.iter().zip(self.servers.iter().skip(PRIMARIES)) {
            let id = id(primary)?;
            until("the replica takes its primary", || replica.cli(&["CLUSTER", "REPLICATE", &id]).map(|_| true))?;
        }
        for replica in self.servers.iter().skip(PRIMARIES) {
            until("the replica has the data", || says(replica, &["INFO", "replication"], "master_link_status:up"))?;
        }
        for server in &self.servers {
            until("all know who replicates whom", || {
                let nodes = server.cli(&["CLUSTER", "NODES"])?;
                Ok(nodes.text().unwrap_or_default().matches("slave").count() == PRIMARIES)
            })?;
        }
        Ok(())
    }

    /// The URLs of all servers.
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Server::url).collect()
    }

    /// One of the servers.
    ///
    /// # Panics
    /// If there is no such server.
    pub fn server(&self, place: usize) -> &Server {
        &self.servers[place]
    }

    /// One of the servers, mutable, so that it can be stopped.
    ///
    /// # Panics
    /// If there is no such server.
    pub fn server_mut(&mut self, place: usize) -> &mut Server {
        &mut self.servers[place]
    }

    /// The index of the server that serves this key's slot, according to any running server.
    ///
    /// # Errors
    /// If no server can be asked.
    pub fn owner(&self, key: &str) -> Result<usize, Error> {
        let slot = self.slot(key)?;
        for (place, server) in self.servers.iter().enumerate() {
            let Ok(nodes) = server.cli(&["CLUSTER", "NODES"]) else { continue };
            let own = nodes.text().unwrap_or_default().lines().find(|line| line.contains("myself")).unwrap_or_default();
            if own.contains("master") && serves(own, slot) {
                return Ok(place);
            }
        }
        Err(Error::Refused(format!("nobody serves slot {slot}")))
    }

    /// The slot of a key.
    ///
    /// # Errors
    /// If no server can be asked.
    pub fn slot(&self, key: &str) -> Result<i64, Error> {
        let answer = self.servers.iter().find_map(|server| server.cli(&["CLUSTER", "KEYSLOT", key]).ok());
        answer.and_then(|reply| reply.integer()).ok_or_else(|| Error::Refused("no server tells the slot".to_owned()))
    }

    /// Starts to move the key's slot to the server at index `to`: see [`SlotMove`].
    ///
    /// # Errors
    /// If a server refuses.
    pub fn begin_move(&self, key: &str, to: usize) -> Result<SlotMove<'_>, Error> {
        let (from, to) = (self.server(self.owner(key)?), self.server(to));
        let slot = self.slot(key)?.to_string();
        to.cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)?])?;
        from.cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)?])?;
        Ok(SlotMove { cluster: self, from, to, slot })
    }
}

/// A slot that is being moved from one server to another, the way `redis-cli --cluster reshard` does it.
#[derive(Debug)]
pub struct SlotMove<'a> {
    cluster: &'a Cluster,
    from: &'a Server,
    to: &'a Server,
    slot: String,
}

impl SlotMove<'_> {
    /// Moves the keys that exist now. New keys are created on the target.
    ///
    /// # Errors
    /// If a server refuses.
    pub fn keys(&self) -> Result<usize, Error> {
        let keys = self.from.cli(&["CLUSTER", "GETKEYSINSLOT", &self.slot, "1000"])?;
        for key in keys.list().iter().filter_map(Reply::text) {
            self.key(key)?;
        }
        Ok(keys.list().len())
    }

    /// Moves one key.
    ///
    /// # Errors
    /// If a server refuses.
    pub fn key(&self, key: &str) -> Result<(), Error> {
        let port = self.to.port().to_string();
        self.from.cli(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]).map(|_| ())
    }

    /// Moves the remaining keys, and assigns the slot to the target.
    ///
    /// # Errors
    /// If a server refuses.
    pub fn finish(self) -> Result<(), Error> {
        while self.keys()? > 0 {}
        let to = id(self.to)?;
        for server in [self.to, self.from].into_iter().chain(&self.cluster.servers) {
            // A replica refuses this and learns it from its primary.
            let _ = server.cli(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &to]);
        }
        Ok(())
    }
}

fn id(server: &Server) -> Result<String, Error> {
    let reply = server.cli(&["CLUSTER", "MYID"])?;
    reply.text().map(str::to_owned).ok_or_else(|| Error::Refused("a server without an id".to_owned()))
}

/// Whether a server's own line in `CLUSTER NODES` lists the slot.
fn serves(line: &str, slot: i64) -> bool {
    line.split_whitespace().skip(8).filter(|range| !range.starts_with('[')).any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        matches!((first.parse::<i64>(), last.parse::<i64>()), (Ok(first), Ok(last)) if (first..=last).contains(&slot))
    })
}
