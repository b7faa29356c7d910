//! What a user lists as a member of a quorum.

use std::fmt;

use redis::{ConnectionInfo, IntoConnectionInfo};

use crate::errors::Error;
use crate::net::{Login, QUORUM_FIELD, parse_addresses};

/// A member of a [quorum](crate::LockManager::quorum): one server, a cluster, or a group of servers that Sentinel
/// monitors. Each has one vote.
///
/// An address, such as a URL or a `redis::ConnectionInfo`, becomes a member that is one server.
///
/// ```no_run
/// # async fn f() -> Result<(), leasehold::Error> {
/// use leasehold::{LockManager, QuorumMember};
///
/// let locks = LockManager::quorum([
///     QuorumMember::from("redis://10.0.1.1"),
///     QuorumMember::cluster(["redis://10.0.2.1:7000", "redis://10.0.2.2:7000"]),
///     QuorumMember::sentinel("main", ["redis://10.0.3.1:26379", "redis://10.0.3.2:26379"]).password("secret"),
/// ])
/// .await?;
/// # Ok(())
/// # }
/// ```
///
/// A member that fails over can lose its last writes: see the section *Members that fail over* of the page *Topologies*.
#[must_use = "a member does nothing until a manager connects to it"]
pub struct QuorumMember {
    pub(super) place: Result<Place, Error>,
    pub(super) login: Login,
}

/// Where a member is.
pub(super) enum Place {
    Server(ConnectionInfo),
    Sentinel { service: String, sentinels: Vec<ConnectionInfo> },
    Cluster(Vec<ConnectionInfo>),
}

impl QuorumMember {
    /// A Redis Cluster, by some of its servers: see [`LockManager::cluster`](crate::LockManager::cluster). Name the same
    /// server first everywhere: it is in the error messages.
    pub fn cluster<I>(nodes: I) -> Self
    where
        I: IntoIterator<Item: IntoConnectionInfo>,
    {
        Self::at(parse_addresses(QUORUM_FIELD, nodes).map(Place::Cluster))
    }

    /// The primary that Sentinel monitors as `service`: see [`LockManager::sentinel`](crate::LockManager::sentinel).
    pub fn sentinel<I>(service: impl Into<String>, sentinels: I) -> Self
    where
        I: IntoIterator<Item: IntoConnectionInfo>,
    {
        let service = service.into();
        if service.is_empty() {
            let problem =
                "lists a service of Sentinel without its name: give the name under which Sentinel monitors it";
            return Self::at(Err(Error::invalid(QUORUM_FIELD, problem)));
        }
        Self::at(parse_addresses(QUORUM_FIELD, sentinels).map(|sentinels| Place::Sentinel { service, sentinels }))
    }

    /// The ACL user for this member's servers that hold the locks. It needs a [`password`](Self::password), and comes
    /// before those of the URL and of the [builder](crate::Builder::username).
    pub fn username(mut self, username: impl Into<String>) -> Self {
        self.login.username = Some(username.into());
        self
    }

    /// The password for this member's servers that hold the locks. It comes before those of the URL and of the
    /// [builder](crate::Builder::password).
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.login.password = Some(password.into());
        self
    }

    /// The number of the database that holds the locks. It comes before those of the URL and of the
    /// [builder](crate::Builder::database). A Redis Cluster has only database 0.
    pub fn database(mut self, number: u32) -> Self {
        self.login.database = Some(number);
        self
    }

    fn at(place: Result<Place, Error>) -> Self {
        Self { place, login: Login::default() }
    }
}

/// A member that is one server.
impl<T: IntoConnectionInfo> From<T> for QuorumMember {
    fn from(address: T) -> Self {
        let addresses = parse_addresses(QUORUM_FIELD, [address]);
        Self::at(addresses.and_then(|addresses| {
            let address = addresses.into_iter().next().ok_or_else(|| crate::net::no_address(QUORUM_FIELD));
            address.map(Place::Server)
        }))
    }
}

/// Without passwords.
impl fmt::Debug for QuorumMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses = match &self.place {
            Ok(Place::Server(server)) => format!("{}", server.addr()),
            Ok(Place::Sentinel { service, sentinels }) => format!("{service} at {}", listed(sentinels)),
            Ok(Place::Cluster(nodes)) => listed(nodes),
            Err(error) => error.to_string(),
        };
        f.debug_struct("QuorumMember").field("at", &addresses).field("login", &self.login).finish()
    }
}

fn listed(infos: &[ConnectionInfo]) -> String {
    let addresses: Vec<_> = infos.iter().map(|info| info.addr().to_string()).collect();
    addresses.join(", ")
}
