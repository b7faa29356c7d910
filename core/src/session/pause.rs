//! A pause of this process does not count as silence of the server.
//!
//! An application may block its event loop or its runtime, and a machine may stall. During such a pause, answers wait
//! in the socket, and commands wait to be sent. So if a driver calls the engine much later than the engine asked for,
//! and says so with `catch_up`, everything that the server has to answer gets its full time again. Each command and
//! each call gets that a few times at most, so that no call lasts forever on a machine that is always late. Leases
//! still end by the clock.

use super::Context;
use super::op::{Op, OpKind};
use crate::ids::Caller;
use crate::time::{Duration, Instant};

/// A driver that is this late was paused. Less if the response timeout is short.
const LATE: Duration = Duration::from_millis(50);

/// How often a command or a call gets its full time again after a pause of this process. For drivers with time limits of
/// their own.
pub const MOST_PAUSES: u8 = 3;

/// How much longer a wait lasts whose time ended during the pause. In this time the driver reads what arrived.
const READING: Duration = Duration::from_millis(50);

/// A driver that calls later than this was paused.
pub(crate) fn late(response_timeout: Duration) -> Duration {
    LATE.min(response_timeout / 4)
}

impl Context {
    /// The driver is late. Everything that the server has to answer gets its full time again.
    pub(crate) fn resume(&mut self, now: Instant) {
        self.resumed_before = core::mem::replace(&mut self.resumed, now);
        self.unanswered.begin_again(now, MOST_PAUSES);
    }

    /// Extends the time limit of a call if this process was paused during the call. Returns whether it did. If the
    /// caller set the limit, the extension is only long enough to read the answers. A drain waits for no answer.
    pub(crate) fn was_paused(&mut self, op: Caller) -> bool {
        let (resumed, patience) = (self.resumed, self.patience());
        // The server has confirmed releases since the previous pause.
        let alive = self.last_released >= self.resumed_before;
        let may = |open: &&mut Op| open.since < resumed && !matches!(open.kind, OpKind::Drain);
        let Some(open) = self.ops.get_mut(&op).filter(may) else { return false };
        let left = (resumed + if open.bounded { READING } else { patience }).time_since(self.now);
        let again = open.pauses < MOST_PAUSES || (alive && matches!(open.kind, OpKind::Close));
        if left.is_zero() || !again {
            return false;
        }
        open.pauses = open.pauses.saturating_add(1);
        self.limit_op(op, left);
        true
    }
}
