//! Where a server is, and a connection that a user provides.

use std::fmt;

use crate::net::{Location, Provided};

/// The address of a server: a URL such as `redis://user:password@host:6379/0`, `rediss://host` for TLS, or `unix:///path`.
///
/// A string or a pair of host and port converts into an address. With the feature `redis-1`, so do a `redis::Client` and a
/// `redis::ConnectionInfo`: see the module `redis_1`. The conversion checks nothing: a bad address fails with
/// `invalid-option` when a manager connects.
///
/// ```
/// use leasehold::Address;
///
/// let addresses: [Address; 2] = ["redis://10.0.0.1:7000".into(), ("10.0.0.2", 7000).into()];
/// ```
#[derive(Clone)]
pub struct Address(pub(super) Location);

/// A URL.
impl From<&str> for Address {
    fn from(url: &str) -> Self {
        Self(Location::new(url))
    }
}

/// A URL.
impl From<String> for Address {
    fn from(url: String) -> Self {
        Self::from(url.as_str())
    }
}

/// A URL.
impl From<&String> for Address {
    fn from(url: &String) -> Self {
        Self::from(url.as_str())
    }
}

/// A host and its port.
impl From<(&str, u16)> for Address {
    fn from(place: (&str, u16)) -> Self {
        Self(Location::new(place))
    }
}

/// A host and its port.
impl From<(String, u16)> for Address {
    fn from(place: (String, u16)) -> Self {
        Self(Location::new(place))
    }
}

/// Without user and password.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.0)
    }
}

/// A connection that you provide: see [`LockManager::from_connection`](crate::LockManager::from_connection).
///
/// A module for each client library and its version, such as `redis_1`, has the functions that make one.
#[must_use = "a connection does nothing until a manager uses it"]
pub struct Connection(pub(super) Provided);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

/// The addresses in the form of the network layer.
pub(super) fn locations(addresses: impl IntoIterator<Item: Into<Address>>) -> Vec<Location> {
    addresses.into_iter().map(|address| address.into().0).collect()
}
