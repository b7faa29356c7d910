//! A server, or whatever an endpoint leads to. A server of a quorum may be down when the manager is opened; then it is
//! connected to when it is needed.

use alloc::borrow::ToOwned;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use leasehold_core::Failure;

use crate::bindings::leasehold::lock::connection::{Endpoint, Servers};
use crate::quorum::Member;
use crate::timer::{Start, within};
use crate::{error, wire};

pub(crate) struct Server {
    servers: Servers,
    limit: Duration,
    /// For a server of a quorum: what it must be.
    member: Option<Member>,
    /// Or why there is none.
    endpoint: RefCell<Result<Rc<Endpoint>, Failure>>,
    connecting: Cell<bool>,
}

impl Server {
    /// Sends nothing yet. `limit` is the time for connecting.
    pub(crate) fn new(servers: Servers, limit: Duration, member: Option<Member>) -> Rc<Self> {
        let endpoint = RefCell::new(Err(Failure::Unavailable("not connected yet".to_owned())));
        Rc::new(Self { servers, limit, member, endpoint, connecting: Cell::new(false) })
    }

    /// Where commands go, or why they can't be sent now.
    pub(crate) fn endpoint(&self) -> Result<Rc<Endpoint>, Failure> {
        self.endpoint.borrow().clone()
    }

    /// Tries once, unless an attempt is already under way.
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
        let start = Start::now();
        let opened = within(self.limit, Endpoint::open(self.servers.clone(), error::ms(self.limit))).await;
        let endpoint = match opened {
            Some(Ok(endpoint)) => Rc::new(endpoint),
            Some(Err(failure)) => return Err(not_sent(wire::failure(failure))),
            None => return Err(not_sent(Failure::TimedOut)),
        };
        if let Some(member) = &self.member {
            member.judge(&endpoint, self.limit.saturating_sub(start.elapsed())).await.map_err(not_sent)?;
        }
        Ok(endpoint)
    }
}

/// Whatever happened to the connection, no command was sent over it.
fn not_sent(failure: Failure) -> Failure {
    match failure {
        Failure::Interrupted(text) => Failure::Unavailable(text),
        Failure::TimedOut => Failure::Unavailable("could not connect in time".to_owned()),
        failure => failure,
    }
}
