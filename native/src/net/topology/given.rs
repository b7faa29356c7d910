//! What users give to connect: addresses, credentials and certificates.

use std::fmt;
use std::time::Duration;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisResult};

#[cfg(feature = "tls-rustls")]
use super::certificates::Certificates;
use super::login::Login;
use super::server::Server;
use crate::errors::Error;

/// An address that a user gave, or why it is none.
#[derive(Clone)]
pub(crate) struct Location(RedisResult<ConnectionInfo>);

impl Location {
    pub(crate) fn new(address: impl IntoConnectionInfo) -> Self {
        Self(address.into_connection_info())
    }
}

/// Without user and password.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(info) => info.addr().fmt(f),
            Err(_) => f.write_str("not a usable address"),
        }
    }
}

/// How to connect to the servers that the user lists in the option `field`.
pub(crate) struct Access<'a> {
    pub(crate) field: &'static str,
    pub(crate) login: &'a Login,
    #[cfg(feature = "tls-rustls")]
    pub(crate) certificates: &'a Certificates,
    pub(crate) response_timeout: Duration,
    pub(crate) refuses_scripts: bool,
}

impl Access<'_> {
    /// The server at one address, which may be the path of a socket.
    pub(crate) fn server(&self, location: Location) -> Result<Server, Error> {
        self.open(self.login, self.info(location)?)
    }

    /// The servers at these addresses, each with a host and a port. There must be at least one.
    pub(crate) fn servers(&self, locations: Vec<Location>) -> Result<Vec<Server>, Error> {
        self.hosts(locations)?.into_iter().map(|info| self.open(self.login, info)).collect()
    }

    /// The sentinels at these addresses, and how to connect to the primary that they name.
    pub(crate) fn sentinels(&self, locations: Vec<Location>) -> Result<(Vec<Server>, Server), Error> {
        let infos = self.hosts(locations)?;
        // Sentinels have their own users and passwords. The primary shares only the way to connect (TLS).
        let primary = infos.first().cloned().ok_or_else(|| no_address(self.field))?;
        let primary = self.open(self.login, primary.set_redis_settings(Default::default()))?;
        let sentinels = infos.into_iter().map(|info| self.open(&Login::default(), info));
        Ok((sentinels.collect::<Result<_, _>>()?, primary))
    }

    fn hosts(&self, locations: Vec<Location>) -> Result<Vec<ConnectionInfo>, Error> {
        let mut infos = Vec::new();
        for location in locations {
            let info = self.info(location)?;
            if matches!(info.addr(), ConnectionAddr::Unix(_)) {
                return Err(Error::invalid(self.field, "is the path of a socket: give a host and a port"));
            }
            infos.push(info);
        }
        if infos.is_empty() { Err(no_address(self.field)) } else { Ok(infos) }
    }

    fn info(&self, location: Location) -> Result<ConnectionInfo, Error> {
        location.0.map_err(|error| Error::invalid_address(self.field, &error))
    }

    fn open(&self, login: &Login, info: ConnectionInfo) -> Result<Server, Error> {
        let info = login.apply(info)?;
        #[cfg(feature = "tls-rustls")]
        let info = self.certificates.apply(self.field, info)?;
        let server = Server::new(info, self.response_timeout);
        let server = server.map_err(|error| Error::invalid_address(self.field, &error))?;
        Ok(server.refusing_scripts(self.refuses_scripts))
    }
}

pub(crate) fn no_address(field: &'static str) -> Error {
    Error::invalid(field, "is empty: give at least one address")
}
