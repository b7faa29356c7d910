//! The servers of a quorum, and what their machines are doing.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::session::IdMap;

use crate::client::Client;
use crate::error::Error;
use crate::event::{Input, Output};
use crate::ids::{Caller, ClientId, CommandId, LeaseId, LockId, OpId};
use crate::options::Config;
use crate::time::{Duration, Instant};
use crate::wire::FenceCounter;

/// The server with the queue.
pub(super) const FIRST: u16 = 0;
/// How many fences an acquire reserves on each server, so that most servers remember the quorum's fence without another
/// round trip. A server reserves fewer, so that they don't run ahead of its clock.
const BLOCK: u64 = 1024;

#[derive(Clone, Hash)]
pub(crate) struct Member {
    pub(crate) client: Box<Client>,
    pub(crate) server: Arc<str>,
    /// What our leases on it are of.
    pub(super) leases: IdMap<LeaseId, LockId>,
}

impl Member {
    pub(super) fn is_idle(&self) -> bool {
        self.client.is_idle() && self.leases.is_empty()
    }
}

/// Why a server's machine was called.
#[derive(Clone, Copy, Hash)]
pub(super) enum Task {
    /// What one server says about a lock.
    Member(LockId),
    /// A part of a user's call.
    Part(Caller, CallKind),
}

/// What a user's call asks the servers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CallKind {
    /// With the number of servers that are not asked, but may grant the lease later or have granted it.
    Release(usize),
    Extend(LeaseId, Duration),
    Verify(LeaseId),
    Inspect,
    Force,
    Close,
}

#[derive(Clone, Hash)]
pub(crate) struct Members {
    pub(super) list: Vec<Member>,
    /// The calls to the servers' machines.
    pub(super) tasks: IdMap<OpId, Task>,
    /// Whether the calls are about a lock that other clients want.
    pub(super) is_contended: bool,
    last: u64,
}

impl Members {
    pub(crate) fn new(client: ClientId, config: &Config, servers: &[&str]) -> Result<Self, Error> {
        let mut list = Vec::with_capacity(servers.len());
        for (at, server) in (0..).zip(servers) {
            let mut machine = Box::new(Client::new(client.of_member(at), config.clone())?);
            // Leaves time for a second attempt, because the timeout of one server is short.
            // A quorum raises its fences to those of the fastest clock, so it has a counter of its own.
            machine.cx.counter = FenceCounter::Server("leasehold:fence:quorum");
            machine.cx.patience = machine.cx.response_timeout.saturating_mul(2);
            machine.cx.least_block = BLOCK;
            machine.cx.has_queue = at == FIRST;
            list.push(Member { client: machine, server: (*server).into(), leases: IdMap::default() });
        }
        Ok(Self { list, tasks: IdMap::default(), is_contended: false, last: 0 })
    }

    /// This member is a cluster. Its counters are not those that the cluster has for clients without a quorum.
    pub(crate) fn set_cluster(&mut self, at: u16) {
        if let Some(Member { client, .. }) = self.get(at) {
            client.cx.set_cluster();
            client.cx.counter = FenceCounter::Slots("leasehold:fence:quorum:");
        }
    }

    pub(super) fn majority(&self) -> usize {
        (self.list.len() / 2).saturating_add(1)
    }

    /// A number for a call to a server's machine.
    pub(super) fn new_op(&mut self, task: Option<Task>) -> OpId {
        self.last = self.last.saturating_add(1);
        let op = OpId(self.last);
        if let Some(task) = task {
            self.tasks.insert(op, task);
        }
        op
    }

    pub(super) fn get(&mut self, at: u16) -> Option<&mut Member> {
        self.list.get_mut(usize::from(at))
    }

    /// How many releases this server has not confirmed.
    pub(super) fn owed(&self, at: u16) -> usize {
        self.list.get(usize::from(at)).map_or(0, |member| member.client.cx.owed())
    }

    /// Whether this server has not confirmed a release of the lock.
    pub(super) fn owes(&self, at: u16, key: &str) -> bool {
        self.list.get(usize::from(at)).is_some_and(|member| member.client.cx.owes(key))
    }

    pub(super) fn tell(&mut self, at: u16, now: Instant, input: Input<'_>) {
        let is_contended = self.is_contended;
        if let Some(Member { client, .. }) = self.get(at) {
            client.cx.is_contended = is_contended;
            client.handle(now, input);
            client.cx.is_contended = false;
        }
    }

    /// Makes a call to one server's machine.
    pub(super) fn call<'a>(
        &mut self,
        at: u16,
        now: Instant,
        task: Option<Task>,
        input: impl FnOnce(OpId) -> Input<'a>,
    ) -> OpId {
        let op = self.new_op(task);
        self.tell(at, now, input(op));
        op
    }

    /// Gives a lease back to one server, for a user's call or on its own.
    pub(crate) fn release(&mut self, at: u16, now: Instant, lease: LeaseId, task: Option<Task>) {
        if let Some(member) = self.get(at) {
            member.leases.remove(&lease);
        }
        self.call(at, now, task, |op| Input::Release { op, lease });
    }

    /// Advances the time of all machines.
    pub(super) fn wake(&mut self, now: Instant) {
        for member in &mut self.list {
            if member.client.poll_timeout().is_some_and(|(at, _)| at <= now) {
                member.client.handle(now, Input::Wake);
            }
        }
    }

    pub(super) fn poll_output(&mut self) -> Option<(u16, Output)> {
        for (at, member) in (0..).zip(&mut self.list) {
            if let Some(output) = member.client.poll_output() {
                return Some((at, output));
            }
        }
        None
    }

    /// Converts a server's number of a command to a number that is unique over all servers.
    pub(super) fn outer(&self, at: u16, id: CommandId) -> CommandId {
        CommandId(id.0.saturating_mul(self.count().into()).saturating_add(at.into()))
    }

    /// Converts it back to the server's index and its own number.
    pub(super) fn inner(&self, CommandId(id): CommandId) -> (u16, CommandId) {
        let count = self.count().into();
        let at = id.checked_rem(count).and_then(|at| u16::try_from(at).ok());
        (at.unwrap_or_default(), CommandId(id.checked_div(count).unwrap_or_default()))
    }

    pub(super) fn count(&self) -> u16 {
        self.list.len() as u16
    }
}
