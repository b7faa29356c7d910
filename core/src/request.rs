//! A request: this client's one waiting token of a name.

use crate::context::{Context, ResourceId};
use crate::options::Mode;
use crate::reply::Failure;
use crate::tenure::Strays;
use crate::time::Instant;
use crate::timers::{Slot, Timer};
use crate::token::Token;

pub(crate) struct Request {
    pub(crate) token: Token,
    pub(crate) mode: Mode,
    /// Whether a local caller really waits, so that it may join the queue.
    pub(crate) waits: bool,
    /// Whether it may be in the server's queue.
    pub(crate) joined: bool,
    pub(crate) first_sent: Option<Instant>,
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
    pub(crate) fn new(token: Token, mode: Mode) -> Self {
        Self {
            token,
            mode,
            waits: false,
            joined: false,
            first_sent: None,
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
        let at = self.timer.map_or(at, |set| set.min(at));
        cx.timers.set(Timer::Heartbeat(resource), &mut self.timer, Some(at));
    }

    pub(crate) fn clear_timer(&mut self, cx: &mut Context, resource: ResourceId) {
        cx.timers.set(Timer::Heartbeat(resource), &mut self.timer, None);
    }
}
