//! A claim: the one token with which this client waits for a name.

use crate::error::Failure;
use crate::ids::{LockId, Token};
use crate::options::{AcquireOptions, Kind, Mode};
use crate::session::{Context, InFlight, Slot, Timer};
use crate::time::{Duration, Instant};

/// The shortest time between two commands for a lock that is about to become free.
const SOON: Duration = Duration::from_millis(5);
/// The first pause between two polls.
const POLL: Duration = Duration::from_millis(50);

#[derive(Clone, Hash)]
pub(crate) struct Claim {
    pub(crate) token: Token,
    pub(crate) kind: Kind,
    pub(crate) mode: Mode,
    /// How long its permits count, if it asks a rate for them.
    pub(crate) per: Option<Duration>,
    /// Whether a local caller waits, so that the claim may join the queue.
    pub(crate) waits: bool,
    /// Whether it may be in the server's queue.
    pub(crate) joined: bool,
    /// Whether the last command joins the queue.
    pub(crate) joining: bool,
    /// Whether the last answer said that it is the first in the queue.
    #[cfg(feature = "quorum")]
    pub(crate) is_head: bool,
    pub(crate) first_sent: Option<Instant>,
    /// When the command that is not answered yet was first sent.
    pub(crate) sent: Option<Instant>,
    pub(crate) in_flight: InFlight,
    /// The answered command with the greatest server time. The time of a grant is calculated from it.
    pub(crate) base: Option<Base>,
    /// Whether the server was asked how many callers wait with other tokens, and its last answer.
    pub(crate) counts: bool,
    pub(crate) elsewhere: Option<u32>,
    /// When the holder's lease will end, if known.
    pub(crate) holder_ends: Option<Instant>,
    /// Why the last attempt failed, if the server has not answered since.
    pub(crate) failure: Option<Failure>,
    /// How many attempts have failed in a row, or how many times a foreign holder was polled.
    pub(crate) attempts: u32,
    pub(crate) timer: Slot,
}

#[derive(Clone, Copy, Hash)]
pub(crate) struct Base {
    pub(crate) sent: Instant,
    pub(crate) server: u64,
}

impl Claim {
    /// A claim for a caller with these options.
    pub(crate) fn new(token: Token, options: &AcquireOptions) -> Self {
        Self {
            token,
            kind: options.kind,
            mode: options.mode,
            per: options.per.map(Duration::from),
            waits: false,
            joined: false,
            joining: false,
            #[cfg(feature = "quorum")]
            is_head: false,
            first_sent: None,
            sent: None,
            in_flight: InFlight::default(),
            base: None,
            counts: false,
            elsewhere: None,
            holder_ends: None,
            failure: None,
            attempts: 0,
            timer: None,
        }
    }

    /// Whether the server has said that another client holds the lock.
    pub(crate) fn is_known_busy(&self) -> bool {
        self.base.is_some()
    }

    /// Schedules the next command, unless an earlier one is scheduled.
    pub(super) fn send_by(&mut self, cx: &mut Context, lock: LockId, at: Instant) {
        let at = self.timer.map_or(at, |set| set.at.min(at));
        cx.timers.set(Timer::Heartbeat(lock), &mut self.timer, Some(at));
    }

    /// Schedules the next poll, for when no message may announce that the lock is free. The pause starts at 50 ms and
    /// doubles up to the heartbeat's interval.
    pub(super) fn poll(&mut self, cx: &mut Context, lock: LockId) {
        let wait = POLL.saturating_mul(1 << self.attempts.min(10)).min(cx.claim_window / 3);
        self.attempts = self.attempts.saturating_add(1);
        let wait = cx.random.jitter(wait);
        self.send_by(cx, lock, cx.now + wait);
    }

    /// Schedules the next command for when the holder's lease should have ended.
    pub(crate) fn send_when_free(&mut self, cx: &mut Context, lock: LockId, left: Option<Duration>) {
        if let Some(left) = left {
            let free = left.saturating_add(Duration::from_millis(1)).max(SOON);
            self.send_by(cx, lock, cx.now + free);
        }
    }

    pub(super) fn clear_timer(&mut self, cx: &mut Context, lock: LockId) {
        cx.timers.set(Timer::Heartbeat(lock), &mut self.timer, None);
    }
}
