//! The servers that the command line names: a lock manager over them, and plain connections to each of them.

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::redis_1::redis::aio::MultiplexedConnection;
use leasehold::redis_1::redis::{
    self, AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, ConnectionInfo, FromRedisValue,
    RedisError, RedisResult, TlsCertificates, Value,
};
use leasehold::{Builder, LockManager};
use leasehold_core::{PROBE, hash_slot, is_cross_slot};

use crate::args::Servers;
use crate::keyspace::Spread;
use crate::refusals::{CLOSED, DISABLED, LOGIN, UNKNOWN_COMMAND, answer, named_command, refused};
use crate::report::{Failure, Outcome, exit};

/// The password for the servers that hold the locks. Other users of the machine can read a command line, but not this.
const PASSWORD: &str = "REDIS_PASSWORD";

/// What was done when a server could not be connected to.
const CONNECTING: &str = "connecting";

/// A plain connection to one server.
pub(crate) struct Node {
    /// Where it is, without credentials.
    pub(crate) address: String,
    pub(crate) info: ConnectionInfo,
    /// The slots of this primary of a cluster, or all slots for one address that enforces them.
    pub(crate) slots: Option<Slots>,
    connection: MultiplexedConnection,
}

/// Ranges of a cluster's slots.
pub(crate) type Slots = Vec<RangeInclusive<u16>>;

impl Node {
    /// Runs a command. The server's refusal is an `Err`.
    pub(crate) async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        let value: Value = command.query_async(&mut self.connection).await?;
        Ok(redis::from_redis_value(value.extract_error()?)?)
    }

    /// Runs the commands in one round trip.
    pub(crate) async fn pipeline<T: FromRedisValue>(&mut self, commands: &redis::Pipeline) -> RedisResult<T> {
        commands.query_async(&mut self.connection).await
    }
}

impl Servers {
    /// A lock manager.
    pub(crate) async fn locks(&self) -> Outcome<LockManager> {
        self.locks_as(None).await
    }

    /// A lock manager with this label. By default, it has this process's.
    pub(crate) async fn locks_as(&self, label: Option<&str>) -> Outcome<LockManager> {
        let infos = self.infos()?;
        let builder = match label {
            Some(label) => self.builder().label(label),
            None => self.builder(),
        };
        if self.quorum {
            return Ok(builder.quorum(infos).await?);
        }
        if let Some(service) = &self.sentinel {
            return Ok(builder.sentinel(service, infos).await?);
        }
        if self.cluster {
            return Ok(builder.cluster(infos).await?);
        }
        let [info] = <[ConnectionInfo; 1]>::try_from(infos).map_err(|_| {
            Failure::usage("there are several URLs", "say what they are: --cluster, --sentinel SERVICE or --quorum")
        })?;
        Ok(builder.connect(info).await?)
    }

    /// A connection to each server that holds locks: to each primary of a cluster, and to each server of a quorum. A
    /// server that can't be reached has its error.
    pub(crate) async fn nodes(&self) -> Outcome<Vec<Result<Node, Failure>>> {
        let infos = self.infos()?;
        let infos = if let Some(service) = &self.sentinel {
            vec![self.primary(service, &infos).await?]
        } else {
            infos.into_iter().map(|info| self.with_login(info)).collect()
        };
        if !self.cluster {
            return Ok(join_all(infos.into_iter().map(|info| self.node(info))).await);
        }
        let primaries = self.cluster_primaries(&infos).await?.into_iter();
        let nodes = primaries.map(async |(info, slots)| Ok(Node { slots: Some(slots), ..self.node(info).await? }));
        Ok(join_all(nodes).await)
    }

    /// A connection to a server that has this key: to the primary of its slot, or to the first server of a quorum that
    /// answers.
    pub(crate) async fn node_of(&self, key: &str) -> Result<Node, Failure> {
        let infos = self.infos()?;
        if self.cluster {
            let slot = hash_slot(key.as_bytes());
            let primaries = self.cluster_primaries(&infos).await?;
            let owner = primaries.into_iter().find(|(_, slots)| slots.iter().any(|range| range.contains(&slot)));
            let (info, _) = owner.ok_or_else(|| Failure::new(exit::SERVER, "server", "no server has this slot", ""))?;
            return self.node(info).await;
        }
        let nodes = self.nodes().await?;
        let mut last = None;
        for node in nodes {
            match node {
                Ok(node) => return Ok(node),
                Err(failure) => last = Some(failure),
            }
        }
        Err(last.unwrap_or_else(|| Failure::usage("there is no server", "give one with --url")))
    }

