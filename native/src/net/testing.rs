//! A server in memory, for tests without Redis. Each command runs at once, on the functions of `leasehold-memory`.

use std::fmt;
use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold_core::{Failure, Input, Instant, NodeId};
use leasehold_memory::Server as Memory;
use redis::{Cmd, RedisResult, Value};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::codec;
use super::connection::{Connection, SharedConnection};
use super::pubsub::ChannelRequest;

/// A server in memory. Several managers can share it: [`manager`](Self::manager) makes them. A clone is the same server.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold::LossReason;
/// use leasehold::testing::Server;
///
/// let server = Server::new();
/// let locks = server.manager()?;
/// let lease = locks.mutex("report").acquire().await?;
/// server.expire("report")?;
/// assert_eq!(lease.lost().await, LossReason::Gone);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Server(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    server: Memory,
    subscriptions: Vec<Subscription>,
    stopped: bool,
    delay: Duration,
    drops_next_reply: bool,
}

/// One channel of one manager.
#[derive(Debug)]
struct Subscription {
    channel: String,
    events: UnboundedSender<Event>,
}

/// What a manager hears.
#[derive(Debug)]
enum Event {
    Message {
        channel: String,
        payload: Vec<u8>,
    },
    /// The server stopped. All subscriptions are gone.
    Stopped,
}

/// The time of a server in memory and of its managers.
///
/// It is tokio's time. So it stands still in a test with `#[tokio::test(start_paused = true)]`, and moves with
/// `tokio::time::advance` and with everything that waits. [`advance`](Self::advance) moves it ahead of tokio's.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Time>);

#[derive(Debug)]
struct Time {
    origin: tokio::time::Instant,
    /// How far it was moved ahead, in µs.
    ahead_us: AtomicU64,
    moved: Notify,
}

