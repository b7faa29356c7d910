use std::time::Duration;

use leasehold_servers::{Connection, Error, Server};

/// A client of another library: `SET key token NX PX`, and deletes the key if its token is still there.
#[derive(Debug)]
pub struct Foreign {
    connection: Connection,
    token: String,
}

impl Foreign {
    /// Connects. All locks of this client use the same token.
    ///
    /// # Errors
    /// As [`Server::connect`].
    pub fn connect(server: &Server, token: &str) -> Result<Self, Error> {
        Ok(Self { connection: server.connect()?, token: token.to_owned() })
    }

    /// Takes the lock if the key is free.
    ///
    /// # Errors
    /// If the server can't be asked.
    pub fn lock(&mut self, name: &str, ttl: Duration) -> std::io::Result<bool> {
        let ttl = ttl.as_millis().to_string();
        let reply = self.connection.call(&["SET", name, &self.token, "NX", "PX", &ttl])?;
        Ok(reply.text() == Some("OK"))
    }

    /// Releases the lock, if this client still holds it.
    ///
    /// # Errors
    /// If the server can't be asked.
    pub fn unlock(&mut self, name: &str) -> std::io::Result<bool> {
        const SCRIPT: &str =
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
        let reply = self.connection.call(&["EVAL", SCRIPT, "1", name, &self.token])?;
        Ok(reply.integer() == Some(1))
    }
}
