//! Where a client's messages come from, and its time.

use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold_core::Input;
use tokio::sync::mpsc::UnboundedReceiver;

use super::pubsub::{ChannelRequest, run_subscriber};
use super::pushes::{PushConnection, run_push_subscriber};
#[cfg(feature = "testing")]
use super::testing;
use super::topology::Endpoint;

pub(crate) enum Origin {
    /// Servers. None if the user provided the only connection, which can't subscribe.
    Servers(Option<Endpoint>),
    /// The user provided the connection, and its push messages.
    Pushes(PushConnection),
    /// A server in memory.
    #[cfg(feature = "testing")]
    Memory(testing::Server),
}

impl Origin {
    /// Where more connections can be opened.
    pub(crate) fn endpoint(&self) -> Option<Endpoint> {
        match self {
            Self::Servers(endpoint) => endpoint.clone(),
            Self::Pushes(_) => None,
            #[cfg(feature = "testing")]
            Self::Memory(_) => None,
        }
    }

    /// Subscribes as requested and passes messages to the engine. It never ends.
    pub(crate) fn subscriber(
        self,
        to_engine: impl Fn(Input<'_>) + Send + Sync + 'static,
        response_timeout: Duration,
        requests: UnboundedReceiver<ChannelRequest>,
    ) -> BoxFuture<'static, ()> {
        match self {
            Self::Servers(endpoint) => Box::pin(run_subscriber(to_engine, endpoint, response_timeout, requests)),
            Self::Pushes(pushes) => Box::pin(run_push_subscriber(to_engine, pushes, response_timeout, requests)),
            #[cfg(feature = "testing")]
            Self::Memory(server) => Box::pin(server.run_subscriber(to_engine, requests)),
        }
    }
}
