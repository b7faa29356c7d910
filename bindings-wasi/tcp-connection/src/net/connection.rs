//! One TCP connection: commands go out, replies come in.

use std::time::Duration;

use wit_bindgen::{FutureReader, StreamReader, StreamResult, StreamWriter};

use super::address::Address;
use super::dial::{describe, dial};
use super::resp::{Malformed, Parsed, Parser, encode};
use crate::bindings::exports::leasehold::lock::connection::{Failure, Value};
use crate::bindings::wasi::sockets::types::{ErrorCode, TcpSocket};
use crate::bindings::wit_stream;
use crate::refusal;
use crate::time::timeout;

/// How many bytes to read at a time.
const READ_SIZE: usize = 16 << 10;

pub(crate) struct Connection {
    pub(crate) output: Output,
    pub(crate) input: Input,
}

/// The direction to the server.
pub(crate) struct Output {
    bytes: StreamWriter<u8>,
    /// Dropping this ends the sending.
    _end: FutureReader<Result<(), ErrorCode>>,
    _socket: TcpSocket,
}

/// The direction from the server.
pub(crate) struct Input {
    bytes: StreamReader<u8>,
    parser: Parser,
    end: Option<FutureReader<Result<(), ErrorCode>>>,
}

/// Why the connection can't be used any more.
#[derive(Debug)]
pub(crate) enum Broken {
    Closed(String),
    Malformed(String),
}

impl Connection {
    /// Connects and logs in, within `limit`.
    pub(crate) async fn open(address: &Address, limit: Duration) -> Result<Self, Failure> {
        let opened = timeout(limit, async {
            // A proxy may close the connection at `INFO`. One break alone can have another reason, and then the server's mode would
            // stay hidden.
            let mut questions = if address.closes.at_info.get() { 0 } else { MOST_CLOSED };
            loop {
                match Self::logged_in(address, questions > 0).await {
                    Err(LoginError::Broken(_)) if questions > 0 => questions -= 1,
                    Err(error) => return Err(error.into()),
                    Ok(connection) => {
                        address.closes.at_info.set(questions == 0);
                        return Ok(connection);
                    }
                }
            }
        });
        let late = || Failure::Unavailable(format!("{}, port {} did not answer in time", address.host, address.port));
        opened.await.unwrap_or_else(|| Err(late()))
    }

    async fn logged_in(address: &Address, asks: bool) -> Result<Self, LoginError> {
        let socket = dial(&address.host, address.port).await.map_err(Failure::Unavailable)?;
        let mut connection = Self::new(socket);
        connection.log_in(address, asks).await?;
        Ok(connection)
    }

    fn new(socket: TcpSocket) -> Self {
        let (bytes, outgoing) = wit_stream::new();
        let output_end = socket.send(outgoing);
        let (incoming, input_end) = socket.receive();
        Self {
            output: Output { bytes, _end: output_end, _socket: socket },
            input: Input { bytes: incoming, parser: Parser::default(), end: Some(input_end) },
        }
    }

