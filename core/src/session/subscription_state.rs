//! The state of a subscription to a channel.

use super::timers::Slot;
use crate::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    /// No caller has had to wait yet.
    Off,
    /// Requested, not acknowledged yet.
    Asked,
    /// Requested, but overdue or a retry: waiters poll meanwhile.
    Late,
    /// It broke or failed. It is requested again after a pause, and waiters poll meanwhile.
    Broken,
    /// Messages arrive.
    On,
    /// The host doesn't support messages, or the server refuses them: waiters poll.
    Polling,
}

#[derive(Clone, Copy, Hash)]
pub(crate) struct Subscription {
    pub(super) state: State,
    /// How often it broke or failed without having lasted.
    pub(super) failures: u32,
    pub(super) since: Instant,
    pub(super) timer: Slot,
}

impl Subscription {
    pub(crate) const fn new() -> Self {
        Self { state: State::Off, failures: 0, since: Instant::from_micros(0), timer: None }
    }

    /// Whether a waiter may join the queue now. Its grant arrives by message, or the waiter polls for it.
    pub(crate) fn is_settled(&self) -> bool {
        !matches!(self.state, State::Off | State::Asked)
    }

    /// Whether waiters have to poll.
    pub(crate) fn is_polling(&self) -> bool {
        !matches!(self.state, State::On)
    }

    /// Whether there are no messages, and never will be.
    pub(crate) fn is_refused(&self) -> bool {
        self.state == State::Polling
    }

    /// Whether it was never requested.
    pub(super) fn is_off(&self) -> bool {
        self.state == State::Off && self.timer.is_none()
    }
}