    /// How the locks are spread over the servers.
    pub(crate) fn spread(&self) -> Spread {
        match (self.cluster, self.quorum) {
            (true, _) => Spread::Cluster,
            (_, true) => Spread::Quorum,
            _ => Spread::Single,
        }
    }

    /// As [`Self::spread`], but a cluster for one address that enforces slots.
    pub(crate) fn spread_on(&self, node: &Node) -> Spread {
        match self.spread() {
            Spread::Single if node.slots.is_some() => Spread::Cluster,
            spread => spread,
        }
    }

    fn builder(&self) -> Builder {
        let mut builder = LockManager::builder().prefix(&self.prefix).response_timeout(self.timeout);
        if let Some(user) = &self.user {
            builder = builder.username(user);
        }
        if let Ok(password) = std::env::var(PASSWORD) {
            builder = builder.password(password);
        }
        if let Some(number) = self.db {
            builder = builder.database(number);
        }
        if self.cluster_slots {
            builder = builder.cluster_slots(true);
        }
        builder
    }

    fn infos(&self) -> Outcome<Vec<ConnectionInfo>> {
        let given = self.url.iter().map(|url| url.trim()).filter(|url| !url.is_empty());
        let infos: Outcome<Vec<_>> = given.map(|url| self.info(url)).collect();
        let infos = infos?;
        if infos.is_empty() {
            return Err(Failure::usage("--url and REDIS_URL are empty", "give an address like redis://127.0.0.1:6379"));
        }
        Ok(infos)
    }

    fn info(&self, url: &str) -> Outcome<ConnectionInfo> {
        let read = |path: &Option<PathBuf>| {
            let failed = |path: &PathBuf, error| {
                Failure::usage(format!("can't read {}: {error}", path.display()), "give a PEM file that you can read")
            };
            path.as_ref().map(|path| fs::read(path).map_err(|error| failed(path, error))).transpose()
        };
        let (root_cert, client_cert, client_key) = (read(&self.tls_ca)?, read(&self.tls_cert)?, read(&self.tls_key)?);
        let client_tls =
            client_cert.zip(client_key).map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
        let client = if root_cert.is_some() || client_tls.is_some() {
            Client::build_with_tls(url, TlsCertificates { client_tls, root_cert })
        } else {
            Client::open(url)
        };
        Ok(client.map_err(|error| bad_address(&error))?.get_connection_info().clone())
    }

    fn with_login(&self, info: ConnectionInfo) -> ConnectionInfo {
        let mut settings = info.redis_settings().clone();
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Ok(password) = std::env::var(PASSWORD) {
            settings = settings.set_password(password);
        }
        if let Some(number) = self.db {
            settings = settings.set_db(number.into());
        }
        info.set_redis_settings(settings)
    }

    /// Gives the node another connection.
    pub(crate) async fn reconnect(&self, node: &mut Node) -> Outcome<()> {
        node.connection = self.node(node.info.clone()).await?.connection;
        Ok(())
    }

