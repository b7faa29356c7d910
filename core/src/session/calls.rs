//! Commands in flight.

use alloc::collections::VecDeque;
use core::time::Duration;

use hashbrown::HashMap;

use crate::ids::{ByNumber, CallId, Caller, LeaseId, LockId, Token};
use crate::time::Instant;
use crate::wire::{Failed, Form};

/// Why a command was sent, and so who gets its reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// First try, resend, heartbeat or poll: `token` wants the lock.
    Acquire { lock: LockId, token: Token },
    /// More fences for a hold.
    Refill { lock: LockId, token: Token },
    /// A renewal. `op` is set if it is for a user's extend or verify.
    Renew { lock: LockId, token: Token, op: Option<Caller> },
    /// Converts the lease to the token `new` in the other mode.
    Convert { lock: LockId, new: Token },
    /// Gives a token up.
    Release { token: Token },
    /// One script for several names. The details are stored under this number.
    Multi { script: LeaseId },
    /// A user inspects a lock.
    Inspect { op: Caller },
    /// An operator takes a lock by force.
    Force { op: Caller },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) sent: Instant,
    pub(crate) purpose: Purpose,
    pub(crate) form: Form,
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

/// Commands that may still take or change this token on the server.
#[derive(Clone, Copy, Default)]
pub(crate) struct InFlight {
    pub(crate) unanswered: u32,
    /// A command got no reply and never will. It may still arrive late.
    pub(crate) lost: bool,
}

impl InFlight {
    pub(crate) fn sent(&mut self) {
        self.unanswered = self.unanswered.saturating_add(1);
    }

    pub(crate) fn answered(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
    }

    pub(crate) fn failed(&mut self, failed: &Failed) {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.lost |= failed.maybe_applied;
    }

    pub(crate) fn any(self) -> bool {
        self.lost || self.unanswered > 0
    }
}
