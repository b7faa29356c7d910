//! The part of the API that uses types of the `redis` crate, version 1: clients and connections that you already have.
//!
//! Everything else in this crate is independent of the `redis` crate and its version. Leasehold's own connections use the
//! `redis` crate too, but its types appear in the API only here. A version 2 would get a module and a feature of its own, and
//! one program could use both.
//!
//! - A [`redis::Client`] and a [`redis::ConnectionInfo`] convert into an [`Address`]. So
//!   [`connect`](crate::LockManager::connect), [`cluster`](crate::LockManager::cluster),
//!   [`sentinel`](crate::LockManager::sentinel) and [`quorum`](crate::LockManager::quorum) take them in place of URLs.
//! - [`connection`] and [`connection_with_push`] make a [`Connection`] for
//!   [`from_connection`](crate::LockManager::from_connection).
//!
//! ```no_run
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! use leasehold::{LockManager, redis_1};
//! # use leasehold::redis_1::redis;
//!
//! let client = redis::Client::open("redis://127.0.0.1/")?;
//! // Two new connections to the client's address
//! let locks = LockManager::connect(client.clone()).await?;
//! // No new connection. Waiters poll
//! let connection = client.get_multiplexed_async_connection().await?;
//! let polling = LockManager::from_connection(redis_1::connection(connection)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A `Client` has one address, and the manager connects to no other. So don't pass one that `redis::sentinel` made. After a
//! failover, its address is that of the old primary. The old primary may grant locks for seconds until it becomes a
//! replica, while the new primary grants them too. Use [`sentinel`](crate::LockManager::sentinel), which leaves the old
//! primary when a sentinel names another one.

pub use redis;
use redis::aio::ConnectionLike;
use redis::{Client, ConnectionInfo, PushInfo};
use tokio::sync::mpsc::UnboundedReceiver;

use super::address::{Address, Connection};
use crate::net::{Location, Provided};

/// A connection for commands: see [`LockManager::from_connection`](crate::LockManager::from_connection).
///
/// The manager can't subscribe on it, so waiters poll, at least once in a third of the claim window. With RESP3, use
/// [`connection_with_push`]: its waiters are notified.
///
/// Don't pass a connection that `redis::sentinel` made, such as that of a `SentinelClient`: it stays at the old
/// primary after a failover. The old primary may learn up to 10 seconds later that it is a replica. Until then it
/// grants locks that the new primary grants too, and the manager can't notice. Use
/// [`sentinel`](crate::LockManager::sentinel): it leaves the old primary when a sentinel names another one, and ignores its
/// late answers.
pub fn connection<C>(connection: C) -> Connection
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    Connection(Provided::new(connection, None))
}

/// A RESP3 connection, for commands and for messages. Waiters are notified by push messages on the same connection and
/// don't poll. `pushes` is the other end of the connection's `push_sender`.
///
/// ```no_run
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold::{LockManager, redis_1};
/// use redis::AsyncConnectionConfig;
/// # use leasehold::redis_1::redis;
///
/// let (sender, pushes) = tokio::sync::mpsc::unbounded_channel();
/// let config = AsyncConnectionConfig::new().set_push_sender(sender);
/// let client = redis::Client::open("redis://127.0.0.1/?protocol=resp3")?;
/// let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
/// let connection = redis_1::connection_with_push(connection, pushes);
/// let locks = LockManager::from_connection(connection).await?;
/// # Ok(())
/// # }
/// ```
///
/// A `ConnectionManager` works in the same way. After it has reconnected, the manager subscribes again, with or
/// without `set_automatic_resubscription`. A `MultiplexedConnection` that broke stays broken. For a cluster, use
/// [`cluster`](crate::LockManager::cluster).
///
/// The manager takes every message from `pushes` and ignores those of other channels. If you have channels of your
/// own on the connection, let the push sender be a closure that sends each message to both receivers. Use one
/// manager for a connection. If you unsubscribe from all channels at once, the manager subscribes again.
/// Unsubscribe with the connection's method `unsubscribe`. A `redis::cmd("UNSUBSCRIBE")` without channels gets one
/// reply for each channel, so later commands, also the manager's, get the replies of others.
///
/// If the connection speaks RESP2, or if `pushes` gets nothing from it, the manager logs a warning and its waiters
/// poll. The manager asks for the protocol with `HELLO` when it first subscribes.
///
/// As with [`connection`], don't pass a connection that `redis::sentinel` made. The manager unsubscribes from its channels when it
/// ends.
pub fn connection_with_push<C>(connection: C, pushes: UnboundedReceiver<PushInfo>) -> Connection
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    Connection(Provided::new(connection, Some(pushes)))
}

/// The address and settings of the `redis` crate.
impl From<ConnectionInfo> for Address {
    fn from(info: ConnectionInfo) -> Self {
        Self(Location::new(info))
    }
}

/// The address and settings of a client. The manager makes its own connections.
impl From<Client> for Address {
    fn from(client: Client) -> Self {
        Self::from(client.get_connection_info().clone())
    }
}

/// The address and settings of a client. The manager makes its own connections.
impl From<&Client> for Address {
    fn from(client: &Client) -> Self {
        Self::from(client.get_connection_info().clone())
    }
}
