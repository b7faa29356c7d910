//! The server that an endpoint leads to. A server of a quorum may be down when the manager is opened. Then the
//! driver connects to it when it has a command for it.

use alloc::borrow::ToOwned;
use alloc::rc::Rc;
use alloc::string::String;

use core::cell::{Cell, RefCell};
use core::time::Duration;

use leasehold_core::{DeleteIfEqual, Failure};

use super::codec;
use super::member::{INFO, Member, PING, check_version, server_info};
use crate::bindings::exports::leasehold::lock::locks::Error;
use crate::bindings::leasehold::lock::connection::{Endpoint, Servers};
use crate::calls::timeout;
use crate::error;
use crate::time::{Stopwatch, millis};

pub(crate) struct Server {
    servers: Servers,
    /// How long connecting may take.
    limit: Duration,
    /// Checks a server of a quorum.
    member: Option<Member>,
    /// The failure says why there is no endpoint.
    endpoint: RefCell<Result<Rc<Endpoint>, Failure>>,
    connecting: Cell<bool>,
}

/// Connects to everything but a quorum, and checks the server's version. Also returns the command with which the server can
/// delete a key by its value.
pub(crate) async fn connect(servers: Servers, limit: Duration) -> Result<(Rc<Server>, Option<DeleteIfEqual>), Error> {
    let stopwatch = Stopwatch::start();
    let failed = |failure| error::of_connecting(failure, stopwatch.elapsed());
    let server = Server::new(servers, limit, None);
    let endpoint = server.connect().await.map_err(failed)?;
    let info = info_of(&endpoint, &stopwatch, limit).await.map_err(failed)?;
    check_version(&info)?;
    Ok((server, DeleteIfEqual::of(&info)))
}

/// After so many questions that broke the connection, the server is used unchecked.
const MOST_BROKEN: u32 = 3;

/// The server's answer to `INFO`. A proxy may close the connection when it sees that command. Then any answer to another one is
/// enough, also a refusal.
async fn info_of(endpoint: &Rc<Endpoint>, stopwatch: &Stopwatch, limit: Duration) -> Result<String, Failure> {
    let mut broken = 0;
    loop {
        let commands = if broken < MOST_BROKEN { INFO } else { PING };
        match server_info(endpoint, commands, stopwatch.remaining(limit)).await {
            Err(Failure::Interrupted(_)) if broken < MOST_BROKEN => broken += 1,
            told => return told,
        }
    }
}

impl Server {
    /// Doesn't connect yet.
    pub(super) fn new(servers: Servers, limit: Duration, member: Option<Member>) -> Rc<Self> {
        let endpoint = RefCell::new(Err(Failure::Unavailable("not connected yet".to_owned())));
        Rc::new(Self { servers, limit, member, endpoint, connecting: Cell::new(false) })
    }

    /// Where commands go, or why they can't be sent now.
    pub(crate) fn endpoint(&self) -> Result<Rc<Endpoint>, Failure> {
        self.endpoint.borrow().clone()
    }

    /// Tries to connect once, unless an attempt is already running.
    pub(crate) async fn connect(&self) -> Result<Rc<Endpoint>, Failure> {
        if self.connecting.replace(true) {
            return self.endpoint();
        }
        let opened = self.open().await;
        self.connecting.set(false);
        *self.endpoint.borrow_mut() = opened.clone();
        opened
    }

    async fn open(&self) -> Result<Rc<Endpoint>, Failure> {
        let stopwatch = Stopwatch::start();
        let (servers, limit) = (self.servers.clone(), millis(self.limit));
        let opened = timeout(self.limit, async move { Endpoint::open(servers, limit).await }).await;
        let endpoint = match opened {
            Some(Ok(endpoint)) => Rc::new(endpoint),
            Some(Err(failure)) => return Err(nothing_sent(codec::failure(failure))),
            None => return Err(nothing_sent(Failure::TimedOut)),
        };
        if let Some(member) = &self.member {
            member.check(&endpoint, stopwatch.remaining(self.limit)).await.map_err(nothing_sent)?;
        }
        Ok(endpoint)
    }
}

/// A connection that failed before the first command. So no command may have run.
fn nothing_sent(failure: Failure) -> Failure {
    match failure {
        Failure::Interrupted(text) => Failure::Unavailable(text),
        Failure::TimedOut => Failure::Unavailable("could not connect in time".to_owned()),
        failure => failure,
    }
}
