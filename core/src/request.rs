//! A request: this client's one waiting token of a name.

use core::time::Duration;

use crate::context::{Context, ResourceId};
use crate::mutant::Mutant;
use crate::options::{AcquireOptions, Kind, Mode};
use crate::reply::Failure;
use crate::tenure::Strays;
use crate::time::Instant;
use crate::timers::{Slot, Timer};
use crate::token::Token;

/// The least time between two asks for a lock that is about to be free.
const SOON: Duration = Duration::from_millis(5);
/// The first wait of a poll.
const POLL: Duration = Duration::from_millis(50);

pub(crate) struct Request {
    pub(crate) token: Token,
    pub(crate) kind: Kind,
    pub(crate) mode: Mode,
    /// Whether a local caller really waits, so that it may join the queue.
    pub(crate) waits: bool,
    /// Whether it may be in the server's queue.
    pub(crate) joined: bool,
    /// Whether the command that was put together last joins the queue.
    pub(crate) joining: bool,
    pub(crate) first_sent: Option<Instant>,
    /// Since when the server has it; none while it waits for room to be sent with the script's source.
    pub(crate) sent: Option<Instant>,
    pub(crate) strays: Strays,
    /// The answered send with the greatest server time: what a grant's own time is reckoned from.
    pub(crate) base: Option<Base>,
    /// When the holder's lease ends as far as is known.
    pub(crate) holder_ends: Option<Instant>,
    /// The last attempt's failure, if the server has not answered since.
    pub(crate) trouble: Option<Failure>,
    /// Failures, or polls of a foreign holder, in a row.
    pub(crate) attempts: u32,
    pub(crate) timer: Slot,
}

#[derive(Clone, Copy)]
pub(crate) struct Base {
    pub(crate) sent: Instant,
    pub(crate) server: u64,
}

impl Request {
    /// A request for a caller with these options.
    pub(crate) fn new(token: Token, options: &AcquireOptions) -> Self {
        Self {
            token,
            kind: options.kind,
            mode: options.mode,
            waits: false,
            joined: false,
            joining: false,
            first_sent: None,
            sent: None,
            strays: Strays::default(),
            base: None,
            holder_ends: None,
            trouble: None,
            attempts: 0,
            timer: None,
        }
    }

    /// Whether the server has said that somebody else has the lock.
    pub(crate) fn is_known_busy(&self) -> bool {
        self.base.is_some()
    }

    /// Sets the next send, unless an earlier one is set.
    pub(crate) fn send_by(&mut self, cx: &mut Context, resource: ResourceId, at: Instant) {
        let at = self.timer.map_or(at, |set| set.at.min(at));
        cx.timers.set(Timer::Heartbeat(resource), &mut self.timer, Some(at));
    }

    /// Sets the next send where nobody may tell that the lock is free: after 50 ms, doubled up to a heartbeat's time.
    pub(crate) fn poll(&mut self, cx: &mut Context, resource: ResourceId) {
        let wait = POLL.saturating_mul(1 << self.attempts.min(10)).min(cx.config.claim_window / 3);
        self.attempts = self.attempts.saturating_add(1);
        let wait = cx.random.jitter(wait);
        self.send_by(cx, resource, cx.now + wait);
    }

    /// Sets the next send to when the holder's lease should be over.
    pub(crate) fn send_when_free(&mut self, cx: &mut Context, resource: ResourceId, left: Option<Duration>) {
        if let Some(left) = left.filter(|_| !cx.has(Mutant::HolderDeathIgnored)) {
            let free = left.saturating_add(Duration::from_millis(1)).max(SOON);
            self.send_by(cx, resource, cx.now + free);
        }
    }

    pub(crate) fn clear_timer(&mut self, cx: &mut Context, resource: ResourceId) {
        cx.timers.set(Timer::Heartbeat(resource), &mut self.timer, None);
    }
}
