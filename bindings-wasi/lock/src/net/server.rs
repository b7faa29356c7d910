//! The server that an endpoint leads to. A server of a quorum may be down when the manager is opened. Then the
//! driver connects to it when it has a command for it.

use alloc::borrow::ToOwned;
use alloc::rc::Rc;

use core::cell::{Cell, RefCell};
use core::time::Duration;

use leasehold_core::{DeleteIfEqual, Failure};

use super::codec;
use super::member::Member;
use super::questions::{check_version, enforces_slots, info_of};
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

/// What the client uses of what a server can do.
pub(crate) struct Abilities {
    /// The command with which it can delete a key by its value.
    pub(crate) delete_if_equal: Option<DeleteIfEqual>,
    /// Whether names are in the slots of a cluster, at one address or at several.
    pub(crate) has_slots: bool,
}

/// The option `cluster_slots` for servers that have no slots.
pub(crate) fn no_slots() -> Error {
    error::invalid("cluster_slots", "is only for a single address: leave it out".to_owned())
}

/// Connects to everything but a quorum, checks the server's version, and asks a single server whether it enforces slots. `slots` is
/// the option that tells.
pub(crate) async fn connect(
    servers: Servers,
    slots: Option<bool>,
    limit: Duration,
) -> Result<(Rc<Server>, Abilities), Error> {
    let asks = match servers {
        Servers::Sentinel(_) if slots == Some(true) => return Err(no_slots()),
        Servers::Single(_) => slots != Some(false),
        _ => false,
    };
    let is_cluster = matches!(servers, Servers::Cluster(_));
    let stopwatch = Stopwatch::start();
    let failed = |failure| error::of_connecting(failure, stopwatch.elapsed());
    let server = Server::new(servers, limit, None);
    let endpoint = server.connect().await.map_err(failed)?;
    let info = info_of(&endpoint, stopwatch, limit).await.map_err(failed)?;
    check_version(&info)?;
    let has_slots = is_cluster || asks && enforces_slots(&endpoint, slots == Some(true), stopwatch, limit).await?;
    Ok((server, Abilities { delete_if_equal: DeleteIfEqual::of(&info), has_slots }))
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
            member.check(&endpoint, stopwatch, self.limit).await.map_err(nothing_sent)?;
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
