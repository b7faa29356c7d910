//! A Redis Cluster: its servers, and which one serves which slot.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::try_join_all;
use leasehold_core::hash_slot;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{ConnectionAddr, ErrorKind, RedisResult};

use super::checks::{self, Requirements};
use super::first_ok::first_ok;
use super::server::Server;
use super::slots::{Address, Redirect, SlotMap, node_ids};
use crate::errors::Error;
use crate::net::connection::{SharedConnection, with_timeout};

pub(crate) struct Cluster {
    /// The addresses that the user gave. The first one sets the credentials and TLS for all servers.
    seeds: Vec<Server>,
    slots: Mutex<SlotMap>,
    /// Counts the queries, so that each one starts with another server. Otherwise one server with outdated knowledge
    /// could always be asked first.
    queries: AtomicUsize,
}

impl Cluster {
    pub(super) fn new(seeds: Vec<Server>) -> Self {
        Self { seeds, slots: Mutex::default(), queries: AtomicUsize::new(0) }
    }

    pub(super) fn url(&self) -> String {
        let seeds: Vec<_> = self.seeds.iter().map(Server::url).collect();
        seeds.join(", ")
    }

    /// Asks the servers which of them serves which slot.
    pub(in crate::net) async fn refresh_slots(&self) -> RedisResult<()> {
        let mut query = redis::cmd("CLUSTER");
        query.arg("SLOTS");
        let ask = async |server: Server| {
            let answered_by = address_of(&server)?;
            let answer = server.query(&query).await?;
            if let Some(check) = &server.check {
                check.check_nodes(&node_ids(&answer))?;
            }
            let slots = SlotMap::parse(&answer, &answered_by).filter(|slots| !slots.primaries().is_empty());
            slots.ok_or_else(|| (ErrorKind::Client, "the cluster has no slots yet", answered_by.to_string()).into())
        };
        let slots = first_ok(self.servers().into_iter().map(ask)).await?;
        *self.slots() = slots;
        Ok(())
    }

    /// A connection to the known primary of this key's slot.
    pub(super) async fn connect_for(&self, key: &[u8]) -> RedisResult<MultiplexedConnection> {
        match self.owner(hash_slot(key)) {
            Some(owner) => self.server(&owner)?.connect().await,
            None => Err((ErrorKind::Client, "no server has this key's slot").into()),
        }
    }

    /// Asks for the slots, then connects to any of the servers.
    pub(super) async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let connecting = async {
            self.refresh_slots().await?;
            first_ok(self.servers().into_iter().map(async |server: Server| server.connect().await)).await
        };
        let limit = self.seeds.first().map_or(Duration::ZERO, Server::response_timeout);
        with_timeout(limit, connecting).await
    }

    /// Checks the eviction policy of every server that has slots.
    pub(crate) async fn check_eviction(&self, limit: Duration) -> RedisResult<Result<(), Error>> {
        let requirements = Requirements { no_eviction: true, ..Requirements::default() };
        let queries = try_join_all(self.primaries().into_iter().map(async |server| {
            let connection: SharedConnection = Arc::new(server.connect().await?);
            checks::query_server(&connection, requirements).await
        }));
        let servers = with_timeout(limit, queries).await?;
        Ok(servers
            .iter()
            .try_for_each(|server| checks::check_info(&server.info, requirements, server.policy.as_deref())))
    }

    /// The servers that have slots.
    fn primaries(&self) -> Vec<Server> {
        self.slots().primaries().iter().filter_map(|address| self.server(address).ok()).collect()
    }

    /// As [`Server::subscribe`], on any of the servers: a message reaches all of them.
    pub(super) async fn subscribe(&self, channel: &str) -> RedisResult<PubSub> {
        first_ok(self.servers().into_iter().map(async |server: Server| server.subscribe(channel).await)).await
    }

    /// Remembers where `key` is now if this refusal by its server is a `MOVED`. Returns whether it is.
    pub(super) fn learn_moved(&self, refusal: &str, key: &[u8]) -> bool {
        let Some(answered_by) = self.owner(hash_slot(key)) else { return false };
        match Redirect::parse(refusal, &answered_by) {
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
            Some(seed) => seed.with_address(&address.host, address.port),
            None => Err((ErrorKind::Client, "there is no server to ask").into()),
        }
    }

    /// All known servers. Each call starts with another one.
    fn servers(&self) -> Vec<Server> {
        let known: Vec<Address> = self.slots().servers().cloned().collect();
        let mut servers: Vec<Server> = known.iter().filter_map(|address| self.server(address).ok()).collect();
        let unlisted = self.seeds.iter().filter(|seed| address_of(seed).is_ok_and(|seed| !known.contains(&seed)));
        servers.extend(unlisted.cloned());
        let start = self.queries.fetch_add(1, Ordering::Relaxed) % servers.len().max(1);
        servers.rotate_left(start);
        servers
    }

    fn slots(&self) -> MutexGuard<'_, SlotMap> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn address_of(server: &Server) -> RedisResult<Address> {
    match server.connection_info().addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => Ok(Address::new(host, *port)),
        other => Err((ErrorKind::InvalidClientConfig, "a cluster needs a host and a port", other.to_string()).into()),
    }
}
