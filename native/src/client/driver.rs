//! The task that drives a client: it sends commands that travel together, delivers messages, and wakes the engine on time.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold_core::{Input, Instant};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::Sleep;

use super::clock::Clock;
use super::pump::Pump;
use super::shared::Shared;
use crate::net::{Link, Origin};

pub(super) struct Driver {
    shared: Arc<Shared>,
    /// Handles the channels. It passes messages to the engine directly.
    subscriber: BoxFuture<'static, ()>,
    /// It is here, and not in `run`, because a runtime that ends can drop the task before its first poll.
    _stop: StopOnDrop,
}

/// Why the driver wakes up.
enum Wakeup {
    Event,
    Timer,
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, link: Link, origin: Origin, response_timeout: Duration) -> Self {
        let (channel_requests, requests) = unbounded_channel();
        shared.open(Pump::new(link, origin.endpoint(), channel_requests));
        let engine = Arc::clone(&shared);
        let to_engine = move |event: Input<'_>| engine.handle(event);
        let subscriber = origin.subscriber(to_engine, response_timeout, requests);
        let stop = StopOnDrop(Arc::clone(&shared));
        Self { shared, subscriber, _stop: stop }
    }

    /// Runs until the engine is closed.
    pub(super) async fn run(mut self) {
        let mut timer = Timer::new(self.shared.clock.clone());
        let mut input = None;
        while let Some(wake_at) = self.shared.drive(input) {
            let wakeup = if wake_at.is_some_and(|at| at <= self.shared.clock.now()) {
                // The engine waits for the calls of other tasks, so that their commands leave together.
                tokio::task::yield_now().await;
                Wakeup::Timer
            } else {
                timer.set(wake_at);
                self.next_wakeup(&mut timer).await
            };
            input = matches!(wakeup, Wakeup::Timer).then_some(Input::Wake);
        }
    }

    /// Takes what has arrived before the timer, because the timer may be late.
    async fn next_wakeup(&mut self, timer: &mut Timer) -> Wakeup {
        let Self { shared, subscriber, .. } = self;
        tokio::select! {
            biased;
            () = &mut *subscriber => Wakeup::Event,
            () = shared.driver_wakeup.notified() => Wakeup::Event,
            () = timer.sleep() => Wakeup::Timer,
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
    clock: Clock,
    sleep: std::pin::Pin<Box<Sleep>>,
    at: Option<Instant>,
}

impl Timer {
    fn new(clock: Clock) -> Self {
        Self { clock, sleep: Box::pin(tokio::time::sleep(Duration::ZERO)), at: None }
    }

    fn set(&mut self, wake_at: Option<Instant>) {
        let Some(wake_at) = wake_at else { return };
        let now = self.clock.now();
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
