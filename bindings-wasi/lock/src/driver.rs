//! The task that drives a manager: it sends commands, passes on answers and messages, and keeps the time.

use alloc::borrow::ToOwned;
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
use leasehold_core::{Command, CommandId, Failure, Input, Instant, NodeId};

use crate::limits::{self, Taken};
use crate::server::Server;
use crate::shared::Shared;
use crate::state::Table;
use crate::subscription::{self, NODE};
use crate::timer::Timer;
use crate::wire;

/// After this many commands and answers, the driver lets the other tasks of the instance run. Otherwise it would never
/// pause under a load that it can't keep up with, and no call would end.
const AT_A_TIME: usize = 64;

struct Driver {
    shared: Rc<Shared>,
    servers: Vec<Rc<Server>>,
    /// Commands, each of which tells the engine its own answer, and attempts to connect.
    tasks: FuturesUnordered<LocalBoxFuture<'static, ()>>,
    overdue: Rc<RefCell<Overdue>>,
    subscriptions: Vec<(Rc<str>, LocalBoxFuture<'static, Failure>)>,
    timer: Timer,
}

/// Runs until the engine is closed. `limit` is the time for one command's answer. The manager counts as one until then.
pub(crate) async fn run(shared: Rc<Shared>, servers: Vec<Rc<Server>>, limit: Duration, _counted: Taken) {
    let _end = End(Rc::clone(&shared));
    let mut driver = Driver {
        shared,
        servers,
        tasks: FuturesUnordered::new(),
        overdue: Rc::new(RefCell::new(Overdue::new(limit))),
        subscriptions: Vec::new(),
        timer: Timer::default(),
    };
    poll_fn(|context| driver.poll(context)).await;
}

impl Driver {
    /// One wake-up: takes in what happened and does the work, until there is nothing left or it is the other tasks'
    /// turn.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut done = 0;
        while done < AT_A_TIME {
            let (now, work) = self.shared.take_work();
            if work.closed {
                return Poll::Ready(());
            }
            let sent = work.sends.len();
            for (node, id, command) in work.sends {
                self.send(now, node, id, &command);
            }
            for (channel, wanted) in work.subscriptions {
                self.subscribe(channel, wanted);
            }
            self.overdue.borrow_mut().drop_late(now);
            self.timer.set(now, work.wake_at);
            // Plus one for each command that was sent, because each has an answer to come.
            let Some(taken) = self.take_in(context, AT_A_TIME + sent) else {
                self.shared.park(context.waker().clone());
                return Poll::Pending;
            };
            done += 1 + sent + taken;
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Tells the engine what happened. Returns how many commands have ended, at most `most`. None if nothing happened.
    fn take_in(&mut self, context: &mut Context<'_>, most: usize) -> Option<usize> {
        let mut ended = 0;
        while ended < most
            && let Poll::Ready(Some(())) = self.tasks.poll_next_unpin(context)
        {
            ended += 1;
        }
        let mut happened = ended > 0;
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
        (happened || self.shared.needs_driver()).then_some(ended)
    }

    fn send(&mut self, now: Instant, node: NodeId, id: CommandId, command: &Command) {
        let Some(server) = self.servers.get(usize::from(node.0)) else { return };
        let endpoint = match server.endpoint() {
            Ok(endpoint) => endpoint,
            Err(failure) => {
                let server = Rc::clone(server);
                self.tasks.push(Box::pin(async move { drop(server.connect().await) }));
                return self.shared.tell(Input::Reply { id, result: Err(failure) });
            }
        };
        let words = wire::command(command);
        let Some(taken) = limits::command(words.iter().map(Vec::len).sum()) else {
            let failure = Failure::Unavailable("too many commands are under way in this instance".to_owned());
            return self.shared.tell(Input::Reply { id, result: Err(failure) });
        };
        let (shared, overdue) = (Rc::clone(&self.shared), Rc::clone(&self.overdue));
        let (abort, registration) = AbortHandle::new_pair();
        overdue.borrow_mut().sent(now, id, abort);
        self.tasks.push(Box::pin(async move {
            let answer = Abortable::new(endpoint.call(words), registration).await;
            drop(taken);
            let result = answer.map_or(Err(Failure::TimedOut), wire::result);
            overdue.borrow_mut().ended(id);
            shared.tell(Input::Reply { id, result });
        }));
    }

    fn subscribe(&mut self, channel: String, wanted: bool) {
        // The old one is dropped first, because an endpoint may have no room for two.
        self.subscriptions.retain(|(other, _)| **other != *channel);
        let endpoint = self.servers.first().and_then(|server| server.endpoint().ok());
        if let Some(endpoint) = endpoint.filter(|_| wanted) {
            let shared = Rc::clone(&self.shared);
            let channel: Rc<str> = channel.into();
            let subscription = subscription::run(shared, endpoint, Rc::clone(&channel)).boxed_local();
            self.subscriptions.push((channel, subscription));
        }
    }
}

/// Commands without an answer, in the order in which they were sent. Bounds the memory that a silent provider costs.
struct Overdue {
    limit: Duration,
    sent: VecDeque<(Instant, CommandId)>,
    open: Table<CommandId, AbortHandle>,
}

impl Overdue {
    fn new(limit: Duration) -> Self {
        Self { limit, sent: VecDeque::new(), open: Table::default() }
    }

    fn sent(&mut self, now: Instant, id: CommandId, abort: AbortHandle) {
        self.sent.push_back((now, id));
        self.open.insert(id, abort);
    }

    fn ended(&mut self, id: CommandId) {
        self.open.remove(&id);
        while self.sent.front().is_some_and(|(_, id)| !self.open.contains_key(id)) {
            self.sent.pop_front();
        }
    }

    /// Drops the commands that the engine has given up as well.
    fn drop_late(&mut self, now: Instant) {
        // The engine counts from a moment before the command was sent.
        let slack = Duration::from_millis(5);
        while let Some((sent, id)) = self.sent.front()
            && *sent + self.limit <= now + slack
        {
            if let Some(abort) = self.open.remove(id) {
                abort.abort();
            }
            self.sent.pop_front();
        }
    }
}

/// Reports that the driver has stopped, even if its task is dropped.
struct End(Rc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}
