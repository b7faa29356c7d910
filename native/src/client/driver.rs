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
use super::state::Actions;
use crate::net::{ChannelRequest, Completion, Endpoint, Link, run_subscriber};

pub(super) struct Driver {
    shared: Arc<Shared>,
    link: Link,
    /// Handles the channels. It passes messages to the engine directly.
    subscriber: BoxFuture<'static, ()>,
    channel_requests: UnboundedSender<ChannelRequest>,
}

/// Why the driver wakes up.
enum Wakeup {
    Notified,
    Completions,
    Timer,
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, link: Link, endpoint: Option<Endpoint>, response_timeout: Duration) -> Self {
        let (channel_requests, requests) = unbounded_channel();
        let engine = Arc::clone(&shared);
        let to_engine = move |event: Input<'_>| engine.handle(event);
        let subscriber = Box::pin(run_subscriber(to_engine, endpoint, response_timeout, requests));
        Self { shared, link, subscriber, channel_requests }
    }

    /// Runs until the engine is closed.
    pub(super) async fn run(mut self) {
        let _stop = StopOnDrop(Arc::clone(&self.shared));
        let mut actions = Actions::default();
        let mut completions = Vec::new();
        let mut timer = Timer::new();
        self.shared.drive(&mut actions, |_, _| {});
        while !actions.closed {
            self.perform(&mut actions);
            timer.set(actions.wake_at);
            let wakeup = self.next_wakeup(&mut completions, &mut timer).await;
            self.shared.drive(&mut actions, |engine, now| match wakeup {
                Wakeup::Notified => {}
                Wakeup::Completions => {
                    for Completion { call, result } in completions.drain(..) {
                        engine.handle(now, Input::Reply { call, result });
                    }
                }
                Wakeup::Timer => engine.handle(now, Input::Wake),
            });
        }
    }

    fn perform(&mut self, actions: &mut Actions) {
        for (node, call, command) in actions.commands.drain(..) {
            self.link.send(node, call, command);
        }
        for request in actions.channel_requests.drain(..) {
            // The receiver belongs to `self.subscriber`, so sending can't fail.
            let _ = self.channel_requests.send(request);
        }
    }

    async fn next_wakeup(&mut self, completions: &mut Vec<Completion>, timer: &mut Timer) -> Wakeup {
        let Self { shared, link, subscriber, .. } = self;
        tokio::select! {
            () = timer.sleep() => Wakeup::Timer,
            () = poll_fn(|context| link.poll_completions(context, completions)) => Wakeup::Completions,
            () = &mut *subscriber => Wakeup::Notified,
            () = shared.driver_wakeup.notified() => Wakeup::Notified,
        }
    }
}

/// Fails pending and future operations when the driver stops, even if the runtime drops the task.
struct StopOnDrop(Arc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The driver reads the clock at least this often. Timers stop while the machine is suspended, but leases don't.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// Sleeps until the engine wants to be woken. If that moves to a later time, the timer is not changed: the engine may be
/// woken early.
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
        let wake_at = wake_at.min(now + MAX_SLEEP);
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
