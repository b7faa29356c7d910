//! One TCP connection: commands go out, replies come in.

use std::time::Duration;

use wit_bindgen::{FutureReader, StreamReader, StreamResult, StreamWriter};

use crate::address::Address;
use crate::bindings::exports::leasehold::lock::connection::Failure;
use crate::bindings::wasi::sockets::types::{ErrorCode, TcpSocket};
use crate::bindings::wit_stream;
use crate::dial::{dial, said};
use crate::resp::{Malformed, Parsed, Parser, encoded};
use crate::timer::within;

/// How many bytes to read at a time.
const AT_A_TIME: usize = 16 << 10;

pub(crate) struct Connection {
    pub(crate) output: Output,
    pub(crate) input: Input,
}

/// The direction to the server.
pub(crate) struct Output {
    bytes: StreamWriter<u8>,
    /// Sending goes on while this exists.
    _end: FutureReader<Result<(), ErrorCode>>,
    _socket: TcpSocket,
}

/// The direction from the server.
pub(crate) struct Input {
    bytes: StreamReader<u8>,
    parser: Parser,
    end: Option<FutureReader<Result<(), ErrorCode>>>,
}

/// Why no reply comes any more.
#[derive(Debug)]
pub(crate) enum Broken {
    Closed(String),
    Malformed(String),
}

impl Connection {
    /// Connects, and makes sure that there is a server that lets us in, within the limit.
    pub(crate) async fn open(address: &Address, limit: Duration) -> Result<Self, Failure> {
        let opened = within(limit, async {
            let socket = dial(&address.host, address.port).await.map_err(Failure::Unavailable)?;
            let mut connection = Self::over(socket);
            connection.greet(address).await?;
            Ok(connection)
        });
        let late = || Failure::Unavailable(format!("{}, port {} did not answer in time", address.host, address.port));
        opened.await.unwrap_or_else(|| Err(late()))
    }

    fn over(socket: TcpSocket) -> Self {
        let (bytes, outgoing) = wit_stream::new();
        let output_end = socket.send(outgoing);
        let (incoming, input_end) = socket.receive();
        Self {
            output: Output { bytes, _end: output_end, _socket: socket },
            input: Input { bytes: incoming, parser: Parser::default(), end: Some(input_end) },
        }
    }

    /// Logs in and selects the database.
    async fn greet(&mut self, address: &Address) -> Result<(), Failure> {
        let database = address.database.to_string();
        let mut greeting = Vec::new();
        if let Some(credentials) = &address.credentials {
            let words = ["AUTH"].into_iter().chain(credentials.user.as_deref()).chain([credentials.password.as_str()]);
            greeting.push(words.collect::<Vec<_>>());
        }
        if address.database != 0 {
            greeting.push(vec!["SELECT", &database]);
        }
        // A server that answers this speaks the protocol.
        greeting.push(vec!["PING"]);
        let bytes = greeting.iter().flat_map(|words| encoded(words)).collect();
        self.output.write(bytes).await.map_err(unavailable)?;
        for words in &greeting {
            match self.input.next().await.map_err(unavailable)? {
                Parsed::Error(text) if words == &["PING"] && text.starts_with("NOPERM") => {}
                Parsed::Error(text) => return Err(not_let_in(text)),
                _ => {}
            }
        }
        Ok(())
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
            let (result, bytes) = self.bytes.read(Vec::with_capacity(AT_A_TIME)).await;
            if bytes.is_empty() && !matches!(result, StreamResult::Complete(_)) {
                return Err(Broken::Closed(self.why_it_ended().await));
            }
            self.parser.feed(&bytes);
        }
    }

    async fn why_it_ended(&mut self) -> String {
        match self.end.take() {
            Some(end) => match end.await {
                Ok(()) => "the server closed the connection".to_owned(),
                Err(error) => format!("the connection broke: {}", said(&error)),
            },
            None => "the connection has ended".to_owned(),
        }
    }
}

/// Errors of a server that will let the client in later, without any change.
const PASSING: [&str; 4] = ["ERR max number of clients", "LOADING ", "BUSY ", "MASTERDOWN "];

/// Nothing but the greeting was sent. The caller may try again, unless it would get the same answer.
fn not_let_in(text: String) -> Failure {
    if PASSING.iter().any(|words| text.starts_with(words)) {
        Failure::Unavailable(text)
    } else {
        Failure::Refused(text)
    }
}

fn unavailable(broken: Broken) -> Failure {
    let (Broken::Closed(text) | Broken::Malformed(text)) = broken;
    Failure::Unavailable(text)
}
