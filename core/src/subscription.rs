//! The subscription to a channel: asked for when somebody first has to wait, and again whenever it breaks.
//!
//! ```text
//! Off --want--> Asked --subscribed--> On --unsubscribed--> Broken --after a while--> Late
//!                 |  \--overdue--> Late --subscribed--> On
//!                 \--refused for good, or unsupported--> Polling
//! ```

use core::time::Duration;

use crate::context::{Context, ResourceId};
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

#[derive(Clone, Copy)]
pub(crate) struct Subscription {
    state: State,
    /// How often it broke or failed before it had lasted.
    failures: u32,
    since: Instant,
    timer: Slot,
}

/// Which channel a subscription is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Channel {
    /// The client's own.
    Own,
    /// That of a reentrant lock.
    Of(ResourceId),
}

const NODE: NodeId = NodeId(0);

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

    /// Whether nobody has asked for it yet.
    pub(crate) fn is_off(&self) -> bool {
        self.state == State::Off && self.timer.is_none()
    }

    /// Somebody has to wait.
    pub(crate) fn want(&mut self, cx: &mut Context, of: Channel, channel: &str) {
        if self.is_off() {
            self.subscribe(cx, of, channel, State::Asked);
        }
    }

    fn subscribe(&mut self, cx: &mut Context, of: Channel, channel: &str, state: State) {
        if cx.closed {
            return;
        }
        self.state = state;
        cx.outputs.push_back(Output::Subscribe { node: NODE, channel: channel.into() });
        // An attempt that takes long is left alone: asking anew would end it.
        let patience = if state == State::Asked { 1 } else { 10 };
        let overdue = cx.now + cx.config.response_timeout.saturating_mul(patience);
        cx.timers.set(Timer::Subscription(of), &mut self.timer, Some(overdue));
    }

    /// The server acknowledged it.
    pub(crate) fn begins(&mut self, cx: &mut Context, of: Channel) {
        if cx.closed || self.state == State::Polling {
            return;
        }
        self.state = State::On;
        self.since = cx.now;
        cx.timers.set(Timer::Subscription(of), &mut self.timer, None);
    }

    /// It broke, or can't be made.
    pub(crate) fn ends(&mut self, cx: &mut Context, of: Channel, cause: &Failure) {
        if cx.closed {
            return;
        }
        if self.state == State::On && cx.now.since(self.since) >= cx.config.claim_window {
            self.failures = 0;
        }
        let forever = matches!(Trouble::of(cause.clone()), Trouble::Fatal(_));
        self.state = if forever { State::Polling } else { State::Broken };
        let again = (!forever).then(|| {
            let backoff = cx.backoff(self.failures, cx.config.response_timeout);
            self.failures = self.failures.saturating_add(1);
            cx.now + backoff
        });
        cx.timers.set(Timer::Subscription(of), &mut self.timer, again);
    }

    /// The timer: overdue, or time to ask again. True if waiters may join from now on.
    pub(crate) fn due(&mut self, cx: &mut Context, of: Channel, channel: &str) -> bool {
        cx.timers.set(Timer::Subscription(of), &mut self.timer, None);
        match self.state {
            State::Asked => {
                self.state = State::Late;
                let again = cx.now + cx.config.response_timeout.saturating_mul(9);
                cx.timers.set(Timer::Subscription(of), &mut self.timer, Some(again));
                true
            }
            State::Late | State::Broken => {
                self.subscribe(cx, of, channel, State::Late);
                false
            }
            State::Off | State::On | State::Polling => false,
        }
    }

    /// Nobody waits any more.
    pub(crate) fn unsubscribe(&mut self, cx: &mut Context, of: Channel, channel: &str) {
        if !matches!(self.state, State::Off | State::Polling) {
            cx.outputs.push_back(Output::Unsubscribe { node: NODE, channel: channel.into() });
        }
        cx.timers.set(Timer::Subscription(of), &mut self.timer, None);
        *self = Self::new();
    }
}

impl Context {
    /// There is something that others may want to tell this client.
    pub(crate) fn listen(&mut self) {
        if self.subscription.is_off() {
            self.with_own(|own, cx, channel| own.want(cx, Channel::Own, channel));
        }
    }

    /// Does something with the subscription to the client's own channel.
    pub(crate) fn with_own<R>(&mut self, act: impl FnOnce(&mut Subscription, &mut Self, &str) -> R) -> R {
        let mut own = self.subscription;
        let channel = self.channel();
        let result = act(&mut own, self, &channel);
        self.subscription = own;
        result
    }

    /// A wait before the next attempt: 20 ms, doubled with each failure, at most `most`, with jitter.
    pub(crate) fn backoff(&mut self, failures: u32, most: Duration) -> Duration {
        let wait = Duration::from_millis(20).saturating_mul(1 << failures.min(10));
        self.random.jitter(wait.min(most))
    }
}
