//! The primary that Sentinel monitors. The client follows all sentinels, because a failover makes another server the
//! primary, and because one sentinel can be stale or silent.
//!
//! <https://redis.io/docs/latest/develop/reference/sentinel-clients/>

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, pending};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{RedisError, RedisResult, Value};
use tokio::time::timeout;

use super::followers::Followers;
use super::server::Server;
use super::slots::Address;
use crate::net::connection::{SharedConnection, timed_out, with_timeout, within};

pub(crate) struct Sentinel {
    followers: Followers,
    /// How to connect to the servers that hold the locks. Its address is a placeholder.
    template: Server,
    response_timeout: Duration,
    /// The last primary that [`connect`](Self::connect) reached.
    last_primary: Mutex<Option<Address>>,
}

/// How long to wait for a majority of the sentinels. After that, one answer is enough. Less if the response timeout is
/// short.
const MOST_FOR_ALL: Duration = Duration::from_secs(1);

impl Sentinel {
    /// Prepares a connection to a primary for the engine's commands.
    pub(super) fn share(&self, connection: MultiplexedConnection) -> SharedConnection {
        self.template.share(connection)
    }

    pub(super) fn new(service: String, sentinels: Vec<Server>, template: Server, response_timeout: Duration) -> Self {
        let followers = Followers::new(service, sentinels);
        Self { followers, template, response_timeout, last_primary: Mutex::default() }
    }

    pub(super) fn url(&self) -> String {
        let sentinels: Vec<_> = self.followers.sentinels().iter().map(Server::url).collect();
        format!("the primary `{}` (Sentinel at {})", self.followers.service(), sentinels.join(", "))
    }

    /// A connection to the current primary, which is remembered for [`primary_changed`](Self::primary_changed).
    pub(super) async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let (address, connection) = self.connect_to_primary().await?;
        *self.last_primary.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
        Ok(connection)
    }

    /// The address of the current primary, and a connection to it.
    pub(super) async fn connect_to_primary(&self) -> RedisResult<(Address, MultiplexedConnection)> {
        self.reach(|server| async move {
            let mut connection = server.connect().await?;
            self.check_role(&mut connection).await?;
            Ok(connection)
        })
        .await
    }

    /// As [`Server::subscribe`], on the primary. The second value resolves when another server becomes the primary.
    pub(super) async fn subscribe(&self, channel: &str) -> RedisResult<(PubSub, BoxFuture<'static, ()>)> {
        let (address, connection) = self.reach(|server| async move { server.subscribe(channel).await }).await?;
        Ok((connection, self.primary_changed_from(address)))
    }

    /// Resolves when the primary is no longer the server that [`connect`](Self::connect) last reached. The old primary
    /// may accept writes for some seconds until it learns this, and all of them will be lost.
    pub(super) fn primary_changed(&self) -> BoxFuture<'static, ()> {
        let from = self.last_primary.lock().unwrap_or_else(PoisonError::into_inner).clone();
        from.map_or_else(|| pending().boxed(), |from| self.primary_changed_from(from))
    }

    fn primary_changed_from(&self, from: Address) -> BoxFuture<'static, ()> {
        let mut found = self.followers.found();
        let changed = async move {
            if found.wait_for(|found| found.is_other(&from)).await.is_err() {
                // The followers have ended, and so has the client.
                pending::<()>().await;
            }
        };
        changed.boxed()
    }

    /// The primary's address, and what `attempt` gets from it. Starts again if another server becomes the primary
    /// during the attempt.
    async fn reach<T, F>(&self, attempt: impl Fn(Server) -> F) -> RedisResult<(Address, T)>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let mut failure = None;
        let reaching = async {
            loop {
                let address = self.primary().await?;
                let server = self.template.with_address(&address.host, address.port)?;
                let changed = self.primary_changed_from(address.clone());
                tokio::select! {
                    reached = attempt(server) => match reached {
                        Ok(reached) => return Ok((address, reached)),
                        Err(error) => failure = Some(error),
                    },
                    () = changed => continue,
                }
                // A sentinel that has not answered yet may know a newer primary.
                let mut found = self.followers.found();
                let heard = found.wait_for(|found| found.is_other(&address) || found.is_complete()).await;
                let is_other = heard.is_ok_and(|found| found.is_other(&address));
                if let Some(error) = failure.take_if(|_| !is_other) {
                    return Err(error);
                }
            }
        };
        let reached = within(self.response_timeout, reaching).await;
        reached.unwrap_or_else(|| Err(failure.unwrap_or_else(timed_out)))
    }

    /// The address of the current primary. Waits a part of the response timeout for sentinels that answer late, because
    /// the first one to answer may be stale.
    async fn primary(&self) -> RedisResult<Address> {
        let mut found = self.followers.found();
        let limit = MOST_FOR_ALL.min(self.response_timeout / 4);
        let _ = timeout(limit, found.wait_for(|found| found.is_settled())).await;
        let named = found.wait_for(|found| found.primary().is_some() || found.is_hopeless()).await;
        let named = named.map_err(|_| RedisError::from(std::io::Error::from(std::io::ErrorKind::NotConnected)))?;
        named.primary().cloned().ok_or_else(|| named.failure())
    }

    /// Fails if the server is not a primary: the sentinels may be stale, or the server may not have been promoted yet.
    async fn check_role(&self, connection: &mut MultiplexedConnection) -> RedisResult<()> {
        let role = with_timeout(self.response_timeout, redis::cmd("ROLE").query_async::<Value>(connection)).await;
        match role.and_then(Value::extract_error) {
            Ok(Value::Array(role)) if role.first().is_some_and(|role| !is_text(role, "master")) => {
                let problem = "the server that Sentinel names is not a primary";
                Err(std::io::Error::new(std::io::ErrorKind::NotConnected, problem).into())
            }
            Err(error) if error.code().is_none() => Err(error),
            // Without the right to run `ROLE`, the first READONLY error shows that the server is a replica.
            _ => Ok(()),
        }
    }
}

fn is_text(value: &Value, text: &str) -> bool {
    match value {
        Value::BulkString(bytes) => bytes == text.as_bytes(),
        Value::SimpleString(string) => string == text,
        _ => false,
    }
}
