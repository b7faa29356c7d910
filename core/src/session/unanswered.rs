//! Commands in flight.

use alloc::collections::VecDeque;

use super::id_map::IdMap;
use super::request::{Form, Purpose, Request};
use crate::ids::CommandId;
use crate::time::{Duration, Instant};
use crate::wire::Failed;

/// A command that has no reply yet.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct SentCommand {
    pub(crate) at: Instant,
    pub(crate) purpose: Purpose,
    pub(crate) form: Form,
    /// The flow that it left by.
    pub(super) flow: u8,
}

impl SentCommand {
    /// The flow that it left by.
    pub(crate) const fn flow(&self) -> u8 {
        self.flow
    }
}

/// Commands without a reply. All have the same timeout, so they become overdue in the order in which they were sent.
#[derive(Clone, Hash)]
pub(crate) struct Unanswered {
    next: u64,
    /// Each with its request, which is sent again with the source if the server lacks the script.
    open: IdMap<CommandId, (SentCommand, Request)>,
    /// When the time of each command began, and how often it began again.
    sent: VecDeque<(Instant, CommandId, u8)>,
    timeout: Duration,
}

impl Unanswered {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { next: 0, open: IdMap::default(), sent: VecDeque::new(), timeout }
    }

    pub(super) fn open(&mut self, sent: SentCommand, request: Request) -> CommandId {
        self.next = self.next.saturating_add(1);
        let id = CommandId(self.next);
        self.sent.push_back((sent.at, id, 0));
        self.open.insert(id, (sent, request));
        id
    }

    /// A command that has no reply yet.
    pub(crate) fn get(&self, id: CommandId) -> Option<&SentCommand> {
        self.open.get(&id).map(|(sent, _)| sent)
    }

    /// Removes a command. None if it has already ended, so the reply is late or a duplicate.
    pub(crate) fn close(&mut self, id: CommandId) -> Option<(SentCommand, Request)> {
        let closed = self.open.remove(&id)?;
        self.sweep();
        Some(closed)
    }

    /// The next command whose reply is overdue.
    pub(crate) fn pop_overdue(&mut self, now: Instant) -> Option<CommandId> {
        let (sent, id, _) = *self.sent.front()?;
        (sent + self.timeout <= now).then_some(id)
    }

    /// When the oldest command becomes overdue.
    pub(crate) fn next_overdue(&self) -> Option<Instant> {
        self.sent.front().map(|(sent, ..)| *sent + self.timeout)
    }

    /// Restarts the time of all commands but those that were restarted `most` times. These are the oldest, so the order
    /// stays.
    pub(super) fn begin_again(&mut self, now: Instant, most: u8) {
        for (sent, _, pauses) in self.sent.iter_mut().filter(|(.., pauses)| *pauses < most) {
            (*sent, *pauses) = (now, *pauses + 1);
        }
    }

    fn sweep(&mut self) {
        while self.sent.front().is_some_and(|(_, id, _)| !self.open.contains_key(id)) {
            self.sent.pop_front();
        }
    }
}

/// Commands that may still take or change this token on the server.
#[derive(Clone, Copy, Hash, Default)]
pub(crate) struct InFlight {
    pub(crate) unanswered: u32,
    /// A command got no reply and never will. It may still arrive late.
    pub(super) lost: bool,
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
