//! A connection provider over the `redis` crate.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, RedisResult, Value as RedisValue};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, timeout_at};

use crate::bindings::leasehold::lock::connection::{Failure, Reply, Servers, Value};
use crate::provider::{Answer, Connected, Endpoint, Future, Messages, Provider};

/// Connects to single servers by their URL.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedisProvider;

impl Provider for RedisProvider {
    fn open(&self, servers: Servers, response_timeout: Duration) -> Future<Connected> {
        Box::pin(async move {
            let Servers::Single(url) = servers else {
                return Err(Failure::Unsupported("this host connects only to single servers".to_owned()));
            };
            let client = Client::open(url).map_err(|error| Failure::Unsupported(error.to_string()))?;
            let endpoint = RedisEndpoint { client, response_timeout, connection: Mutex::default() };
            endpoint.connection(Instant::now() + response_timeout).await?;
            Ok(Arc::new(Shared(Arc::new(endpoint))) as Arc<dyn Endpoint>)
        })
    }
}

struct RedisEndpoint {
    client: Client,
    response_timeout: Duration,
    connection: Mutex<Connection>,
}

#[derive(Default)]
struct Connection {
    /// None after a connection loss: the next call connects.
    present: Option<MultiplexedConnection>,
    /// The connection's number, so that a call that failed on an earlier connection does not end this one.
    number: u64,
}

struct Shared(Arc<RedisEndpoint>);

impl Endpoint for Shared {
    fn call(&self, command: Vec<Vec<u8>>) -> Future<Answer> {
        let endpoint = Arc::clone(&self.0);
        Box::pin(async move { endpoint.call(&command).await })
    }

    fn subscribe(&self, channel: String) -> Future<Result<Messages, Failure>> {
        let endpoint = Arc::clone(&self.0);
        Box::pin(async move { endpoint.subscribe(&channel).await.map_err(|error| connect_failure(&error)) })
    }
}

impl RedisEndpoint {
    /// Returns the connection and its number. Connects if there is none. Calls that wait for it end at their deadline.
    async fn connection(&self, deadline: Instant) -> Result<(MultiplexedConnection, u64), Failure> {
        let late = |_| Failure::Unavailable("can't connect in time".to_owned());
        let mut connection = timeout_at(deadline, self.connection.lock()).await.map_err(late)?;
        if let Some(present) = &connection.present {
            return Ok((present.clone(), connection.number));
        }
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let connecting = self.client.get_multiplexed_async_connection_with_config(&config);
        let connected = timeout_at(deadline, connecting).await.map_err(late)?;
        let connected = connected.map_err(|error| connect_failure(&error))?;
        connection.number += 1;
        Ok((connection.present.insert(connected).clone(), connection.number))
    }

    async fn call(&self, command: &[Vec<u8>]) -> Answer {
        let deadline = Instant::now() + self.response_timeout;
        let (mut connection, number) = self.connection(deadline).await?;
        let mut cmd = Cmd::new();
        command.iter().for_each(|word| {
            cmd.arg(word);
        });
        let answer = timeout_at(deadline, connection.send_packed_command(&cmd)).await;
        let answer = answer.map_err(|_| Failure::TimedOut).and_then(|answer| answer.map_err(|error| failure(&error)));
        if matches!(answer, Err(Failure::Interrupted(_) | Failure::TimedOut)) {
            self.forget(number).await;
        }
        reply(answer?)
    }

    /// Drops the broken connection, unless another call has replaced it. The next call connects.
    async fn forget(&self, number: u64) {
        // If another call has the mutex, it is already connecting, or it will find the broken connection itself.
        if let Ok(mut connection) = self.connection.try_lock()
            && connection.number == number
        {
            connection.present = None;
        }
    }

    async fn subscribe(&self, channel: &str) -> RedisResult<Messages> {
        let subscribing = async {
            let mut connection = self.client.get_async_pubsub().await?;
            connection.subscribe(channel).await?;
            Ok(connection)
        };
        let connection = within(self.response_timeout, subscribing).await?;
        let (sender, messages) = mpsc::channel(64);
        tokio::spawn(pass_on(connection, sender));
        Ok(messages)
    }
}

/// Passes on messages until the connection ends or the receiver is dropped.
async fn pass_on(connection: PubSub, sender: mpsc::Sender<Vec<u8>>) {
    let mut messages = connection.into_on_message();
    loop {
        tokio::select! {
            message = messages.next() => match message {
                Some(message) if sender.send(message.get_payload_bytes().to_vec()).await.is_ok() => {}
                _ => return,
            },
            () = sender.closed() => return,
        }
    }
}

async fn within<T>(limit: Duration, action: impl std::future::Future<Output = RedisResult<T>>) -> RedisResult<T> {
    match tokio::time::timeout(limit, action).await {
        Ok(result) => result,
        Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
    }
}

fn reply(value: RedisValue) -> Answer {
    Ok(match value {
        RedisValue::ServerError(error) => {
            let text = [Some(error.code()), error.details()].into_iter().flatten().collect::<Vec<_>>().join(" ");
            return Err(Failure::Refused(text));
        }
        RedisValue::Array(values) => {
            let described = format!("{values:?}");
            match values.into_iter().map(scalar).collect() {
                Some(values) => Reply::Array(values),
                None => Reply::Other(described),
            }
        }
        value => {
            let described = format!("{value:?}");
            scalar(value).map_or(Reply::Other(described), Reply::Single)
        }
    })
}

fn scalar(value: RedisValue) -> Option<Value> {
    match value {
        RedisValue::Nil => Some(Value::Nil),
        RedisValue::Int(number) => Some(Value::Integer(number)),
        RedisValue::BulkString(bytes) => Some(Value::Text(bytes)),
        RedisValue::SimpleString(text) | RedisValue::VerbatimString { text, .. } => {
            Some(Value::Text(text.into_bytes()))
        }
        RedisValue::Okay => Some(Value::Text(b"OK".to_vec())),
        _ => None,
    }
}

/// Why a call got no reply. If that is not certain, the command may have run.
fn failure(error: &RedisError) -> Failure {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => {
            let text = [error.code(), error.detail()].into_iter().flatten().collect::<Vec<_>>().join(" ");
            Failure::Refused(text)
        }
        _ if error.is_timeout() => Failure::TimedOut,
        _ if error.is_connection_refusal() => Failure::Unavailable(error.to_string()),
        _ => Failure::Interrupted(error.to_string()),
    }
}

/// The errors of a server that refuses a connection now and may accept it later.
const TEMPORARY: [&str; 4] = ["ERR max number of clients", "LOADING", "BUSY", "MASTERDOWN"];

/// Why there is no connection, so that no command was sent.
fn connect_failure(error: &RedisError) -> Failure {
    match error.kind() {
        ErrorKind::AuthenticationFailed => Failure::Refused(format!("WRONGPASS {error}")),
        ErrorKind::Server(_) | ErrorKind::Extension => match failure(error) {
            Failure::Refused(text) if TEMPORARY.iter().any(|words| text.starts_with(words)) => {
                Failure::Unavailable(text)
            }
            failure => failure,
        },
        _ => Failure::Unavailable(error.to_string()),
    }
}