    /// Logs in, asks for the server's mode if `asks`, and selects the database. Sends all commands at once, to save round trips.
    async fn log_in(&mut self, address: &Address, asks: bool) -> Result<(), LoginError> {
        let database = address.database.to_string();
        let mut commands = Vec::new();
        if let Some(credentials) = &address.credentials {
            let words = ["AUTH"].into_iter().chain(credentials.user.as_deref()).chain([credentials.password.as_str()]);
            commands.push(words.collect::<Vec<_>>());
        }
        // It goes before `SELECT`: a cluster's node and a Sentinel refuse that, and don't say why.
        if asks {
            commands.push(MODE.to_vec());
        }
        if address.database != 0 {
            commands.push(vec!["SELECT", &database]);
        }
        // The answer shows that the server speaks the protocol.
        commands.push(vec!["PING"]);
        let bytes = commands.iter().flat_map(|words| encode(words)).collect();
        self.output.write(bytes).await?;
        for words in &commands {
            match self.input.next().await? {
                Parsed::Single(Value::Text(info)) if words == MODE => check_mode(&info, address)?,
                // This user may not ask. The answers to the scripts then show whether it is a node of a cluster.
                Parsed::Error(_) if words == MODE => {}
                Parsed::Error(text) if words == &["PING"] && text.starts_with("NOPERM") => {}
                Parsed::Error(text) => return Err(login_error(text).into()),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Why a login failed.
enum LoginError {
    Broken(Broken),
    Failed(Failure),
}

impl From<Broken> for LoginError {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl From<Failure> for LoginError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<LoginError> for Failure {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::Broken(broken) => broken.unavailable(),
            LoginError::Failed(failure) => failure,
        }
    }
}

impl Broken {
    /// The failure if no command was sent before the break.
    pub(crate) fn unavailable(self) -> Failure {
        let (Self::Closed(text) | Self::Malformed(text)) = self;
        Failure::Unavailable(text)
    }
}

impl Output {
    pub(crate) async fn write(&mut self, bytes: Vec<u8>) -> Result<(), Broken> {
        let left = self.bytes.write_all(bytes).await;
        if left.is_empty() { Ok(()) } else { Err(Broken::Closed("the connection broke during a write".into())) }
    }
}

impl Input {
    /// The next reply.
    pub(crate) async fn next(&mut self) -> Result<Parsed, Broken> {
        loop {
            if let Some(reply) = self.parser.next().map_err(|Malformed(text)| Broken::Malformed(text))? {
                return Ok(reply);
            }
            let bytes = self.receive().await?;
            self.parser.feed(&bytes);
        }
    }

    async fn receive(&mut self) -> Result<Vec<u8>, Broken> {
        let (result, bytes) = self.bytes.read(Vec::with_capacity(READ_SIZE)).await;
        if bytes.is_empty() && !matches!(result, StreamResult::Complete(_)) {
            return Err(Broken::Closed(self.end_reason().await));
        }
        Ok(bytes)
    }

    async fn end_reason(&mut self) -> String {
        match self.end.take() {
            Some(end) => match end.await {
                Ok(()) => "the server closed the connection".to_owned(),
                Err(error) => format!("the connection broke: {}", describe(&error)),
            },
            None => "the connection has ended".to_owned(),
        }
    }
}

/// After so many logins that ended at `INFO`, one without it that succeeds shows that the server closes the connection there.
const MOST_CLOSED: u32 = 2;

/// Asks for the server's mode: `standalone`, `cluster` or `sentinel`.
const MODE: &[&str] = &["INFO", "server"];

/// Fails if the server is a cluster's node or a Sentinel. A server that doesn't report its mode is accepted.
fn check_mode(info: &[u8], address: &Address) -> Result<(), Failure> {
    let server = || format!("the server at {}, port {},", address.host, address.port);
    match mode(info) {
        Some(b"cluster") if is_of_one_server(info) => Err(refusal::cluster_node(&server())),
        Some(b"sentinel") => Err(refusal::sentinel(&server())),
        _ => Ok(()),
    }
}

/// Envoy tells of a cluster although it doesn't redirect: its answer is that of no single server, and has no port.
fn is_of_one_server(info: &[u8]) -> bool {
    info.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"tcp_port:"))
}

/// The mode in an answer to `INFO`. Redis and Valkey have different names for it.
fn mode(info: &[u8]) -> Option<&[u8]> {
    let mut lines = info.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.find_map(|line| line.strip_prefix(b"redis_mode:").or_else(|| line.strip_prefix(b"server_mode:")))
}

/// Errors that pass without a change by an operator.
const TRANSIENT_ERRORS: [&str; 4] = ["ERR max number of clients", "LOADING ", "BUSY ", "MASTERDOWN "];

/// The server refused a command of the login. A retry helps only if the error is transient.
fn login_error(text: String) -> Failure {
    if TRANSIENT_ERRORS.iter().any(|words| text.starts_with(words)) {
        Failure::Unavailable(text)
    } else {
        Failure::Refused(text)
    }
}

#[cfg(test)]
mod tests {
    use super::mode;

    #[test]
    fn the_mode_is_found_under_the_names_of_redis_and_of_valkey() {
        let redis = b"# Server\r\nredis_version:7.0.15\r\nredis_mode:cluster\r\nos:Linux\r\n";
        assert_eq!(mode(redis), Some(b"cluster".as_slice()));
        let valkey = b"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nserver_mode:sentinel\r\n";
        assert_eq!(mode(valkey), Some(b"sentinel".as_slice()));
        assert_eq!(mode(b"# Server\r\nredis_version:7.0.15\r\n"), None);
    }
}