/// A fault was asked of a server that is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// The server's wall clock when it is made: a day of the year 2027. Fences are times, and must have as many digits as
/// those of today.
const EPOCH_US: u64 = 1_800_000_000_000_000;

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl Server {
    /// An empty server. It needs no runtime yet.
    pub fn new() -> Self {
        let state = State {
            server: Memory::default(),
            subscriptions: Vec::new(),
            stopped: false,
            delay: Duration::ZERO,
            drops_next_reply: false,
        };
        Self(Arc::new(Inner { clock: Clock::new(), state: Mutex::new(state) }))
    }

    /// Its clock, which its managers share.
    pub fn clock(&self) -> Clock {
        self.0.clock.clone()
    }

    /// Stops it, as a crash does. It keeps its data. Commands fail and subscriptions end, until [`start`](Self::start).
    pub fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        for Subscription { channel, events } in std::mem::take(&mut state.subscriptions) {
            state.server.unsubscribe(channel.as_bytes());
            let _ = events.send(Event::Stopped);
        }
    }

    /// Starts it again.
    pub fn start(&self) {
        self.lock().stopped = false;
    }

    /// Deletes all of its data.
    ///
    /// # Errors
    /// If it is stopped.
    pub fn flush(&self) -> Result<(), Stopped> {
        self.running()?.server.flush_all();
        Ok(())
    }

    /// Holds back every later reply for this time. Zero ends that.
    ///
    /// # Errors
    /// If it is stopped.
    pub fn delay(&self, time: Duration) -> Result<(), Stopped> {
        self.running()?.delay = time;
        Ok(())
    }

    /// Runs the next command, and loses its reply. The client waits for its response timeout.
    ///
    /// # Errors
    /// If it is stopped.
    pub fn drop_next_reply(&self) -> Result<(), Stopped> {
        self.running()?.drops_next_reply = true;
        Ok(())
    }

    /// Ends the time of a lock, as if nobody had renewed it. Its holder finds out at its next renewal. False if nobody
    /// holds it. A manager's `prefix` is part of the name.
    ///
    /// # Errors
    /// If it is stopped.
    pub fn expire(&self, name: &str) -> Result<bool, Stopped> {
        let mut state = self.running()?;
        let deleted = state.server.call(&[b"DEL", name.as_bytes()]);
        Ok(deleted == Ok(leasehold_memory::Answer::Int(1)))
    }

    fn running(&self) -> Result<MutexGuard<'_, State>, Stopped> {
        let state = self.lock();
        if state.stopped { Err(Stopped) } else { Ok(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have read the clock later and locked earlier.
        let _ = state.server.advance(self.0.clock.server_us());
        state
    }

    /// A connection for commands.
    pub(crate) fn connection(&self) -> SharedConnection {
        Arc::new(MemoryConnection(self.clone()))
    }

    /// What takes the place of [`run_subscriber`](super::pubsub::run_subscriber).
    pub(crate) async fn run_subscriber(
        self,
        to_engine: impl Fn(Input<'_>),
        mut requests: UnboundedReceiver<ChannelRequest>,
    ) {
        let (sender, mut events) = unbounded_channel();
        let (mut at, mut subscribed): (NodeId, Vec<String>) = (NodeId::default(), Vec::new());
        loop {
            let moved = self.0.clock.0.moved.notified();
            let requested = async {
                match requests.recv().await {
                    Some(request) => request,
                    None => pending().await,
                }
            };
            tokio::select! {
                request = requested => match request {
                    ChannelRequest::Subscribe { node, channel } => {
                        at = node;
                        let channel = channel.as_str();
                        if self.subscribe(channel, &sender) {
                            subscribed.push(channel.to_owned());
                            to_engine(Input::Subscribed { node, channel });
                        } else {
                            let cause = Failure::Unavailable(Stopped.to_string());
                            to_engine(Input::Unsubscribed { node, channel, cause });
                        }
                    }
                    ChannelRequest::Unsubscribe { channel } => {
                        subscribed.retain(|known| *known != channel);
                        self.unsubscribe(&channel, &sender);
                    }
                },
                Some(event) = events.recv() => match event {
                    Event::Message { channel, payload } => {
                        to_engine(Input::Message { node: at, channel: &channel, payload: &payload });
                    }
                    Event::Stopped => for channel in subscribed.drain(..) {
                        let cause = Failure::Interrupted(Stopped.to_string());
                        to_engine(Input::Unsubscribed { node: at, channel: &channel, cause });
                    },
                },
                () = moved => to_engine(Input::Wake),
            }
        }
    }

    fn subscribe(&self, channel: &str, events: &UnboundedSender<Event>) -> bool {
        let Ok(mut state) = self.running() else { return false };
        if !state.subscriptions.iter().any(|known| known.is(channel, events)) {
            state.server.subscribe(channel.as_bytes());
            state.subscriptions.push(Subscription { channel: channel.to_owned(), events: events.clone() });
        }
        true
    }

    fn unsubscribe(&self, channel: &str, events: &UnboundedSender<Event>) {
        let mut state = self.lock();
        let before = state.subscriptions.len();
        state.subscriptions.retain(|known| !known.is(channel, events));
        if state.subscriptions.len() < before {
            state.server.unsubscribe(channel.as_bytes());
        }
    }
}

impl State {
    /// Runs a command and delivers its messages.
    fn execute(&mut self, words: &[&[u8]]) -> Value {
        let reply = self.server.call(words);
        for message in self.server.take_published() {
            // The manager of a subscription may have ended.
            self.subscriptions.retain(|known| {
                if known.channel.as_bytes() != message.channel {
                    return true;
                }
                let (channel, payload) = (known.channel.clone(), message.payload.clone());
                let heard = known.events.send(Event::Message { channel, payload }).is_ok();
                if !heard {
                    self.server.unsubscribe(&message.channel);
                }
                heard
            });
        }
        match reply {
            Ok(answer) => codec::value(answer.into()),
            Err(refusal) => codec::error_value(refusal.text()),
        }
    }
}

impl Subscription {
    fn is(&self, channel: &str, events: &UnboundedSender<Event>) -> bool {
        self.channel == channel && self.events.same_channel(events)
    }
}

struct MemoryConnection(Server);

impl Connection for MemoryConnection {
    /// The command runs now, and its reply comes when the future is ready.
    fn run(&self, cmd: Cmd) -> BoxFuture<'static, RedisResult<Value>> {
        let mut state = self.0.lock();
        if state.stopped {
            let refused = io::Error::new(io::ErrorKind::ConnectionRefused, Stopped.to_string());
            return Box::pin(async { Err(refused.into()) });
        }
        let reply = state.execute(&codec::words(&cmd));
        let (delay, lost) = (state.delay, std::mem::take(&mut state.drops_next_reply));
        Box::pin(async move {
            if lost {
                return pending().await;
            }
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            Ok(reply)
        })
    }

    fn run_asking(&self, cmd: Cmd) -> BoxFuture<'static, RedisResult<Value>> {
        self.run(cmd)
    }
}

impl Clock {
    fn new() -> Self {
        Self(Arc::new(Time { origin: tokio::time::Instant::now(), ahead_us: AtomicU64::new(0), moved: Notify::new() }))
    }

    /// Moves the time forward at once. Leases expire and renewals are due as if this much time had passed. Timers of
    /// tokio don't notice, so in a test with a paused clock use `tokio::time::advance` instead.
    pub fn advance(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let _ =
            self.0.ahead_us.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |ahead| Some(ahead.saturating_add(us)));
        self.0.moved.notify_waiters();
    }

    /// The time since the clock was made.
    pub fn elapsed(&self) -> Duration {
        self.0.origin.elapsed() + Duration::from_micros(self.0.ahead_us.load(Ordering::SeqCst))
    }

    fn elapsed_us(&self) -> u64 {
        u64::try_from(self.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn server_us(&self) -> u64 {
        EPOCH_US.saturating_add(self.elapsed_us())
    }

    /// The time for an engine.
    pub(crate) fn now(&self) -> Instant {
        Instant::from_micros(self.elapsed_us())
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server in memory is stopped; call `start` first")
    }
}

impl std::error::Error for Stopped {}
