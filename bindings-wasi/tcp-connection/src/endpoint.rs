//! What the lock component holds: a server to send commands to.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use futures_channel::mpsc::{self, UnboundedSender};
use futures_channel::oneshot;
use wit_bindgen::StreamReader;

use crate::address::{Address, Unusable};
use crate::bindings::exports::leasehold::lock::connection::{self, Failure, GuestEndpoint, Reply, Servers};
use crate::connection::Connection;
use crate::limits::{CALLS, SUBSCRIPTIONS};
use crate::resp::encoded;
use crate::session::Command;
use crate::timer::Moment;
use crate::{link, subscription};

/// No answer may take longer, whatever the caller asks for.
const LONGEST: Duration = Duration::from_secs(600);

/// Dropping it ends its connections, because their tasks notice that the channels are closed.
pub(crate) struct Endpoint {
    address: Rc<Address>,
    limit: Duration,
    commands: UnboundedSender<Command>,
    subscriptions: RefCell<Vec<oneshot::Sender<()>>>,
}

impl GuestEndpoint for Endpoint {
    async fn open(servers: Servers, response_timeout_ms: u64) -> Result<connection::Endpoint, Failure> {
        let Servers::Single(address) = servers else {
            return Err(Failure::Unsupported("this connection provider supports single servers only".to_owned()));
        };
        let address = Address::parse(&address).map_err(|unusable| match unusable {
            Unusable::Unsupported(why) => Failure::Unsupported(why.to_owned()),
            Unusable::Malformed(why) => Failure::Unsupported(format!("the server's address can't be read: {why}")),
        })?;
        let address = Rc::new(address);
        let limit = Duration::from_millis(response_timeout_ms).min(LONGEST);
        let connection = Connection::open(&address, limit).await?;
        let (commands, received) = mpsc::unbounded();
        // It goes on as a part of this call's task after the call has returned.
        drop(wit_bindgen::spawn_local(link::run(Rc::clone(&address), limit, connection, received)));
        Ok(connection::Endpoint::new(Self { address, limit, commands, subscriptions: RefCell::default() }))
    }

    async fn call(&self, command: Vec<Vec<u8>>) -> Result<Reply, Failure> {
        let (caller, answer) = oneshot::channel();
        let bytes = encoded(&command);
        let _taken = CALLS.take(bytes.len())?;
        let command = Command { bytes, began: Moment::now(), caller };
        let gone = || Failure::Unavailable("the endpoint has ended".to_owned());
        self.commands.unbounded_send(command).map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(Failure::Interrupted("the endpoint has ended".to_owned())))
    }

    async fn subscribe(&self, channel: String) -> Result<StreamReader<Vec<u8>>, Failure> {
        let taken = SUBSCRIPTIONS.take(0)?;
        subscription::begin(&self.address, self.limit, channel, self.end(), taken).await
    }
}

impl Endpoint {
    /// Resolves when the endpoint is dropped.
    fn end(&self) -> oneshot::Receiver<()> {
        let (alive, end) = oneshot::channel();
        let mut subscriptions = self.subscriptions.borrow_mut();
        subscriptions.retain(|other| !other.is_canceled());
        subscriptions.push(alive);
        end
    }
}
