//! The primary that Sentinel monitors. The client asks for its address before each connection, because a failover makes
//! another server the primary.
//!
//! <https://redis.io/docs/latest/develop/reference/sentinel-clients/>

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{ErrorKind, RedisError, RedisResult, Value};
use tokio::time::{sleep, timeout};

use super::first_ok::first_ok;
use super::server::Server;
use super::slots::Address;
use crate::net::connection::{SharedConnection, with_timeout};

pub(crate) struct Sentinel {
    service: String,
    sentinels: Vec<Server>,
    /// How to connect to the servers that hold the locks. Its address is a placeholder.
    template: Server,
    response_timeout: Duration,
    /// The last primary that [`connect`](Self::connect) reached.
    last_primary: Mutex<Option<Address>>,
}

/// A sentinel that sends no message is asked again after this time, or after `POLL_INTERVAL` if it can't send messages.
const MAX_SILENCE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The pause before each sentinel is asked. Without it, sentinels that disagree would cause endless reconnects.
const DAMPING: Duration = Duration::from_millis(250);

impl Sentinel {
    /// Prepares a connection to a primary for the engine's commands.
    pub(super) fn share(&self, connection: MultiplexedConnection) -> SharedConnection {
        self.template.share(connection)
    }

    pub(super) fn new(service: String, sentinels: Vec<Server>, template: Server, response_timeout: Duration) -> Self {
        Self { service, sentinels, template, response_timeout, last_primary: Mutex::default() }
    }

    pub(super) fn url(&self) -> String {
        let sentinels: Vec<_> = self.sentinels.iter().map(Server::url).collect();
        format!("the primary `{}` (Sentinel at {})", self.service, sentinels.join(", "))
    }

    /// A connection to the current primary, which is remembered for [`primary_changed`](Self::primary_changed).
    pub(super) async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let (address, connection) = self.connect_to_primary().await?;
        *self.last_primary.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
        Ok(connection)
    }

    /// The address of the current primary, and a connection to it.
    pub(super) async fn connect_to_primary(&self) -> RedisResult<(Address, MultiplexedConnection)> {
        let attempts: Vec<_> = self.sentinels.iter().map(|sentinel| self.connect_through(sentinel).boxed()).collect();
        with_timeout(self.response_timeout, first_ok(attempts)).await
    }

    /// Resolves when the primary is no longer the server that [`connect`](Self::connect) last reached. The old primary
    /// may accept writes for some seconds until it learns this, and all of them will be lost.
    pub(super) fn primary_changed(self: &Arc<Self>) -> BoxFuture<'static, ()> {
        let from = self.last_primary.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.primary_changed_from(from)
    }

    fn primary_changed_from(self: &Arc<Self>, from: Option<Address>) -> BoxFuture<'static, ()> {
        let this = Arc::clone(self);
        let watching = async move {
            loop {
                for sentinel in &this.sentinels {
                    sleep(DAMPING).await;
                    if this.wait_for_other_primary(sentinel, from.as_ref()).await.is_ok() {
                        return;
                    }
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        watching.boxed()
    }

    /// Returns `Ok` when this sentinel names another primary, and an error when it can't be asked any more.
    async fn wait_for_other_primary(&self, sentinel: &Server, from: Option<&Address>) -> RedisResult<()> {
        let mut messages = sentinel.subscribe("+switch-master").await.ok();
        while Some(&self.primary_named_by(sentinel).await?) == from {
            let Some(messages) = &mut messages else {
                sleep(POLL_INTERVAL).await;
                continue;
            };
            if let Ok(None) = timeout(MAX_SILENCE, messages.on_message().next()).await {
                return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into());
            }
        }
        Ok(())
    }

    /// As [`Server::subscribe`], on the primary. The second value resolves when another server becomes the primary.
    pub(super) async fn subscribe(self: &Arc<Self>, channel: &str) -> RedisResult<(PubSub, BoxFuture<'static, ()>)> {
        let by = |sentinel| async move {
            let address = self.primary_named_by(sentinel).await?;
            let connection = self.server(&address)?.subscribe(channel).await?;
            Ok((connection, address))
        };
        let attempts: Vec<_> = self.sentinels.iter().map(|sentinel| by(sentinel).boxed()).collect();
        let (connection, address) = with_timeout(self.response_timeout, first_ok(attempts)).await?;
        Ok((connection, self.primary_changed_from(Some(address))))
    }

    async fn connect_through(&self, sentinel: &Server) -> RedisResult<(Address, MultiplexedConnection)> {
        let address = self.primary_named_by(sentinel).await?;
        let mut connection = self.server(&address)?.connect().await?;
        // The sentinel's answer may be outdated.
        let role = with_timeout(self.response_timeout, redis::cmd("ROLE").query_async::<Value>(&mut connection)).await;
        match role.and_then(Value::extract_error) {
            Ok(Value::Array(role)) if role.first().is_some_and(|role| !is_text(role, "master")) => {
                let problem = "the server that Sentinel names is not a primary";
                Err(std::io::Error::new(std::io::ErrorKind::NotConnected, problem).into())
            }
            Err(error) if error.code().is_none() => Err(error),
            // Without the right to run `ROLE`, the first READONLY error shows that the server is a replica.
            _ => Ok((address, connection)),
        }
    }

    fn server(&self, address: &Address) -> RedisResult<Server> {
        self.template.with_address(&address.host, address.port)
    }

    /// The address of the primary, according to this sentinel.
    async fn primary_named_by(&self, sentinel: &Server) -> RedisResult<Address> {
        let mut query = redis::cmd("SENTINEL");
        query.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
        match sentinel.query(&query).await? {
            Value::Nil => Err(self.unknown_service(sentinel)),
            answer => {
                let (host, port): (String, u16) = redis::from_redis_value(answer)?;
                Ok(Address::new(&host, port))
            }
        }
    }

    fn unknown_service(&self, sentinel: &Server) -> RedisError {
        let detail = format!("`{}` at {}", self.service, sentinel.address());
        (ErrorKind::MasterNameNotFoundBySentinel, "Sentinel monitors no primary of that name", detail).into()
    }
}

fn is_text(value: &Value, text: &str) -> bool {
    match value {
        Value::BulkString(bytes) => bytes == text.as_bytes(),
        Value::SimpleString(string) => string == text,
        _ => false,
    }
}
