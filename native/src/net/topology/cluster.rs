//! A Redis Cluster: its servers, and which one serves which slot.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::try_join_all;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{ConnectionAddr, ErrorKind, RedisResult};

use super::checks::{self, Demands};
use super::first_ok::first_of;
use super::server::Server;
use super::slots::{Address, Redirect, Slots, slot_of};
use crate::errors::Error;
use crate::net::connection::{Connection, within};

pub(crate) struct Cluster {
    /// The addresses that the user gave. All servers are reached the way the first one is (credentials, TLS).
    seeds: Vec<Server>,
    slots: Mutex<Slots>,
    /// Counts the queries, so that each query starts with another server. One with outdated knowledge is not always asked first.
    questions: AtomicUsize,
}

impl Cluster {
    pub(super) fn new(seeds: Vec<Server>) -> Self {
        Self { seeds, slots: Mutex::default(), questions: AtomicUsize::new(0) }
    }

    pub(super) fn url(&self) -> String {
        let seeds: Vec<_> = self.seeds.iter().map(Server::url).collect();
        seeds.join(", ")
    }

    /// Asks the servers which server serves which slot.
    pub(in crate::net) async fn discover(&self) -> RedisResult<()> {
        let mut question = redis::cmd("CLUSTER");
        question.arg("SLOTS");
        let ask = async |server: Server| {
            let said_by = address_of(&server)?;
            let answer = server.ask(&question).await?;
            let slots = Slots::parse(&answer, &said_by).filter(|slots| !slots.primaries().is_empty());
            slots.ok_or_else(|| (ErrorKind::Client, "the cluster has no slots yet", said_by.to_string()).into())
        };
        let slots = first_of(self.servers().into_iter().map(ask)).await?;
        *self.slots() = slots;
        Ok(())
    }

    /// A connection to the known primary of this key's slot.
    pub(super) async fn connect_for(&self, key: &[u8]) -> RedisResult<MultiplexedConnection> {
        match self.owner(slot_of(key)) {
            Some(owner) => self.server(&owner)?.connect().await,
            None => Err((ErrorKind::Client, "no server has this key's slot").into()),
        }
    }

    /// Discovers the slots, then connects to any of the servers.
    pub(super) async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let connecting = async {
            self.discover().await?;
            first_of(self.servers().into_iter().map(async |server: Server| server.connect().await)).await
        };
        let limit = self.seeds.first().map_or(Duration::ZERO, Server::response_timeout);
        within(limit, connecting).await
    }

    /// Checks the eviction policy of every server that has slots.
    pub(crate) async fn check_eviction(&self, limit: Duration) -> RedisResult<Result<(), Error>> {
        let demands = Demands { primary: false, no_eviction: true };
        let policies = try_join_all(self.primaries().into_iter().map(async |server| {
            let connection: Connection = Arc::new(server.connect().await?);
            checks::answers(&connection, demands).await
        }));
        let judge = |(info, policy): (String, Option<String>)| checks::judge(&info, demands, policy.as_deref());
        Ok(within(limit, policies).await?.into_iter().try_for_each(judge))
    }

    /// The servers that have slots.
    fn primaries(&self) -> Vec<Server> {
        self.slots().primaries().iter().filter_map(|address| self.server(address).ok()).collect()
    }

    /// As [`Server::subscribe`], on any of the servers: a message reaches all of them.
    pub(super) async fn subscribe(&self, channel: &str) -> RedisResult<PubSub> {
        first_of(self.servers().into_iter().map(async |server: Server| server.subscribe(channel).await)).await
    }

    /// Reads a server's refusal. True if it is a `MOVED` for `key`, which is then remembered.
    pub(super) fn learn(&self, refusal: &str, key: &[u8]) -> bool {
        let Some(said_by) = self.owner(slot_of(key)) else { return false };
        match Redirect::parse(refusal, &said_by) {
            Some(Redirect::Moved { slot, to }) => self.set_owner(slot, &to),
            _ => return false,
        }
        true
    }

    pub(in crate::net) fn owner(&self, slot: u16) -> Option<Address> {
        self.slots().owner(slot).cloned()
    }

    pub(in crate::net) fn set_owner(&self, slot: u16, owner: &Address) {
        self.slots().set_owner(slot, owner);
    }

    pub(in crate::net) fn is_primary(&self, address: &Address) -> bool {
        self.slots().primaries().contains(address)
    }

    /// The server at this address, with the credentials and TLS settings of the first seed.
    pub(in crate::net) fn server(&self, address: &Address) -> RedisResult<Server> {
        match self.seeds.first() {
            Some(seed) => seed.at(&address.host, address.port),
            None => Err((ErrorKind::Client, "there is no server to ask").into()),
        }
    }

    /// All known servers. Each call starts with another one.
    fn servers(&self) -> Vec<Server> {
        let known: Vec<Address> = self.slots().servers().cloned().collect();
        let mut servers: Vec<Server> = known.iter().filter_map(|address| self.server(address).ok()).collect();
        let unlisted = self.seeds.iter().filter(|seed| address_of(seed).is_ok_and(|seed| !known.contains(&seed)));
        servers.extend(unlisted.cloned());
        let start = self.questions.fetch_add(1, Ordering::Relaxed) % servers.len().max(1);
        servers.rotate_left(start);
        servers
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn address_of(server: &Server) -> RedisResult<Address> {
    match server.info().addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => Ok(Address::new(host, *port)),
        other => Err((ErrorKind::InvalidClientConfig, "a cluster needs a host and a port", other.to_string()).into()),
    }
}
