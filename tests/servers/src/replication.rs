use crate::Error;
use crate::resp::Reply;
use crate::server::{Builder, Server};
use crate::wait::until;

/// The name by which a [`Sentinel`] knows its primary.
pub const PRIMARY: &str = "main";

/// Makes the server a replica of `primary`, and waits until it has the data.
///
/// # Errors
/// If it does not come to that.
pub fn follow(server: &Server, primary: &Server) -> Result<(), Error> {
    server.cli(&["CONFIG", "SET", "repl-timeout", "5"])?;
    primary.cli(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"])?;
    server.cli(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()])?;
    until("the replica has the data", || says(server, &["INFO", "replication"], "master_link_status:up"))?;
    let online = format!("port={},state=online", server.port());
    until("the primary knows it", || says(primary, &["INFO", "replication"], &online))
}

/// Makes a replica a primary, by hand.
///
/// # Errors
/// If the server can't be asked.
pub fn promote(server: &Server) -> Result<(), Error> {
    server.cli(&["REPLICAOF", "NO", "ONE"]).map(|_| ())
}

/// A sentinel that watches a primary, alone: what it decides is done.
#[derive(Debug)]
pub struct Sentinel {
    server: Server,
}

impl Sentinel {
    /// Watches `primary`, and takes it for down when it is silent for 300 ms; waits until it knows so many replicas.
    ///
    /// # Errors
    /// If it does not come to that.
    pub fn start(builder: Builder, primary: &Server, replicas: usize, settings: &str) -> Result<Self, Error> {
        let port = primary.port();
        let config = format!(
            "sentinel monitor {PRIMARY} 127.0.0.1 {port} 1\nsentinel down-after-milliseconds {PRIMARY} 300\n\
             sentinel failover-timeout {PRIMARY} 3000\n{settings}\n"
        );
        let server = builder.config(config).word("--sentinel").start()?;
        until("the sentinel knows the replicas", || {
            Ok(server.cli(&["SENTINEL", "REPLICAS", PRIMARY])?.list().len() == replicas)
        })?;
        Ok(Self { server })
    }

    /// The sentinel's own server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The port of the primary that it names now.
    ///
    /// # Errors
    /// If it can't be asked.
    pub fn primary(&self) -> Result<u16, Error> {
        let reply = self.server.cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", PRIMARY])?;
        let port = reply.list().get(1).and_then(Reply::text).and_then(|port| port.parse().ok());
        port.ok_or_else(|| Error::Refused(format!("no primary: {reply:?}")))
    }

    /// Has it make a replica the primary, as for maintenance, and waits until that is done.
    ///
    /// # Errors
    /// If it does not come to that.
    pub fn fail_over(&self) -> Result<(), Error> {
        let old = self.primary()?;
        until("the sentinel begins", || self.server.cli(&["SENTINEL", "FAILOVER", PRIMARY]).map(|_| true))?;
        until("another server is the primary", || Ok(self.primary()? != old))
    }
}

/// Whether the answer contains this text.
pub(crate) fn says(server: &Server, command: &[&str], text: &str) -> Result<bool, Error> {
    Ok(server.cli(command)?.text().is_some_and(|answer| answer.contains(text)))
}
