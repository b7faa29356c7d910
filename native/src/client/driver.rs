//! The task that drives a client: it sends commands, delivers replies and messages, and wakes the engine on time.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold_core::{Input, Instant};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::Sleep;

use super::clock;
use super::shared::Shared;
use super::state::Work;
use crate::net::{Answer, Endpoint, Link, Wish, run_subscriptions};

pub(super) struct Driver {
    shared: Arc<Shared>,
    link: Link,
    /// Handles the channels. It passes messages to the engine directly.
    subscriptions: BoxFuture<'static, ()>,
    wishes: UnboundedSender<Wish>,
}

/// Why the driver takes a turn.
enum Event {
    Rung,
    Answers,
    Time,
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, link: Link, endpoint: Option<Endpoint>, response_timeout: Duration) -> Self {
        let (wishes, wished) = unbounded_channel();
        let engine = Arc::clone(&shared);
        let tell_engine = move |event: Input<'_>| engine.tell(event);
        let subscriptions = run_subscriptions(tell_engine, endpoint, response_timeout, wished);
        Self { shared, link, subscriptions: Box::pin(subscriptions), wishes }
    }

    /// Runs until the engine is closed.
    pub(super) async fn run(mut self) {
        let _end = End(Arc::clone(&self.shared));
        let mut work = Work::default();
        let mut answers = Vec::new();
        let mut timer = Timer::new();
        self.shared.drive(&mut work, |_, _| {});
        while !work.closed {
            self.act(&mut work);
            timer.set(work.wake_at);
            let event = self.next_event(&mut answers, &mut timer).await;
            self.shared.drive(&mut work, |engine, now| match event {
                Event::Rung => {}
                Event::Answers => {
                    for (call, result) in answers.drain(..) {
                        engine.handle(now, Input::Reply { call, result });
                    }
                }
                Event::Time => engine.handle(now, Input::Wake),
            });
        }
    }

    fn act(&mut self, work: &mut Work) {
        for (node, call, command) in work.sends.drain(..) {
            self.link.send(node, call, command);
        }
        for wish in work.subscriptions.drain(..) {
            // The receiver belongs to `self.subscriptions`, so sending can't fail.
            let _ = self.wishes.send(wish);
        }
    }

    async fn next_event(&mut self, answers: &mut Vec<Answer>, timer: &mut Timer) -> Event {
        let Self { shared, link, subscriptions, .. } = self;
        tokio::select! {
            () = timer.sleep() => Event::Time,
            () = poll_fn(|context| link.poll_answers(context, answers)) => Event::Answers,
            () = &mut *subscriptions => Event::Rung,
            () = shared.bell.notified() => Event::Rung,
        }
    }
}

/// Fails pending and future calls when the driver stops, even if the runtime drops the task.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The longest time between two looks at the clock. Timers stop while the machine is suspended, but leases don't.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Sleeps until the engine wants to be woken. If the wake-up moves to a later time, the timer stays: waking early is fine.
struct Timer {
    sleep: std::pin::Pin<Box<Sleep>>,
    at: Option<Instant>,
}

impl Timer {
    fn new() -> Self {
        Self { sleep: Box::pin(tokio::time::sleep(Duration::ZERO)), at: None }
    }

    fn set(&mut self, wake_at: Option<Instant>) {
        let Some(wake_at) = wake_at else { return };
        let now = clock::now();
        let wake_at = wake_at.min(now + LONGEST_SLEEP);
        if self.at.is_none_or(|at| wake_at < at) {
            self.at = Some(wake_at);
            self.sleep.as_mut().reset(tokio::time::Instant::now() + wake_at.since(now));
        }
    }

    async fn sleep(&mut self) {
        if self.at.is_none() {
            return pending().await;
        }
        self.sleep.as_mut().await;
        self.at = None;
    }
}
