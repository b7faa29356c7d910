//! The endpoint that the lock component opens. One connection carries its commands, and each channel has a connection of
//! its own.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use futures_channel::mpsc::{self, UnboundedSender};
use futures_channel::oneshot;
use wit_bindgen::StreamReader;

use super::pipeline::{self, Command};
use super::pubsub;
use crate::bindings::exports::leasehold::lock::connection::{self, Failure, GuestEndpoint, Reply, Servers};
use crate::limits::{CALLS, SUBSCRIPTIONS};
use crate::net::{Address, AddressError, Connection, encode};
use crate::refusal;
use crate::time::Stopwatch;

/// The longest response timeout. A longer one is shortened.
const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// Dropping it ends its connections, because their tasks notice that the channels are closed.
pub(crate) struct Endpoint {
    address: Rc<Address>,
    limit: Duration,
    commands: UnboundedSender<Command>,
    subscriptions: RefCell<Vec<oneshot::Sender<()>>>,
}

impl GuestEndpoint for Endpoint {
    async fn open(servers: Servers, response_timeout_ms: u64) -> Result<connection::Endpoint, Failure> {
        let address = match servers {
            Servers::Single(address) => address,
            Servers::Cluster(_) => return Err(refusal::cluster_topology()),
            Servers::Sentinel(_) => return Err(refusal::sentinel_topology()),
        };
        let address = Address::parse(&address).map_err(|error| match error {
            AddressError::Tls(scheme) => refusal::tls(scheme),
            AddressError::Unsupported(why) => Failure::Unsupported(why.to_owned()),
            AddressError::Malformed(why) => Failure::Unsupported(format!("the server's address can't be read: {why}")),
        })?;
        let address = Rc::new(address);
        let limit = Duration::from_millis(response_timeout_ms).min(MAX_TIMEOUT);
        let connection = Connection::open(&address, limit).await?;
        let (commands, receiver) = mpsc::unbounded();
        // The host keeps running it after this call has returned.
        wit_bindgen::spawn_local(pipeline::run(Rc::clone(&address), limit, connection, receiver));
        Ok(connection::Endpoint::new(Self { address, limit, commands, subscriptions: RefCell::default() }))
    }

    async fn call(&self, command: Vec<Vec<u8>>) -> Result<Reply, Failure> {
        let (caller, answer) = oneshot::channel();
        let bytes = encode(&command);
        let _permit = CALLS.take(bytes.len())?;
        let command = Command { bytes, stopwatch: Stopwatch::start(), caller };
        let ended = || Failure::Unavailable("the endpoint has ended".to_owned());
        self.commands.unbounded_send(command).map_err(|_| ended())?;
        answer.await.unwrap_or_else(|_| Err(Failure::Interrupted("the endpoint has ended".to_owned())))
    }

    async fn subscribe(&self, channel: String) -> Result<StreamReader<Vec<u8>>, Failure> {
        let permit = SUBSCRIPTIONS.take(0)?;
        pubsub::subscribe(&self.address, self.limit, channel, self.dropped(), permit).await
    }
}

impl Endpoint {
    /// Resolves when the endpoint is dropped.
    fn dropped(&self) -> oneshot::Receiver<()> {
        let (alive, dropped) = oneshot::channel();
        let mut subscriptions = self.subscriptions.borrow_mut();
        subscriptions.retain(|other| !other.is_canceled());
        subscriptions.push(alive);
        dropped
    }
}
