//! A connection provider, as plain Rust traits.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::bindings::leasehold::lock::connection::{Failure, Reply, Servers};

/// A future of a provider.
pub type Future<T> = Pin<Box<dyn std::future::Future<Output = T> + Send>>;

/// The result of a call.
pub type Answer = Result<Reply, Failure>;

/// An endpoint, or why there is none.
pub type Connected = Result<Arc<dyn Endpoint>, Failure>;

/// The messages of a subscription. It ends with the subscription.
pub type Messages = mpsc::Receiver<Vec<u8>>;

/// Connects to servers.
pub trait Provider: Send + Sync {
    /// See `endpoint.open` in the contract.
    fn open(&self, servers: Servers, response_timeout: Duration) -> Future<Connected>;
}

/// Servers to send commands to.
pub trait Endpoint: Send + Sync {
    /// See `endpoint.call` in the contract.
    fn call(&self, command: Vec<Vec<u8>>) -> Future<Answer>;

    /// See `endpoint.subscribe` in the contract.
    fn subscribe(&self, channel: String) -> Future<Result<Messages, Failure>>;
}

/// The provider for a component that connects by itself.
pub(crate) struct NoProvider;

impl Provider for NoProvider {
    fn open(&self, _servers: Servers, _response_timeout: Duration) -> Future<Connected> {
        Box::pin(async { Err(Failure::Unsupported("this host doesn't provide connections".to_owned())) })
    }
}
