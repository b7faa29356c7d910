//! The task that drives a manager: it sends commands, brings answers and messages, and keeps the time.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use core::cell::RefCell;
use core::future::poll_fn;
use core::task::{Context, Poll};
use core::time::Duration;

use futures_util::future::{AbortHandle, Abortable, FutureExt, LocalBoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_core::{CallId, Command, Failure, Input, Instant};

use crate::bindings::leasehold::lock::connection::Endpoint;
use crate::shared::Shared;
use crate::state::Table;
use crate::subscription::{self, NODE};
use crate::timer::Timer;
use crate::wire;

struct Driver {
    shared: Rc<Shared>,
    endpoint: Rc<Endpoint>,
    /// Each tells the engine its answer by itself.
    calls: FuturesUnordered<LocalBoxFuture<'static, ()>>,
    overdue: Rc<RefCell<Overdue>>,
    subscriptions: Vec<(Rc<str>, LocalBoxFuture<'static, Failure>)>,
    timer: Timer,
}

/// Runs until the engine is closed.
pub(crate) async fn run(shared: Rc<Shared>, endpoint: Endpoint, response_timeout: Duration) {
    let _end = End(Rc::clone(&shared));
    let mut driver = Driver {
        shared,
        endpoint: Rc::new(endpoint),
        calls: FuturesUnordered::new(),
        overdue: Rc::new(RefCell::new(Overdue::new(response_timeout))),
        subscriptions: Vec::new(),
        timer: Timer::default(),
    };
    poll_fn(|context| driver.poll(context)).await;
}

impl Driver {
    /// One wake-up: takes in what happened and does what there is to do, until nothing is left of either.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let (now, work) = self.shared.take_work();
            if work.closed {
                return Poll::Ready(());
            }
            for (call, command) in work.sends {
                self.send(now, call, &command);
            }
            for (channel, wanted) in work.subscriptions {
                self.subscribe(channel, wanted);
            }
            self.overdue.borrow_mut().drop_late(now);
            self.timer.set(now, work.wake_at);
            if !self.take_in(context) {
                self.shared.park(context.waker().clone());
                return Poll::Pending;
            }
        }
    }

    /// Tells the engine what happened. True if anything did.
    fn take_in(&mut self, context: &mut Context<'_>) -> bool {
        let mut happened = false;
        while let Poll::Ready(Some(())) = self.calls.poll_next_unpin(context) {
            happened = true;
        }
        let shared = &self.shared;
        self.subscriptions.retain_mut(|(channel, subscription)| {
            let Poll::Ready(cause) = subscription.as_mut().poll(context) else { return true };
            shared.tell(Input::Unsubscribed { node: NODE, channel, cause });
            happened = true;
            false
        });
        if self.timer.poll(context) {
            self.shared.tell(Input::Wake);
            happened = true;
        }
        happened || self.shared.needs_driver()
    }

    fn send(&mut self, now: Instant, call: CallId, command: &Command) {
        let (shared, endpoint, overdue) =
            (Rc::clone(&self.shared), Rc::clone(&self.endpoint), Rc::clone(&self.overdue));
        let words = wire::command(command);
        let (abort, registration) = AbortHandle::new_pair();
        overdue.borrow_mut().sent(now, call, abort);
        self.calls.push(Box::pin(async move {
            let answer = Abortable::new(endpoint.call(words), registration).await;
            let result = answer.map_or(Err(Failure::TimedOut), wire::result);
            overdue.borrow_mut().ended(call);
            shared.tell(Input::Reply { call, result });
        }));
    }

    fn subscribe(&mut self, channel: String, wanted: bool) {
        // An old one is dropped first: an endpoint may have no room for two.
        self.subscriptions.retain(|(other, _)| **other != *channel);
        if wanted {
            let (shared, endpoint) = (Rc::clone(&self.shared), Rc::clone(&self.endpoint));
            let channel: Rc<str> = channel.into();
            let subscription = subscription::run(shared, endpoint, Rc::clone(&channel)).boxed_local();
            self.subscriptions.push((channel, subscription));
        }
    }
}

/// Commands that have no answer yet, in the order of their sending. A provider that never answers costs no memory.
struct Overdue {
    response_timeout: Duration,
    sent: VecDeque<(Instant, CallId)>,
    open: Table<CallId, AbortHandle>,
}

impl Overdue {
    fn new(response_timeout: Duration) -> Self {
        Self { response_timeout, sent: VecDeque::new(), open: Table::default() }
    }

    fn sent(&mut self, now: Instant, call: CallId, abort: AbortHandle) {
        self.sent.push_back((now, call));
        self.open.insert(call, abort);
    }

    fn ended(&mut self, call: CallId) {
        self.open.remove(&call);
        while self.sent.front().is_some_and(|(_, call)| !self.open.contains_key(call)) {
            self.sent.pop_front();
        }
    }

    /// Drops what the engine has given up as well.
    fn drop_late(&mut self, now: Instant) {
        // The engine counts from a moment before the sending.
        let slack = Duration::from_millis(5);
        while let Some((sent, call)) = self.sent.front()
            && *sent + self.response_timeout <= now + slack
        {
            if let Some(abort) = self.open.remove(call) {
                abort.abort();
            }
            self.sent.pop_front();
        }
    }
}

/// Tells whoever waits that nobody drives any more, also when the task is dropped.
struct End(Rc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}
