//! The one subscription of a client: asked for when somebody first has to wait, and again whenever it breaks.
//!
//! ```text
//! Off --want--> Asked --subscribed--> On --unsubscribed--> Broken --after a while--> Late
//!                 |  \--overdue--> Late --subscribed--> On
//!                 \--refused for good, or unsupported--> Polling
//! ```

use core::time::Duration;

use crate::context::Context;
use crate::event::{NodeId, Output};
use crate::reply::Failure;
use crate::time::Instant;
use crate::timers::{Slot, Timer};
use crate::trouble::Trouble;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody has had to wait yet.
    Off,
    /// Asked for, not acknowledged yet.
    Asked,
    /// Asked for, and overdue or not the first time: waiters poll meanwhile.
    Late,
    /// It broke or failed, and is asked for again after a while: waiters poll meanwhile.
    Broken,
    /// Messages come.
    On,
    /// The host has no messages, or the server refuses them: waiters poll.
    Polling,
}

pub(crate) struct Subscription {
    state: State,
    /// How often it broke or failed before it had lasted.
    failures: u32,
    since: Instant,
    timer: Slot,
}

impl Subscription {
    pub(crate) const fn new() -> Self {
        Self { state: State::Off, failures: 0, since: Instant::from_micros(0), timer: None }
    }

    /// Whether a waiter may join the queue now: its grant will come by message, or it polls for it.
    pub(crate) fn is_settled(&self) -> bool {
        !matches!(self.state, State::Off | State::Asked)
    }

    /// Whether grants have to be found by asking.
    pub(crate) fn is_polling(&self) -> bool {
        !matches!(self.state, State::On)
    }
}

const NODE: NodeId = NodeId(0);

impl Context {
    /// Somebody has to wait.
    pub(crate) fn want_subscription(&mut self) {
        if self.subscription.state == State::Off && self.subscription.timer.is_none() {
            self.subscribe(State::Asked);
        }
    }

    fn subscribe(&mut self, state: State) {
        if self.closed {
            return;
        }
        self.subscription.state = state;
        self.outputs.push_back(Output::Subscribe { node: NODE, channel: self.channel() });
        // An attempt that takes long is left alone: asking anew would end it.
        let patience = if state == State::Asked { 1 } else { 10 };
        let overdue = self.now + self.config.response_timeout.saturating_mul(patience);
        self.timers.set(Timer::Subscription(NODE), &mut self.subscription.timer, Some(overdue));
    }

    pub(crate) fn subscribed(&mut self) {
        if self.closed || self.subscription.state == State::Polling {
            return;
        }
        self.subscription.state = State::On;
        self.subscription.since = self.now;
        self.timers.set(Timer::Subscription(NODE), &mut self.subscription.timer, None);
    }

    pub(crate) fn unsubscribed(&mut self, cause: &Failure) {
        if self.closed {
            return;
        }
        if self.subscription.state == State::On && self.now.since(self.subscription.since) >= self.config.claim_window {
            self.subscription.failures = 0;
        }
        let forever = matches!(Trouble::of(cause.clone()), Trouble::Fatal(_));
        self.subscription.state = if forever { State::Polling } else { State::Broken };
        let again = (!forever).then(|| {
            let backoff = self.backoff(self.subscription.failures, self.config.response_timeout);
            self.subscription.failures = self.subscription.failures.saturating_add(1);
            self.now + backoff
        });
        self.timers.set(Timer::Subscription(NODE), &mut self.subscription.timer, again);
    }

    /// The timer of the subscription: overdue, or time to ask again. True if waiters may join from now on.
    pub(crate) fn subscription_due(&mut self) -> bool {
        self.timers.set(Timer::Subscription(NODE), &mut self.subscription.timer, None);
        match self.subscription.state {
            State::Asked => {
                self.subscription.state = State::Late;
                let again = self.now + self.config.response_timeout.saturating_mul(9);
                self.timers.set(Timer::Subscription(NODE), &mut self.subscription.timer, Some(again));
                true
            }
            State::Late | State::Broken => {
                self.subscribe(State::Late);
                false
            }
            State::Off | State::On | State::Polling => false,
        }
    }

    pub(crate) fn unsubscribe(&mut self) {
        if !matches!(self.subscription.state, State::Off | State::Polling) {
            self.outputs.push_back(Output::Unsubscribe { node: NODE, channel: self.channel() });
        }
        self.timers.set(Timer::Subscription(NODE), &mut self.subscription.timer, None);
        self.subscription.state = State::Off;
    }

    /// A wait before the next attempt: 20 ms, doubled with each failure, at most `most`, with jitter.
    pub(crate) fn backoff(&mut self, failures: u32, most: Duration) -> Duration {
        let wait = Duration::from_millis(20).saturating_mul(1 << failures.min(10));
        self.random.jitter(wait.min(most))
    }
}
