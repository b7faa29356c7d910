//! The options of a manager, and the ways to connect it.

use std::time::Instant;

use futures_util::future::BoxFuture;
use leasehold_core::{AcquireOptions, ClientId, Config, Engine, Labels, NodeId, check_label};

use super::address::{Address, Connection, locations};
use super::host::default_label;
use super::manager::LockManager;
use super::quorum_member::{Place, QuorumMember};
use super::spans::ModeLabel;
use crate::client::{Client, Made};
use crate::errors::Error;
use crate::metrics;
#[cfg(feature = "tls-rustls")]
use crate::net::Certificates;
use crate::net::{
    Access, Endpoint, Link, Login, Member, Opened, Opening, Origin, QUORUM_FIELD, Requirements, Slots, Source,
    connect_quorum, no_address,
};

/// What [`Builder::from_connection`] gets.
const PROVIDED: &str = "a connection that you provide, because it may reconnect within a transaction";

/// The options of a [`LockManager`].
///
/// All clients of one fleet should use the same values. The exceptions are `ttl` and `wait`: each lock can have its own.
///
/// ```no_run
/// # async fn build() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
/// use leasehold::LockManager;
///
/// let locks = LockManager::builder()
///     .prefix("billing:")
///     .ttl(Duration::from_secs(10))
///     .wait(Duration::from_secs(20))
///     .connect("redis://127.0.0.1/")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it connects"]
pub struct Builder {
    pub(super) config: Config,
    pub(super) defaults: AcquireOptions,
    login: Login,
    #[cfg(feature = "tls-rustls")]
    certificates: Certificates,
    pub(super) check_eviction: bool,
    pub(super) label: Option<String>,
    without_scripts: bool,
    pub(super) cluster_slots: Option<bool>,
}

impl Builder {
    /// The ACL user for the servers that hold the locks. It replaces the URL's user and needs a
    /// [`password`](Self::password).
    pub fn username(mut self, username: impl Into<String>) -> Self {
        self.login.username = Some(username.into());
        self
    }

