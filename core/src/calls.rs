//! Commands in flight.

use alloc::collections::VecDeque;
use core::time::Duration;

use hashbrown::HashMap;

use crate::context::ResourceId;
use crate::event::{CallId, LeaseId, OpId};
use crate::numbering::ByNumber;
use crate::time::Instant;
use crate::token::Token;

/// Why a command was sent, and so who gets its reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// First try, resend, heartbeat or poll: `token` wants the lock.
    Acquire { resource: ResourceId, token: Token },
    /// More fences for a tenure.
    Refill { resource: ResourceId, token: Token },
    /// A renewal. `op` is set if it is for a user's extend or verify.
    Renew { resource: ResourceId, token: Token, op: Option<OpId> },
    /// Converts the lease to the token `new` in the other mode.
    Convert { resource: ResourceId, new: Token },
    /// Gives a token up.
    Release { token: Token },
    /// One script for several names. The details are stored under this number.
    Several { script: LeaseId },
    /// A user inspects a lock.
    Inspect { op: OpId },
    /// An operator takes a lock by force.
    Force { op: OpId },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) sent: Instant,
    pub(crate) purpose: Purpose,
    /// Whether the command contained the script's source.
    pub(crate) by_source: bool,
    /// The flow that it left by.
    pub(crate) flow: u8,
}

/// Commands without a reply. All have the same timeout, so they become overdue in the order in which they were sent.
pub(crate) struct Calls {
    next: u64,
    open: HashMap<CallId, Call, ByNumber>,
    sent: VecDeque<(Instant, CallId)>,
    timeout: Duration,
}

impl Calls {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { next: 0, open: HashMap::default(), sent: VecDeque::new(), timeout }
    }

    pub(crate) fn open(&mut self, call: Call) -> CallId {
        self.next = self.next.saturating_add(1);
        let id = CallId(self.next);
        self.sent.push_back((call.sent, id));
        self.open.insert(id, call);
        id
    }

    /// Ends a call. None if it has already ended, so the reply is late or a duplicate.
    pub(crate) fn close(&mut self, id: CallId) -> Option<Call> {
        let call = self.open.remove(&id)?;
        self.sweep();
        Some(call)
    }

    /// The next call whose answer is overdue.
    pub(crate) fn pop_overdue(&mut self, now: Instant) -> Option<CallId> {
        let (sent, id) = *self.sent.front()?;
        (sent + self.timeout <= now).then_some(id)
    }

    /// When the oldest call becomes overdue.
    pub(crate) fn next_overdue(&self) -> Option<Instant> {
        self.sent.front().map(|(sent, _)| *sent + self.timeout)
    }

    fn sweep(&mut self) {
        while self.sent.front().is_some_and(|(_, id)| !self.open.contains_key(id)) {
            self.sent.pop_front();
        }
    }
}
