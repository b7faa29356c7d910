//! A connection provider over the `redis` crate.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, RedisResult, Value as RedisValue};
use tokio::sync::{Mutex, mpsc};

use crate::bindings::leasehold::lock::connection::{Failure, Reply, Servers, Value};
use crate::provider::{Answer, Connected, Endpoint, Future, Messages, Provider};

/// Connects to single servers by their URL.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedisProvider;

impl Provider for RedisProvider {
    fn open(&self, servers: Servers, response_timeout: Duration) -> Future<Connected> {
        Box::pin(async move {
            let Servers::Single(url) = servers else {
                return Err(Failure::Unsupported("only single servers are provided here".to_owned()));
            };
            let client = Client::open(url).map_err(|error| Failure::Unavailable(error.to_string()))?;
            let endpoint = RedisEndpoint { client, response_timeout, connection: Mutex::default() };
            endpoint.connection().await?;
            Ok(Arc::new(Shared(Arc::new(endpoint))) as Arc<dyn Endpoint>)
        })
    }
}

struct RedisEndpoint {
    client: Client,
    response_timeout: Duration,
    /// None after a break: the next call connects.
    connection: Mutex<Option<MultiplexedConnection>>,
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
    async fn connection(&self) -> Result<MultiplexedConnection, Failure> {
        let mut connection = self.connection.lock().await;
        if let Some(connection) = &*connection {
            return Ok(connection.clone());
        }
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(self.response_timeout)).set_response_timeout(None);
        let connected = self.client.get_multiplexed_async_connection_with_config(&config).await;
        Ok(connection.insert(connected.map_err(|error| connect_failure(&error))?).clone())
    }

    async fn call(&self, command: &[Vec<u8>]) -> Answer {
        let mut connection = self.connection().await?;
        let mut cmd = Cmd::new();
        command.iter().for_each(|word| {
            cmd.arg(word);
        });
        let answer = tokio::time::timeout(self.response_timeout, connection.send_packed_command(&cmd)).await;
        let answer = answer.map_err(|_| Failure::TimedOut).and_then(|answer| answer.map_err(|error| failure(&error)));
        if matches!(answer, Err(Failure::Interrupted(_) | Failure::TimedOut)) {
            *self.connection.lock().await = None;
        }
        reply(answer?)
    }

    async fn subscribe(&self, channel: &str) -> RedisResult<Messages> {
        let mut connection = within(self.response_timeout, self.client.get_async_pubsub()).await?;
        within(self.response_timeout, connection.subscribe(channel)).await?;
        let (sender, messages) = mpsc::channel(64);
        tokio::spawn(pass_on(connection, sender));
        Ok(messages)
    }
}

/// Until the connection ends or nobody reads any more.
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
        RedisValue::SimpleString(text) => Some(Value::Text(text.into_bytes())),
        RedisValue::Okay => Some(Value::Text(b"OK".to_vec())),
        _ => None,
    }
}

/// Why a call brought no reply. When in doubt the command may have run.
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

/// Why there is no connection. Nothing was sent.
fn connect_failure(error: &RedisError) -> Failure {
    match error.kind() {
        ErrorKind::AuthenticationFailed => Failure::Refused(format!("WRONGPASS {error}")),
        ErrorKind::Server(_) | ErrorKind::Extension => failure(error),
        _ => Failure::Unavailable(error.to_string()),
    }
}
