//! The credentials that users give.

use std::fmt;

use redis::ConnectionInfo;

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

    pub(super) fn apply(&self, info: ConnectionInfo) -> Result<ConnectionInfo, Error> {
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