    /// The password for the servers that hold the locks. It replaces the URL's password.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.login.password = Some(password.into());
        self
    }

    /// The number of the database that holds the locks. It replaces the URL's. A Redis Cluster has only database 0.
    pub fn database(mut self, number: u32) -> Self {
        self.login.database = Some(number);
        self
    }

    /// The certificates to trust instead of the system's, in PEM. For `rediss://` addresses only.
    ///
    /// ```no_run
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// let authority = std::fs::read("ca.pem")?;
    /// let locks = leasehold::LockManager::builder().root_certificates(authority).connect("rediss://10.0.0.1").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls-rustls")]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.root = Some(pem.into());
        self
    }

    /// The client's certificate and its key, both in PEM. For `rediss://` addresses only.
    #[cfg(feature = "tls-rustls")]
    pub fn client_certificate(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.certificates.client = Some((certificate.into(), key.into()));
        self
    }

    /// For servers that refuse `EVAL`, for example by their ACL rules. The client runs leasehold's scripts itself, and writes
    /// what they change in transactions (`WATCH`, `MULTI` and `EXEC`). All locks work, also together with clients that use
    /// scripts.
    ///
    /// A call takes two round trips, and begins again if another client changed the lock or the server's fence meanwhile.
    /// So this is slower, above all with many clients. Not for a cluster, nor for a connection that you provide.
    #[cfg(feature = "without-scripts")]
    pub fn without_scripts(mut self) -> Self {
        self.without_scripts = true;
        self
    }

    /// Connects to a server: see [`LockManager::connect`].
    ///
    /// # Cancel safety
    /// As [`LockManager::connect`].
    ///
    /// # Errors
    /// As [`LockManager::connect`], and `invalid-option` for an option that is out of its bounds.
    pub fn connect(
        self,
        address: impl Into<Address>,
    ) -> impl Future<Output = Result<LockManager, Error>> + Send + 'static {
        let address = address.into();
        async move {
            if self.cluster_slots == Some(true) {
                self.needs_scripts("`cluster_slots`")?;
            }
            let made = self.engine()?;
            let server = self.access("url", &self.login).server(address.0)?;
            self.connect_to(made, Endpoint::server(server)).await
        }
    }

    /// Connects to a cluster: see [`LockManager::cluster`].
    ///
    /// # Cancel safety
    /// As [`LockManager::cluster`].
    ///
    /// # Errors
    /// As [`LockManager::cluster`], and `invalid-option` for an option that is out of its bounds.
    pub async fn cluster<I>(self, nodes: I) -> Result<LockManager, Error>
    where
        I: IntoIterator<Item: Into<Address>>,
    {
        const FIELD: &str = "cluster";
        self.needs_scripts("a cluster")?;
        let mut made = self.engine()?;
        set_cluster(&mut made);
        let seeds = self.access(FIELD, &self.login).servers(locations(nodes))?;
        self.connect_to(made, Endpoint::cluster(seeds)).await
    }

    /// Connects to the primary that Sentinel monitors as `service`: see [`LockManager::sentinel`].
    ///
    /// # Cancel safety
    /// As [`LockManager::sentinel`].
    ///
    /// # Errors
    /// As [`LockManager::sentinel`], and `invalid-option` for an option that is out of its bounds.
    pub async fn sentinel<I>(self, service: impl Into<String>, sentinels: I) -> Result<LockManager, Error>
    where
        I: IntoIterator<Item: Into<Address>>,
    {
        const FIELD: &str = "sentinels";
        self.has_no_slots("behind Sentinel")?;
        let (made, service) = (self.engine()?, service.into());
        if service.is_empty() {
            return Err(Error::invalid("service", "is empty: give the name under which Sentinel monitors the primary"));
        }
        let (sentinels, template) = self.access(FIELD, &self.login).sentinels(locations(sentinels))?;
        let endpoint = Endpoint::sentinel(service, sentinels, template, self.config.response_timeout);
        self.connect_to(made, endpoint).await
    }

    /// Uses a connection that you provide: see [`LockManager::from_connection`].
    ///
    /// # Cancel safety
    /// As [`LockManager::from_connection`].
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    #[allow(clippy::wrong_self_convention)] // The same word as on the manager.
    pub async fn from_connection(self, connection: Connection) -> Result<LockManager, Error> {
        self.needs_scripts(PROVIDED)?;
        let made = self.engine()?;
        let (connection, origin) = connection.0.into_parts();
        self.start(made, Source::Provided(connection), origin).await
    }

    /// Connects to several independent servers, clusters or Sentinel groups: see [`LockManager::quorum`].
    ///
    /// # Cancel safety
    /// As [`LockManager::quorum`].
    ///
    /// # Errors
    /// As [`LockManager::quorum`], and `invalid-option` for an option that is out of its bounds.
    pub async fn quorum<I>(self, members: I) -> Result<LockManager, Error>
    where
        I: IntoIterator<Item: Into<QuorumMember>>,
    {
        self.has_no_slots("in a quorum")?;
        let mut given = Vec::new();
        for member in members {
            given.push(self.member(member.into())?);
        }
        if given.is_empty() {
            return Err(no_address(QUORUM_FIELD));
        }
        let names: Vec<String> = given.iter().map(Member::name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut made = Made { labels: None, ..self.engine_of(|id, config| Engine::quorum(id, config, &names))? };
        for (at, _) in (0..).zip(&given).filter(|(_, member)| member.is_cluster()) {
            made.engine.set_cluster(NodeId(at));
        }
        let Config { response_timeout, node_timeout, .. } = self.config;
        let (link, first) = connect_quorum(given, self.check_eviction, response_timeout, node_timeout).await?;
        Ok(self.run(made, link, None, Origin::Servers(first)))
    }

    /// The servers of one member of a quorum.
    fn member(&self, QuorumMember { place, login }: QuorumMember) -> Result<Member, Error> {
        let login = login.or(&self.login);
        let access = self.access(QUORUM_FIELD, &login);
        match place {
            Place::Server(location) => {
                let server = access.servers(vec![location])?.into_iter().next();
                server.map(Member::Server).ok_or_else(|| no_address(QUORUM_FIELD))
            }
            Place::Cluster(locations) => {
                self.needs_scripts("a cluster")?;
                access.servers(locations).map(Member::Cluster)
            }
            Place::Sentinel { service, .. } if service.is_empty() => {
                let problem =
                    "lists a service of Sentinel without its name: give the name under which Sentinel monitors it";
                Err(Error::invalid(QUORUM_FIELD, problem))
            }
            Place::Sentinel { service, sentinels } => {
                let (sentinels, template) = access.sentinels(sentinels)?;
                Ok(Member::Sentinel { service, sentinels, template })
            }
        }
    }

    /// Uses a server in memory: see [`testing`](crate::testing).
    ///
    /// # Errors
    /// `invalid-option` for an option that is out of its bounds, and `unsupported` outside a tokio runtime.
    #[cfg(feature = "testing")]
    pub fn in_memory(self, server: &crate::testing::Server) -> Result<LockManager, Error> {
        self.has_no_slots("with a server in memory")?;
        let made = self.engine()?;
        let link = Link::new(server.connection(), None, self.config.response_timeout);
        let origin = Origin::Memory(server.clone());
        Ok(self.run(made, link, Some("a server in memory".to_owned()), origin))
    }

    /// Checks the options and the runtime before anything is sent.
    fn engine(&self) -> Result<Made, Error> {
        self.engine_of(Engine::new)
    }

    fn engine_of(
        &self,
        make: impl FnOnce(ClientId, Config) -> Result<Engine, leasehold_core::Error>,
    ) -> Result<Made, Error> {
        if tokio::runtime::Handle::try_current().is_err() {
            let problem =
                "a lock manager needs a tokio runtime with I/O and time enabled; create it inside one".to_owned();
            return Err(Error::Unsupported { name: None, problem });
        }
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|error| {
            let problem = format!("the system has no source of randomness: {error}");
            Error::Unsupported { name: None, problem }
        })?;
        let id = ClientId::from_random(id);
        let label = self.label.clone().unwrap_or_else(default_label);
        let engine =
            check_label(&label).and_then(|()| self.defaults.check()).and_then(|()| make(id, self.config.clone()));
        let engine = engine.map_err(|error| Error::from_engine(error, None, None))?;
        tracing::debug!(client = %id, label, "lock manager made");
        let labels = Labels::new(id, &label).with_leases(&self.config.prefix).with_blocked(self.config.claim_window);
        Ok(Made { id, engine, labels: Some(labels) })
    }

    /// How to connect to the servers that the option `field` lists.
    fn access<'a>(&'a self, field: &'static str, login: &'a Login) -> Access<'a> {
        Access {
            field,
            login,
            #[cfg(feature = "tls-rustls")]
            certificates: &self.certificates,
            response_timeout: self.config.response_timeout,
            refuses_scripts: self.without_scripts,
        }
    }

    fn needs_scripts(&self, what: &str) -> Result<(), Error> {
        if self.without_scripts {
            let problem = format!("can't be used with {what}: connect to a server, through Sentinel or to a quorum");
            return Err(Error::InvalidOption { field: "without_scripts", problem });
        }
        Ok(())
    }

    fn has_no_slots(&self, what: &str) -> Result<(), Error> {
        if self.cluster_slots == Some(true) {
            return Err(Error::invalid("cluster_slots", &format!("can't be used {what}: leave it out")));
        }
        Ok(())
    }

    /// What to ask the server about slots.
    fn slots(&self, endpoint: Option<&Endpoint>) -> Slots {
        match (endpoint, self.cluster_slots) {
            (Some(Endpoint::Cluster(_) | Endpoint::Sentinel(_)), _) | (_, Some(false)) => Slots::Known,
            (_, Some(true)) => Slots::Required,
            _ if self.without_scripts => Slots::Known,
            _ => Slots::Asked,
        }
    }

    /// The future is boxed because it is large. The caller's own future then has only a pointer to it.
    fn connect_to(self, made: Made, endpoint: Endpoint) -> BoxFuture<'static, Result<LockManager, Error>> {
        let source = Source::Endpoint(endpoint.clone());
        Box::pin(self.start(made, source, Origin::Servers(Some(endpoint))))
    }

    async fn start(self, mut made: Made, source: Source, origin: Origin) -> Result<LockManager, Error> {
        let (since, limit) = (Instant::now(), self.config.response_timeout);
        let endpoint = origin.endpoint();
        let server = endpoint.as_ref().map(Endpoint::url);
        // This may be any server of a cluster. The primaries' eviction policies are checked below.
        let cluster = match &endpoint {
            Some(Endpoint::Cluster(cluster)) => Some(cluster),
            _ => None,
        };
        let requirements = Requirements {
            primary: cluster.is_none(),
            no_eviction: self.check_eviction && cluster.is_none(),
            slots: self.slots(endpoint.as_ref()),
        };
        let opening = Opening { source, requirements, limit };
        let opened = opening.first(since).await?;
        if let (Some(cluster), true) = (cluster, self.check_eviction) {
            let checked = cluster.check_eviction(limit.saturating_sub(since.elapsed())).await;
            checked.map_err(|error| Error::from_connecting(error, server.as_deref(), since.elapsed()))??;
        }
        let link = match opened {
            Opened::Ready(connection, abilities) => {
                abilities.tell(&mut made.engine, made.labels.as_mut());
                Link::new(connection, endpoint, limit)
            }
            // Another server may be ready, and this link knows only one.
            Opened::NotReady(failure) if cluster.is_some() => return Err(opening.unready(failure, since)),
            Opened::NotReady(_) => Link::unchecked(opening, endpoint, limit),
        };
        Ok(self.run(made, link, server, origin))
    }

    fn run(self, made: Made, link: Link, server: Option<String>, origin: Origin) -> LockManager {
        metrics::begin(&ModeLabel::all());
        let client = Client::start(made, link, server, origin, self.config.response_timeout);
        LockManager { client, defaults: self.defaults }
    }
}

/// Tells the engine that names are in the slots of a cluster, at one address or at several.
fn set_cluster(made: &mut Made) {
    made.engine.set_cluster(NodeId::default());
    made.labels.iter_mut().for_each(Labels::set_cluster);
}
