//! The task that drives a client: it sends commands, delivers replies and messages, and wakes the engine on time.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use core::time::Duration;

use futures_util::future::{AbortHandle, Abortable, FutureExt, LocalBoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_core::{Command, CommandId, Failure, Input, Instant, MOST_PAUSES, NodeId, Output, Table};
use wit_bindgen::StreamResult;

use super::shared::Shared;
use crate::bindings::leasehold::lock::connection::Endpoint;
use crate::calls::leave;
use crate::limits::{self, Permit};
use crate::net::{Server, codec};
use crate::time::{LATE, sleep};

/// After this many commands and replies, the driver lets the other tasks of the instance run. Otherwise it would never
/// pause under a load that it can't keep up with, and no call would end.
const MAX_PER_TURN: usize = 64;

/// How many messages to read at a time. A provider that always has more must not keep the other tasks from running.
const MAX_MESSAGES: usize = 16;

/// The server that the subscriptions are on: the only one, or the first one of a quorum.
const NODE: NodeId = NodeId(0);

struct Driver {
    shared: Rc<Shared>,
    servers: Vec<Rc<Server>>,
    /// Commands, each of which delivers its own reply, and attempts to connect.
    tasks: FuturesUnordered<LocalBoxFuture<'static, ()>>,
    overdue: Rc<RefCell<Overdue>>,
    subscriptions: Vec<Subscription>,
    timer: Timer,
}

/// Runs until the engine is closed, and leaves the calls that are still under way: cancelling them could block this instance. A
/// command may take `limit`. The manager counts until the engine is closed.
pub(super) async fn run(shared: Rc<Shared>, servers: Vec<Rc<Server>>, limit: Duration, permit: Permit) {
    let stop = StopOnDrop(Rc::clone(&shared));
    let mut driver = Driver {
        shared,
        servers,
        tasks: FuturesUnordered::new(),
        overdue: Rc::new(RefCell::new(Overdue::new(limit))),
        subscriptions: Vec::new(),
        timer: Timer::default(),
    };
    poll_fn(|context| driver.poll(context)).await;
    drop((stop, permit));
    while let Some(subscription) = driver.subscriptions.pop() {
        subscription.end();
    }
    driver.overdue.borrow_mut().abort(None);
    while driver.tasks.next().await.is_some() {}
}

impl Driver {
    /// Sends, and delivers what happened, until nothing is left or the other tasks should run.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut done = 0;
        while done < MAX_PER_TURN {
            let (now, outbox) = self.shared.take_outbox();
            if outbox.closed {
                return Poll::Ready(());
            }
            let sent = outbox.outputs.len();
            for output in outbox.outputs {
                match output {
                    Output::Send { id, node, command } => self.send(now, node, id, &command),
                    Output::Subscribe { node: _, channel } => self.subscribe(channel),
                    Output::Unsubscribe { node: _, channel } => self.unsubscribe(&channel),
                    // The contract has no call that waits for replicas. The others are not in the outbox.
                    _ => {}
                }
            }
            if self.timer.end_late(now) {
                self.overdue.borrow_mut().begin_again(now);
            }
            self.overdue.borrow_mut().abort(Some(now));
            self.timer.set(now, outbox.wake_at);
            // Every command that was just sent may have its reply already.
            let Some(replies) = self.deliver(context, MAX_PER_TURN + sent) else {
                self.shared.park_driver(context.waker().clone());
                return Poll::Pending;
            };
            done += 1 + sent + replies;
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Tells the engine what happened. Returns how many tasks ended, at most `max`. None if nothing happened.
    fn deliver(&mut self, context: &mut Context<'_>, max: usize) -> Option<usize> {
        let mut ended = 0;
        while ended < max
            && let Poll::Ready(Some(())) = self.tasks.poll_next_unpin(context)
        {
            ended += 1;
        }
        let mut happened = ended > 0;
        let shared = &self.shared;
        self.subscriptions.retain_mut(|Subscription { channel, future, .. }| {
            let Poll::Ready(cause) = future.as_mut().poll(context) else { return true };
            shared.handle(Input::Unsubscribed { node: NODE, channel, cause });
            happened = true;
            false
        });
        if self.timer.poll(context) {
            self.shared.handle(Input::Wake);
            happened = true;
        }
        (happened || self.shared.needs_driver()).then_some(ended)
    }

    fn send(&mut self, now: Instant, node: NodeId, id: CommandId, command: &Command) {
        let Some(server) = self.servers.get(usize::from(node.0)) else { return };
        let endpoint = match server.endpoint() {
            Ok(endpoint) => endpoint,
            Err(failure) => {
                let (server, shared) = (Rc::clone(server), Rc::clone(&self.shared));
                self.tasks.push(Box::pin(async move {
                    drop(server.connect().await);
                    shared.learn(&server);
                }));
                return self.shared.handle(Input::Reply { id, result: Err(failure) });
            }
        };
        let words = codec::words(command);
        let Some(permit) = limits::command_permit(words.iter().map(Vec::len).sum()) else {
            let failure = Failure::Unavailable("too many commands are under way in this instance".to_owned());
            return self.shared.handle(Input::Reply { id, result: Err(failure) });
        };
        let (shared, overdue) = (Rc::clone(&self.shared), Rc::clone(&self.overdue));
        let (abort, registration) = AbortHandle::new_pair();
        overdue.borrow_mut().add(now, id, abort);
        self.tasks.push(Box::pin(async move {
            let mut call = pin!(endpoint.call(words));
            let answer = Abortable::new(call.as_mut(), registration).await;
            let is_overdue = answer.is_err();
            let result = answer.map_or(Err(Failure::TimedOut), codec::result);
            overdue.borrow_mut().remove(id);
            shared.handle(Input::Reply { id, result });
            if is_overdue {
                leave(call).await;
            }
            drop(permit);
        }));
    }

    fn unsubscribe(&mut self, channel: &str) {
        if let Some(place) = self.subscriptions.iter().position(|other| *other.channel == *channel) {
            self.subscriptions.swap_remove(place).end();
        }
    }

    fn subscribe(&mut self, channel: String) {
        // An old subscription is dropped first, because an endpoint may have no room for two.
        self.unsubscribe(&channel);
        if let Some(endpoint) = self.servers.first().and_then(|server| server.endpoint().ok()) {
            self.subscriptions.push(Subscription::start(Rc::clone(&self.shared), endpoint, channel.into()));
        }
    }
}

/// Delivers the messages of a channel. Its future is why it ended, or why it failed.
struct Subscription {
    channel: Rc<str>,
    future: LocalBoxFuture<'static, Failure>,
    stage: Rc<Cell<Stage>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// The endpoint has not answered yet.
    Asked,
    Subscribed,
    Unwanted,
}

impl Subscription {
    fn start(shared: Rc<Shared>, endpoint: Rc<Endpoint>, channel: Rc<str>) -> Self {
        let stage = Rc::new(Cell::new(Stage::Asked));
        let future = run_subscription(shared, endpoint, Rc::clone(&channel), Rc::clone(&stage)).boxed_local();
        Self { channel, future, stage }
    }

    /// Ends it. A call that the endpoint has not answered is [left](leave).
    fn end(self) {
        if self.stage.replace(Stage::Unwanted) == Stage::Asked {
            wit_bindgen::spawn_local(leave(self.future));
        }
    }
}

async fn run_subscription(
    shared: Rc<Shared>,
    endpoint: Rc<Endpoint>,
    channel: Rc<str>,
    stage: Rc<Cell<Stage>>,
) -> Failure {
    let mut messages = match endpoint.subscribe(String::from(&*channel)).await {
        Ok(messages) => messages,
        Err(failure) => return codec::failure(failure),
    };
    let ended = || Failure::Interrupted("the stream of messages ended".to_owned());
    if stage.replace(Stage::Subscribed) == Stage::Unwanted {
        return ended();
    }
    shared.handle(Input::Subscribed { node: NODE, channel: &channel });
    loop {
        let (result, batch) = messages.read(Vec::with_capacity(MAX_MESSAGES)).await;
        for payload in &batch {
            shared.handle(Input::Message { node: NODE, channel: &channel, payload });
        }
        if !matches!(result, StreamResult::Complete(_)) {
            return ended();
        }
        wit_bindgen::yield_async().await;
    }
}

/// Gives up commands that have no reply within the response timeout.
///
/// The engine gives up such a command by itself, and needs no reply for it. But the call of the endpoint goes on. With a
/// provider that never answers, each such call would keep its memory and its part of the limit of commands, until no
/// command could be sent any more. So only some of them are [left](leave), and the others are cancelled.
struct Overdue {
    limit: Duration,
    /// When the time of each command began, and how often it began again. In the order in which they were sent. Some of
    /// them may have their replies already.
    sent: VecDeque<(Instant, CommandId, u8)>,
    unanswered: Table<CommandId, AbortHandle>,
}

impl Overdue {
    fn new(limit: Duration) -> Self {
        Self { limit, sent: VecDeque::new(), unanswered: Table::default() }
    }

    fn add(&mut self, now: Instant, id: CommandId, abort: AbortHandle) {
        self.sent.push_back((now, id, 0));
        self.unanswered.insert(id, abort);
    }

    fn remove(&mut self, id: CommandId) {
        self.unanswered.remove(&id);
        while self.sent.front().is_some_and(|(_, id, _)| !self.unanswered.contains_key(id)) {
            self.sent.pop_front();
        }
    }

    /// Restarts the time of each command, because this instance was paused and read no replies. At most as often as the
    /// engine does.
    fn begin_again(&mut self, now: Instant) {
        // Those that had this often enough are the oldest, so the order stays.
        for (sent, _, pauses) in self.sent.iter_mut().filter(|(.., pauses)| *pauses < MOST_PAUSES) {
            (*sent, *pauses) = (now, *pauses + 1);
        }
    }

    /// Gives up the commands that are overdue now, or all of them.
    fn abort(&mut self, now: Option<Instant>) {
        // The engine measures from the time of its output, which is a little earlier. Without this slack, the driver would
        // wake with the engine, find the command not yet overdue, and abort it only at its next wakeup.
        let slack = Duration::from_millis(5);
        while let Some((sent, id, _)) = self.sent.front()
            && now.is_none_or(|now| *sent + self.limit <= now + slack)
        {
            if let Some(abort) = self.unanswered.remove(id) {
                abort.abort();
            }
            self.sent.pop_front();
        }
    }
}

/// Fails pending and future operations when the driver stops, even if the host drops the task.
struct StopOnDrop(Rc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The driver reads the clock at least this often. Timers may stop while the machine is suspended, but leases don't.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// Sleeps until the engine wants to be woken. If that moves to a later time, the timer is not changed: the engine may be
/// woken early.
#[derive(Default)]
struct Timer {
    sleep: Option<(Instant, LocalBoxFuture<'static, ()>)>,
}

impl Timer {
    fn set(&mut self, now: Instant, wake_at: Option<Instant>) {
        let Some(wake_at) = wake_at else { return };
        let wake_at = wake_at.min(now + MAX_SLEEP);
        if self.sleep.as_ref().is_none_or(|(at, _)| wake_at < *at) {
            self.sleep = Some((wake_at, Box::pin(sleep(wake_at.since(now)))));
        }
    }

    /// Whether the timer is late, which shows that the instance was paused. If so, it is no longer set, so that one pause
    /// counts once.
    fn end_late(&mut self, now: Instant) -> bool {
        self.sleep.take_if(|(at, _)| now.since(*at) > LATE).is_some()
    }

    /// Whether the timer has fired. If so, it is no longer set.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let Some((_, sleep)) = &mut self.sleep else { return false };
        if Pin::new(sleep).poll(context).is_pending() {
            return false;
        }
        self.sleep = None;
        true
    }
}
