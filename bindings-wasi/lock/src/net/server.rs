//! The server that an endpoint leads to. A server of a quorum may be down when the manager is opened. Then the
//! driver connects to it when it has a command for it.

use alloc::borrow::ToOwned;
use alloc::rc::Rc;

use core::cell::{Cell, RefCell};
use core::time::Duration;

use leasehold_core::{Abilities, Error as EngineError, Failure, PROBE_PAUSE};

use super::check::{Check, Unfit};
use super::codec;
use super::member::Member;
use crate::bindings::exports::leasehold::lock::locks::Error;
use crate::bindings::leasehold::lock::connection::{Endpoint, Servers};
use crate::calls::timeout;
use crate::error;
use crate::time::{Stopwatch, millis, sleep};

pub(crate) struct Server {
    servers: Servers,
    /// How long connecting may take.
    limit: Duration,
    checks: Checks,
    /// The failure says why there is no endpoint.
    endpoint: RefCell<Result<Rc<Endpoint>, Failure>>,
    connecting: Cell<bool>,
}

/// What to check of a server.
pub(super) enum Checks {
    /// It is the only one.
    Only(Check),
    /// It is one of a quorum.
    Member(Member),
}

/// The option `cluster_slots` for servers that have no slots.
pub(crate) fn no_slots() -> Error {
    error::invalid("cluster_slots", "is only for a single address: leave it out".to_owned())
}

/// Connects to everything but a quorum, checks the server's version, and asks a single server whether it enforces slots. `slots` is
/// the option that tells. A server that is not ready is checked when the driver connects to it.
pub(crate) async fn connect(servers: Servers, slots: Option<bool>, limit: Duration) -> Result<Rc<Server>, Error> {
    let asks = match servers {
        Servers::Sentinel(_) if slots == Some(true) => return Err(no_slots()),
        Servers::Single(_) => slots != Some(false),
        _ => false,
    };
    let (is_cluster, is_required) = (matches!(servers, Servers::Cluster(_)), slots == Some(true));
    let stopwatch = Stopwatch::start();
    let (broken, found, unfit) = Default::default();
    let check = Check { is_cluster, asks, is_required, broken, found, unfit };
    let server = Server::new(servers, limit, Checks::Only(check));
    loop {
        let connected = server.connect().await;
        let Checks::Only(check) = &server.checks else { return Ok(server) };
        let error = match (connected, check.unfit.take()) {
            (Ok(_), _) | (_, Some(Unfit::NotReady(Failure::Refused(_)))) => return Ok(server),
            (_, Some(Unfit::NotReady(_))) if stopwatch.remaining(limit) > PROBE_PAUSE => {
                sleep(PROBE_PAUSE).await;
                continue;
            }
            (_, Some(Unfit::For(error))) => error,
            (Err(failure), _) => EngineError::of_connecting(failure, stopwatch.elapsed()),
        };
        return Err(error::from_engine(&error, None));
    }
}

impl Server {
    /// Doesn't connect yet.
    pub(super) fn new(servers: Servers, limit: Duration, checks: Checks) -> Rc<Self> {
        let endpoint = RefCell::new(Err(Failure::Unavailable("not connected yet".to_owned())));
        Rc::new(Self { servers, limit, checks, endpoint, connecting: Cell::new(false) })
    }

    /// Where commands go, or why they can't be sent now.
    pub(crate) fn endpoint(&self) -> Result<Rc<Endpoint>, Failure> {
        self.endpoint.borrow().clone()
    }

    /// What a check has found that the driver does not know yet. Before the first command is sent.
    pub(crate) fn take_abilities(&self) -> Option<Abilities> {
        match &self.checks {
            Checks::Only(check) => check.found.take(),
            Checks::Member(_) => None,
        }
    }

    /// Tries to connect once, and checks the server, unless an attempt is already running.
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
        match &self.checks {
            Checks::Only(check) => check.run(&endpoint, stopwatch, self.limit).await,
            Checks::Member(member) => member.check(&endpoint, stopwatch, self.limit).await,
        }
        .map(|()| endpoint)
        .map_err(nothing_sent)
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
