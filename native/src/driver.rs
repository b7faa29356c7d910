//! The task that drives a client: it sends commands, brings answers and messages, and keeps the time.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold_core::{Failure, Input, Instant, NodeId};
use tokio::time::Sleep;

use crate::clock;
use crate::endpoint::Endpoint;
use crate::link::{Answer, Connection, Link};
use crate::shared::Shared;
use crate::state::Work;
use crate::subscription;

pub(crate) struct Driver {
    shared: Arc<Shared>,
    link: Link,
    endpoint: Option<Endpoint>,
    response_timeout: Duration,
    subscription: Option<(NodeId, BoxFuture<'static, Failure>)>,
}

/// What made the driver take a turn.
enum Event {
    Rung,
    Answers,
    Unsubscribed(NodeId, Failure),
    Time,
}

impl Driver {
    pub(crate) fn new(
        shared: Arc<Shared>,
        connection: Connection,
        endpoint: Option<Endpoint>,
        response_timeout: Duration,
    ) -> Self {
        let link = Link::new(connection, endpoint.clone(), response_timeout);
        Self { shared, link, endpoint, response_timeout, subscription: None }
    }

    /// Runs until the engine is closed.
    pub(crate) async fn run(mut self) {
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
                Event::Unsubscribed(node, cause) => engine.handle(now, Input::Unsubscribed { node, cause }),
                Event::Time => engine.handle(now, Input::Wake),
            });
        }
    }

    fn act(&mut self, work: &mut Work) {
        for (call, command) in work.sends.drain(..) {
            self.link.send(call, command);
        }
        match work.subscription.take() {
            Some((node, Some(channel))) => {
                let (shared, endpoint) = (Arc::clone(&self.shared), self.endpoint.clone());
                let subscription = subscription::run(shared, endpoint, node, channel, self.response_timeout);
                self.subscription = Some((node, Box::pin(subscription)));
            }
            Some((_, None)) => self.subscription = None,
            None => {}
        }
    }

    async fn next_event(&mut self, answers: &mut Vec<Answer>, timer: &mut Timer) -> Event {
        let Self { shared, link, subscription, .. } = self;
        let event = tokio::select! {
            () = timer.sleep() => Event::Time,
            () = poll_fn(|context| link.poll_answers(context, answers)) => Event::Answers,
            event = ended(subscription) => event,
            () = shared.bell.notified() => Event::Rung,
        };
        if let Event::Unsubscribed(_, cause) = &event {
            match cause {
                Failure::Refused(_) => tracing::warn!(%cause, "subscription refused: waiters poll"),
                _ => tracing::info!(%cause, "no subscription"),
            }
            *subscription = None;
        }
        event
    }
}

async fn ended(subscription: &mut Option<(NodeId, BoxFuture<'static, Failure>)>) -> Event {
    match subscription {
        Some((node, subscription)) => Event::Unsubscribed(*node, subscription.await),
        None => pending().await,
    }
}

/// Tells whoever waits that nobody drives any more, also when the runtime drops the task.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Timers stand still while the machine is suspended, and leases don't: look at the clock at least this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Sleeps until the engine wants to be woken. A moment put off leaves the timer as it is: to wake early is legal.
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
