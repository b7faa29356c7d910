//! The servers of a quorum, and what their machines are doing.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::client::Client;
use crate::error::Error;
use crate::event::{Input, Output};
use crate::ids::{ByNumber, ClientId, LeaseId, LockId, OpId};
use crate::options::Config;
use crate::time::Instant;

pub(crate) struct Member {
    pub(crate) client: Box<Client>,
    pub(crate) server: Arc<str>,
}

/// Why a server's machine was called, or what a lease on it belongs to.
#[derive(Clone, Copy)]
pub(crate) enum Task {
    /// What one server says about a lock.
    Member(LockId),
    /// A part of a user's call.
    Part(OpId),
}

pub(crate) struct Members {
    pub(crate) list: Vec<Member>,
    /// Even numbers are calls to the servers' machines, odd numbers are leases on them.
    pub(crate) tasks: HashMap<OpId, Task, ByNumber>,
    last: u64,
}

impl Members {
    pub(crate) fn new(client: ClientId, config: &Config, servers: &[&str]) -> Result<Self, Error> {
        let mut list = Vec::with_capacity(servers.len());
        for (at, server) in (0..).zip(servers) {
            let mut machine = Box::new(Client::new(client.of_member(at), config.clone())?);
            // Leaves time for a second attempt, because the timeout of one server is short.
            machine.cx.patience = config.response_timeout.saturating_mul(2);
            list.push(Member { client: machine, server: (*server).into() });
        }
        Ok(Self { list, tasks: HashMap::default(), last: 0 })
    }

    pub(crate) fn majority(&self) -> usize {
        (self.list.len() / 2).saturating_add(1)
    }

    /// A number for a call to a server's machine.
    pub(crate) fn new_op(&mut self, task: Option<Task>) -> OpId {
        self.last = self.last.saturating_add(2);
        let op = OpId(self.last);
        if let Some(task) = task {
            self.tasks.insert(op, task);
        }
        op
    }

    pub(crate) fn lease_key(&self, at: u16, lease: LeaseId) -> OpId {
        OpId(self.outer(at, lease.0).saturating_mul(2).saturating_add(1))
    }

    pub(crate) fn client(&mut self, at: u16) -> Option<&mut Client> {
        self.list.get_mut(usize::from(at)).map(|member| &mut *member.client)
    }

    pub(crate) fn tell(&mut self, at: u16, now: Instant, input: Input<'_>) {
        if let Some(client) = self.client(at) {
            client.handle(now, input);
        }
    }

    /// Gives a lease back to one server, for a user's call or on its own.
    pub(crate) fn release(&mut self, at: u16, now: Instant, lease: LeaseId, call: Option<OpId>) {
        self.tasks.remove(&self.lease_key(at, lease));
        let op = self.new_op(call.map(Task::Part));
        self.tell(at, now, Input::Release { op, lease });
    }

    /// One server's lease was lost. Nobody will release it there.
    pub(crate) fn forget_loss(&mut self, at: u16, lease: LeaseId) {
        if let Some(client) = self.client(at) {
            client.cx.lost.remove(&lease);
        }
    }

    /// Advances the time of all machines.
    pub(crate) fn wake(&mut self, now: Instant) {
        for member in &mut self.list {
            if member.client.poll_timeout().is_some_and(|(at, _)| at <= now) {
                member.client.handle(now, Input::Wake);
            }
        }
    }

    pub(crate) fn poll_output(&mut self) -> Option<(u16, Output)> {
        for (at, member) in (0..).zip(&mut self.list) {
            if let Some(output) = member.client.poll_output() {
                return Some((at, output));
            }
        }
        None
    }

    /// Converts a server's number of a call or a lease to a number that is unique over all servers.
    pub(crate) fn outer(&self, at: u16, number: u64) -> u64 {
        number.saturating_mul(self.count()).saturating_add(u64::from(at))
    }

    /// Converts it back to the server's index and its own number.
    pub(crate) fn inner(&self, number: u64) -> (u16, u64) {
        let count = self.count();
        let at = number.checked_rem(count).unwrap_or_default();
        (u16::try_from(at).unwrap_or_default(), number.checked_div(count).unwrap_or_default())
    }

    fn count(&self) -> u64 {
        self.list.len() as u64
    }
}
