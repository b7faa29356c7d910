use crate::Error;
use crate::resp::Reply;
use crate::server::{Builder, Server};
use crate::wait::until;

/// The name under which a [`Sentinel`] monitors its primary.
pub const PRIMARY: &str = "main";

/// Makes the server a replica of `primary`, and waits until it has the data.
///
/// # Errors
/// If that does not happen in time.
pub fn follow(server: &Server, primary: &Server) -> Result<(), Error> {
    server.cli(&["CONFIG", "SET", "repl-timeout", "5"])?;
    primary.cli(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"])?;
    server.cli(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()])?;
    until("the replica has the data", || says(server, &["INFO", "replication"], "master_link_status:up"))?;
    let online = format!("port={},state=online", server.port());
    until("the primary knows it", || says(primary, &["INFO", "replication"], &online))
}

/// From now on, no sentinel can make this primary a replica. After a failover, a sentinel would do so within seconds.
///
/// # Errors
/// If the server can't be asked.
pub fn stay_primary(server: &Server) -> Result<(), Error> {
    server.cli(&["ACL", "SETUSER", "default", "-replicaof", "-slaveof"]).map(|_| ())
}

/// Makes a replica a primary, without Sentinel.
///
/// # Errors
/// If the server can't be asked.
pub fn promote(server: &Server) -> Result<(), Error> {
    server.cli(&["REPLICAOF", "NO", "ONE"]).map(|_| ())
}

/// A sentinel that monitors a primary alone, so no other sentinel has to agree.
#[derive(Debug)]
pub struct Sentinel {
    server: Server,
}

impl Sentinel {
    /// Starts a sentinel that monitors `primary`, and waits until it knows this many replicas. It considers the primary
    /// down after 300 ms without an answer.
    ///
    /// # Errors
    /// If that does not happen in time.
    pub fn start(builder: Builder, primary: &Server, replicas: usize, settings: &str) -> Result<Self, Error> {
        let port = primary.port();
        let config = format!(
            "sentinel monitor {PRIMARY} 127.0.0.1 {port} 1\nsentinel down-after-milliseconds {PRIMARY} 1500\n\
             sentinel failover-timeout {PRIMARY} 3000\n{settings}\n"
        );
        let server = builder.config(config).word("--sentinel").start()?;
        until("the sentinel knows the replicas", || {
            Ok(server.cli(&["SENTINEL", "REPLICAS", PRIMARY])?.list().len() == replicas)
        })?;
        Ok(Self { server })
    }

    /// The sentinel's own process.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The port of the current primary, according to the sentinel.
    ///
    /// # Errors
    /// If the sentinel can't be asked.
    pub fn primary(&self) -> Result<u16, Error> {
        let reply = self.server.cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", PRIMARY])?;
        let port = reply.list().get(1).and_then(Reply::text).and_then(|port| port.parse().ok());
        port.ok_or_else(|| Error::Refused(format!("no primary: {reply:?}")))
    }

    /// From now on, a primary that is silent for less than ten minutes is not considered down. So a slow machine causes
    /// no failover, and [`fail_over`](Self::fail_over) has as much time as it needs.
    ///
    /// # Errors
    /// If the sentinel can't be asked.
    pub fn be_patient(&self) -> Result<(), Error> {
        let set = |option: &str| self.server.cli(&["SENTINEL", "SET", PRIMARY, option, "600000"]);
        set("down-after-milliseconds")?;
        set("failover-timeout").map(|_| ())
    }

    /// From now on, a primary that is silent for 1.5 seconds is considered down, as at the beginning.
    ///
    /// # Errors
    /// If the sentinel can't be asked.
    pub fn be_impatient(&self) -> Result<(), Error> {
        self.server.cli(&["SENTINEL", "SET", PRIMARY, "down-after-milliseconds", "1500"]).map(|_| ())
    }

    /// Makes the sentinel promote a replica, as for maintenance, and waits until that is done.
    ///
    /// # Errors
    /// If that does not happen in time.
    pub fn fail_over(&self) -> Result<(), Error> {
        let old = self.primary()?;
        until("the sentinel begins", || self.server.cli(&["SENTINEL", "FAILOVER", PRIMARY]).map(|_| true))?;
        until("another server is the primary", || Ok(self.primary()? != old))
    }
}

/// Whether the reply contains this text.
pub(crate) fn says(server: &Server, command: &[&str], text: &str) -> Result<bool, Error> {
    Ok(server.cli(command)?.text().is_some_and(|answer| answer.contains(text)))
}
