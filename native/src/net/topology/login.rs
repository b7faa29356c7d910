//! The addresses and credentials that users give.

use std::fmt;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use crate::errors::Error;

/// The credentials and the database for the servers that hold the locks. They replace those of the URLs.
#[derive(Clone, Default)]
pub(crate) struct Login {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: Option<u32>,
}

impl Login {
    /// This login, and what it leaves open from another one.
    pub(crate) fn or(self, other: &Self) -> Self {
        Self {
            username: self.username.or_else(|| other.username.clone()),
            password: self.password.or_else(|| other.password.clone()),
            database: self.database.or(other.database),
        }
    }

    pub(crate) fn apply(&self, info: ConnectionInfo) -> Result<ConnectionInfo, Error> {
        let mut settings = info.redis_settings().clone();
        if let Some(username) = &self.username {
            settings = settings.set_username(username);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        if let Some(database) = self.database {
            settings = settings.set_db(database.into());
        }
        if self.username.is_some() && settings.password().is_none() {
            return Err(Error::invalid("username", "is set without a password: set `password` too"));
        }
        Ok(info.set_redis_settings(settings))
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| "...");
        let (username, database) = (&self.username, &self.database);
        f.debug_struct("Login")
            .field("username", username)
            .field("password", &password)
            .field("database", database)
            .finish()
    }
}

/// Parses the addresses that the user gave in the option `field`. There must be at least one.
pub(crate) fn parse_addresses<I>(field: &'static str, given: I) -> Result<Vec<ConnectionInfo>, Error>
where
    I: IntoIterator<Item: IntoConnectionInfo>,
{
    let mut addresses = Vec::new();
    for given in given {
        let info = given.into_connection_info().map_err(|error| Error::invalid_address(field, &error))?;
        if matches!(info.addr(), ConnectionAddr::Unix(_)) {
            return Err(Error::invalid(field, "is the path of a socket: give a host and a port"));
        }
        addresses.push(info);
    }
    if addresses.is_empty() { Err(no_address(field)) } else { Ok(addresses) }
}

pub(crate) fn no_address(field: &'static str) -> Error {
    Error::invalid(field, "is empty: give at least one address")
}
