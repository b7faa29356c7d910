//! Commands in flight.

use alloc::collections::VecDeque;
use core::time::Duration;

use hashbrown::HashMap;

use crate::context::ResourceId;
use crate::event::{CallId, LeaseId, OpId};
use crate::numbering::ByNumber;
use crate::time::Instant;
use crate::token::Token;

/// What a command was sent for: whom its reply belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// First try, resend, heartbeat, help: `token` wants the lock.
    Acquire { resource: ResourceId, token: Token },
    /// More fences for a tenure.
    Refill { resource: ResourceId, token: Token },
    /// A renewal, perhaps for a user's extend or verify.
    Renew { resource: ResourceId, token: Token, op: Option<OpId> },
    /// A lease gets the token `new` in the other mode.
    Convert { resource: ResourceId, new: Token },
    /// A token is given up.
    Release { token: Token },
    /// Several names are wanted at once; what for is written down under this number.
    Several { script: LeaseId },
    /// A user asks who holds a lock.
    Inspect { op: OpId },
    /// An operator takes a lock from its holders.
    Force { op: OpId },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) sent: Instant,
    pub(crate) purpose: Purpose,
    /// Whether the script's source went along.
    pub(crate) by_source: bool,
    /// By which flow it left.
    pub(crate) flow: u8,
}

/// Commands that have no reply yet. All have the same time to be answered, so they are overdue in the order of their sending.
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

    /// Ends a call. None if it has ended before: a late or doubled reply.
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

    /// When the oldest call will be overdue.
    pub(crate) fn next_overdue(&self) -> Option<Instant> {
        self.sent.front().map(|(sent, _)| *sent + self.timeout)
    }

    fn sweep(&mut self) {
        while self.sent.front().is_some_and(|(_, id)| !self.open.contains_key(id)) {
            self.sent.pop_front();
        }
    }
}
