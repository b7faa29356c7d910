//! A connection that carries the commands of one call only.

use leasehold_core::{Command, Failure, Reply};

use super::codec;
use super::connection::SharedConnection;
use super::topology::Endpoint;
use crate::errors::connect_failure;

pub(crate) struct DedicatedConnection {
    endpoint: Endpoint,
    connection: Option<SharedConnection>,
}

impl DedicatedConnection {
    /// Connects when the first command is sent, to the server that has the command's key.
    pub(crate) const fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, connection: None }
    }

    /// Sends a command and returns its result. The engine limits the time.
    pub(crate) async fn run(&mut self, command: &Command) -> Result<Reply, Failure> {
        if let Some(connection) = &self.connection {
            return codec::decode(connection.run(codec::encode(command)).await);
        }
        let key = command.key().unwrap_or_default();
        // The slot may have moved. The second attempt goes to its new server.
        let mut again = true;
        loop {
            let connected = self.endpoint.connect_for(key).await.map_err(|error| connect_failure(&error))?;
            let connection = self.endpoint.share(connected);
            let reply = codec::decode(connection.run(codec::encode(command)).await);
            self.connection = Some(connection);
            match reply {
                Err(Failure::Refused(text)) if again && self.endpoint.learn_moved(&text, key) => again = false,
                Err(Failure::Refused(text)) if text.starts_with("MOVED ") || text.starts_with("ASK ") => {
                    return Err(Failure::Unavailable(text));
                }
                reply => return reply,
            }
        }
    }
}