    async fn node(&self, info: ConnectionInfo) -> Result<Node, Failure> {
        let address = info.addr().to_string();
        let failed = |error: RedisError| of_server(&error, &address, CONNECTING);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout.max(Duration::from_secs(10))));
        // A proxy that doesn't know CLIENT SETINFO closes the connection.
        let plain = info.redis_settings().clone().set_skip_set_lib_name();
        let client = Client::open(info.clone().set_redis_settings(plain)).map_err(failed)?;
        let connection = client.get_multiplexed_async_connection_with_config(&config).await.map_err(failed)?;
        let mut node = Node { address: address.clone(), info, slots: None, connection };
        let mut probe = redis::cmd(PROBE[0]);
        probe.arg(&PROBE[1..]);
        match node.query::<Value>(&probe).await {
            // A server that wants a password refuses only the first command.
            Err(error) if error.code() == Some("NOAUTH") => return Err(failed(error)),
            Err(error) if is_cross_slot(&answer(&error)) => {
                node.slots = Some(vec![0..=u16::MAX >> 2]);
            }
            _ => {}
        }
        Ok(node)
    }

    /// The primary, by the first sentinel that answers.
    async fn primary(&self, service: &str, sentinels: &[ConnectionInfo]) -> Outcome<ConnectionInfo> {
        let mut query = redis::cmd("SENTINEL");
        query.arg("GET-MASTER-ADDR-BY-NAME").arg(service);
        let mut last = None;
        for sentinel in sentinels {
            let asked = async {
                let mut node = self.node(sentinel.clone()).await?;
                let answer = node.query::<Option<(String, u16)>>(&query).await;
                answer.map_err(|error| of_server(&error, &node.address, "SENTINEL"))
            };
            match asked.await {
                Ok(Some((host, port))) => {
                    let fresh = sentinel.clone().set_redis_settings(Default::default());
                    return Ok(self.with_login(at(&fresh, &host, port)));
                }
                Ok(None) => {
                    let message = format!("the sentinels monitor no primary as `{service}`");
                    last = Some(Failure::usage(message, "check --sentinel"));
                }
                Err(failure) => last = Some(failure),
            }
        }
        Err(last.unwrap_or_else(|| Failure::usage("there is no sentinel", "give its address with --url")))
    }

    /// Each primary of the cluster that has slots, by the first server that answers.
    async fn cluster_primaries(&self, seeds: &[ConnectionInfo]) -> Outcome<Vec<(ConnectionInfo, Slots)>> {
        let mut query = redis::cmd("CLUSTER");
        query.arg("SLOTS");
        let mut last = None;
        for seed in seeds {
            let asked = async {
                let mut node = self.node(seed.clone()).await?;
                let answer = node.query::<Vec<Vec<Value>>>(&query).await;
                answer.map_err(|error| of_server(&error, &node.address, "CLUSTER SLOTS"))
            };
            match asked.await {
                Ok(ranges) => {
                    let mut primaries: BTreeMap<(String, u16), Slots> = BTreeMap::new();
                    for (primary, slots) in ranges.into_iter().filter_map(range) {
                        primaries.entry(primary).or_default().push(slots);
                    }
                    return Ok(primaries
                        .into_iter()
                        .map(|((host, port), slots)| (at(seed, &host, port), slots))
                        .collect());
                }
                Err(failure) => last = Some(failure),
            }
        }
        Err(last.unwrap_or_else(|| Failure::usage("there is no server", "give one with --url")))
    }
}

/// Reads a range of `CLUSTER SLOTS`: its first slot, its last slot, the primary, the replicas.
fn range(range: Vec<Value>) -> Option<((String, u16), RangeInclusive<u16>)> {
    let mut parts = range.into_iter();
    let (first, last) = (redis::from_redis_value(parts.next()?).ok()?, redis::from_redis_value(parts.next()?).ok()?);
    let Value::Array(primary) = parts.next()? else { return None };
    let mut primary = primary.into_iter();
    let host = redis::from_redis_value(primary.next()?).ok()?;
    Some(((host, redis::from_redis_value(primary.next()?).ok()?), first..=last))
}

/// Another server that is reached the same way. An empty host means the host of this one.
fn at(info: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let own = match info.addr() {
        ConnectionAddr::Tcp(own, _) | ConnectionAddr::TcpTls { host: own, .. } => own.as_str(),
        _ => "127.0.0.1",
    };
    let host = if host.is_empty() { own } else { host }.to_owned();
    let addr = match info.addr() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    info.clone().set_addr(addr)
}

fn bad_address(error: &RedisError) -> Failure {
    let error = error.to_string();
    let problem = error.split(" - ").next().unwrap_or_default();
    Failure::usage(
        format!("--url is not a usable address: {problem}"),
        "write --url or REDIS_URL like redis://127.0.0.1:6379, or rediss://127.0.0.1:6379 for TLS",
    )
}

/// What a plain command's error means.
pub(crate) fn of_server(error: &RedisError, address: &str, what: &str) -> Failure {
    let (code, message) = (error.code().unwrap_or_default(), format!("{what} at {address}: {}", answer(error)));
    if code == "NOPERM" || code == "NOAUTH" || code == "WRONGPASS" || is_login(error) {
        let remedy = match named_command(&message) {
            Some(command) => format!("grant this user +{command}, or connect as another user"),
            None if refused(error).is_none() => LOGIN.to_owned(),
            None => "give this user the right, or connect as another user".to_owned(),
        };
        return Failure::new(exit::REFUSED, "auth", message, remedy);
    }
    if message.contains(UNKNOWN_COMMAND) {
        return Failure::new(exit::REFUSED, "auth", message, DISABLED);
    }
    if error.is_io_error() || error.is_timeout() || error.is_connection_dropped() {
        let connected = what != CONNECTING && error.is_connection_dropped();
        let remedy = if connected { CLOSED } else { "check --url or REDIS_URL, and that the server runs" };
        return Failure::new(exit::UNREACHABLE, "unreachable", message, remedy);
    }
    Failure::new(exit::SERVER, "server", message, "")
}

fn is_login(error: &RedisError) -> bool {
    error.kind() == redis::ErrorKind::AuthenticationFailed
}
