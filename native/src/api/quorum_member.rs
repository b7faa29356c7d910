//! What a user lists as a member of a quorum.

use std::fmt;

use super::address::{Address, locations};
use crate::net::{Location, Login};

/// A member of a [quorum](crate::LockManager::quorum): one server, a cluster, or a group of servers that Sentinel
/// monitors. Each has one vote.
///
/// An [`Address`], such as a URL, becomes a member that is one server.
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
    pub(super) place: Place,
    pub(super) login: Login,
}

/// Where a member is.
pub(super) enum Place {
    Server(Location),
    Sentinel { service: String, sentinels: Vec<Location> },
    Cluster(Vec<Location>),
}

impl QuorumMember {
    /// A Redis Cluster, by some of its servers: see [`LockManager::cluster`](crate::LockManager::cluster). Name the same
    /// server first everywhere: it is in the error messages.
    pub fn cluster<I>(nodes: I) -> Self
    where
        I: IntoIterator<Item: Into<Address>>,
    {
        Self::at(Place::Cluster(locations(nodes)))
    }

    /// The primary that Sentinel monitors as `service`: see [`LockManager::sentinel`](crate::LockManager::sentinel).
    pub fn sentinel<I>(service: impl Into<String>, sentinels: I) -> Self
    where
        I: IntoIterator<Item: Into<Address>>,
    {
        Self::at(Place::Sentinel { service: service.into(), sentinels: locations(sentinels) })
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

    fn at(place: Place) -> Self {
        Self { place, login: Login::default() }
    }
}

/// A member that is one server.
impl<T: Into<Address>> From<T> for QuorumMember {
    fn from(address: T) -> Self {
        Self::at(Place::Server(address.into().0))
    }
}

/// Without passwords.
impl fmt::Debug for QuorumMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = match &self.place {
            Place::Server(server) => server.to_string(),
            Place::Sentinel { service, sentinels } => format!("{service} at {}", listed(sentinels)),
            Place::Cluster(nodes) => listed(nodes),
        };
        f.debug_struct("QuorumMember").field("at", &at).field("login", &self.login).finish()
    }
}

fn listed(locations: &[Location]) -> String {
    locations.iter().map(Location::to_string).collect::<Vec<_>>().join(", ")
}
