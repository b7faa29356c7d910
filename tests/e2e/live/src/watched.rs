use std::io;

use leasehold::LockManager;
use leasehold_servers::{Builder, Error, PRIMARY, Sentinel, Server, follow};

use crate::raw::is_there;
use crate::toy_server::ToyServer;
use crate::waiting::until;

/// A primary with a replica, and the sentinels that watch them.
#[derive(Debug)]
pub struct Watched {
    /// The primary at the beginning.
    pub primary: Server,
    /// Its replica.
    pub replica: Server,
    /// The first sentinel.
    pub sentinel: Sentinel,
    /// The other sentinels.
    pub others: Vec<Sentinel>,
}

impl Watched {
    /// With one sentinel, which gives a slow machine all the time that it needs.
    ///
    /// # Errors
    /// If a server can't be started.
    pub fn start() -> Result<Self, Error> {
        Self::start_with(Server::builder, 1)?.patient()
    }

    /// With this many sentinels, for which a primary is down after 1.5 s.
    ///
    /// # Errors
    /// If a server can't be started.
    pub fn start_with(builder: impl Fn() -> Builder, sentinels: usize) -> Result<Self, Error> {
        let (primary, replica) = (builder().start()?, builder().start()?);
        follow(&replica, &primary)?;
        let start = || Sentinel::start(Server::builder(), &primary, 1, "");
        let (sentinel, others) = (start()?, (1..sentinels).map(|_| start()).collect::<Result<_, _>>()?);
        Ok(Self { primary, replica, sentinel, others })
    }

    /// See [`Sentinel::be_patient`].
    ///
    /// # Errors
    /// If a sentinel can't be asked.
    pub fn patient(self) -> Result<Self, Error> {
        self.sentinels().try_for_each(Sentinel::be_patient)?;
        Ok(self)
    }

    /// All sentinels.
    pub fn sentinels(&self) -> impl Iterator<Item = &Sentinel> {
        std::iter::once(&self.sentinel).chain(&self.others)
    }

    /// The URLs of all sentinels.
    pub fn urls(&self) -> Vec<String> {
        self.sentinels().map(|sentinel| sentinel.server().url()).collect()
    }

    /// From now on, the replica receives nothing.
    ///
    /// # Errors
    /// If the replica can't be paused.
    pub fn cut(&self) -> Result<(), Error> {
        self.replica.pause()?;
        self.primary.cli(&["CLIENT", "KILL", "TYPE", "replica"]).map(|_| ())
    }

    /// The primary is down, and the replica takes its place without what it did not receive.
    ///
    /// # Errors
    /// If a server can't be asked.
    pub async fn lose_primary(&mut self) -> Result<(), Error> {
        self.primary.stop();
        self.sentinel.be_impatient()?;
        self.replica.resume()?;
        let promoted = self.replica.port();
        until("the replica is the primary", async || self.sentinel.primary().is_ok_and(|port| port == promoted)).await;
        Ok(())
    }

    /// Waits until each of the clients takes its locks on the former replica.
    pub async fn is_left_by(&self, clients: &[LockManager]) {
        until("all are on the new primary", async || {
            for locks in clients {
                if !self.grants_on_new_primary(locks, "elsewhere").await {
                    return false;
                }
            }
            true
        })
        .await;
    }

    /// Whether the former replica grants this lock.
    pub async fn grants_on_new_primary(&self, locks: &LockManager, name: &str) -> bool {
        let Ok(lease) = locks.mutex(name).acquire().await else { return false };
        let there = is_there(&self.replica, name).is_ok_and(|there| there);
        let _ = lease.release().await;
        there
    }

    /// A sentinel that is cut off from the others: it goes on naming the first primary, as before any failover.
    ///
    /// # Errors
    /// If it can't listen.
    pub fn stale_sentinel(&self) -> io::Result<ToyServer> {
        let port = self.primary.port().to_string();
        let list = |words: &[&str]| {
            let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
            format!("*{}\r\n{}", words.len(), words.collect::<String>())
        };
        ToyServer::start(move |words| match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["SENTINEL", "MASTER", PRIMARY] => {
                list(&["name", PRIMARY, "ip", "127.0.0.1", "port", &port, "config-epoch", "0"])
            }
            ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", PRIMARY] => list(&["127.0.0.1", &port]),
            ["SUBSCRIBE", channel] => format!("*3\r\n$9\r\nsubscribe\r\n${}\r\n{channel}\r\n:1\r\n", channel.len()),
            _ => "+OK\r\n".to_owned(),
        })
    }
}
