//! The subscription to a channel. It is requested when a caller first has to wait, and again whenever it breaks.
//!
//! ```text
//! Off --want--> Asked --subscribed--> On --unsubscribed--> Broken --after a pause--> Late
//!                 |  \--overdue--> Late --subscribed--> On
//!                 \--refused for good, or unsupported--> Polling
//! ```

use super::Context;
use super::subscription_state::{State, Subscription};
use super::timers::Timer;
use crate::error::Failure;
use crate::event::Output;
use crate::ids::{Channel, NodeId};
use crate::time::Duration;
use crate::wire::FailureClass;

const NODE: NodeId = NodeId(0);

impl Subscription {
    /// A caller has to wait.
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
        // A slow attempt is left alone, because a new claim would cancel it.
        let patience = if state == State::Asked { 1 } else { 10 };
        let overdue = cx.now + cx.response_timeout.saturating_mul(patience);
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

    /// It broke or failed.
    pub(crate) fn ends(&mut self, cx: &mut Context, of: Channel, cause: &Failure) {
        if cx.closed {
            return;
        }
        if self.state == State::On && cx.now.time_since(self.since) >= cx.claim_window {
            self.failures = 0;
        }
        let forever = matches!(FailureClass::of(cause.clone()), FailureClass::Fatal(_));
        self.state = if forever { State::Polling } else { State::Broken };
        let again = (!forever).then(|| {
            let backoff = cx.backoff(self.failures, cx.response_timeout);
            self.failures = self.failures.saturating_add(1);
            cx.now + backoff
        });
        cx.timers.set(Timer::Subscription(of), &mut self.timer, again);
    }

    /// The timer fired: the attempt is overdue, or a retry is due. True if waiters may join the queue from now on.
    pub(crate) fn due(&mut self, cx: &mut Context, of: Channel, channel: &str) -> bool {
        cx.timers.set(Timer::Subscription(of), &mut self.timer, None);
        match self.state {
            State::Asked => {
                self.state = State::Late;
                let again = cx.now + cx.response_timeout.saturating_mul(9);
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

    /// No caller waits any more.
    pub(crate) fn unsubscribe(&mut self, cx: &mut Context, of: Channel, channel: &str) {
        if !matches!(self.state, State::Off | State::Polling) {
            cx.outputs.push_back(Output::Unsubscribe { node: NODE, channel: channel.into() });
        }
        cx.timers.set(Timer::Subscription(of), &mut self.timer, None);
        *self = Self::new();
    }
}

impl Context {
    /// Subscribes to the client's own channel, because other clients may have something to say.
    pub(crate) fn listen(&mut self) {
        if self.subscription.is_off() {
            self.with_own(|own, cx, channel| own.want(cx, Channel::Own, channel));
        }
    }

    /// Runs `act` on the subscription to the client's own channel.
    pub(crate) fn with_own<R>(&mut self, act: impl FnOnce(&mut Subscription, &mut Self, &str) -> R) -> R {
        let mut own = self.subscription;
        let channel = self.channel();
        let result = act(&mut own, self, &channel);
        self.subscription = own;
        result
    }

    /// The pause before the next attempt: 20 ms, doubled with each failure, at most `most`, with jitter.
    pub(crate) fn backoff(&mut self, failures: u32, most: Duration) -> Duration {
        let wait = Duration::from_millis(20).saturating_mul(1 << failures.min(10));
        self.random.jitter(wait.min(most))
    }
}
