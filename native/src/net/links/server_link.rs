//! The connection for commands to one server: it tracks the calls in flight and reconnects after a break.
//!
//! ```text
//! Up --a call broke or timed out--> Down --next command, after a pause--> Connecting --ok--> Up
//!                                     ^--------------------------------------- failed ---'
//! ```
//!
//! Nothing is ever sent twice here. The engine learns that a call broke, and decides what to do.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_core::{CallId, Failure, Reply};
use redis::{Cmd, RedisResult, Value};
use tokio::time::Instant;

use crate::errors::{connect_failure, is_demoted};
use crate::net::connection::{Connection, reply_within};
use crate::net::topology::Endpoint;

/// The result of a command.
pub(crate) type Answer = (CallId, Result<Reply, Failure>);

/// The pause after a failed attempt to connect. It doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The maximum of replies to process in one turn of the driver.
const ANSWERS_A_TURN: usize = 256;

pub(crate) struct ServerLink {
    /// Where to reconnect. None if the user provided the connection.
    endpoint: Option<Endpoint>,
    response_timeout: Duration,
    state: State,
    /// Resolves when another server has become the primary.
    switched: Option<BoxFuture<'static, ()>>,
    calls: FuturesUnordered<BoxFuture<'static, Ended>>,
    /// Answers that need no server.
    ready: Vec<Answer>,
    /// The number of the connection, so that a late failure of an old connection doesn't close the new one.
    generation: u64,
    /// Replies from connections with a smaller number are discarded, because another server is the primary now.
    trusted: u64,
}

const REPLACED: &str = "another server is the primary now";

enum State {
    Up(Connection),
    Connecting { attempt: BoxFuture<'static, RedisResult<Connection>>, queue: Vec<Queued>, failures: u32 },
    Down { failures: u32, retry_at: Instant, why: Failure },
}

/// How to send a command.
#[derive(Clone, Copy)]
pub(super) enum Way {
    Plain,
    /// Behind an `ASKING`.
    Asking,
}

type Queued = (CallId, Cmd, Way);

struct Ended {
    generation: u64,
    answer: Answer,
}

impl ServerLink {
    pub(super) fn new(connection: Connection, endpoint: Option<Endpoint>, response_timeout: Duration) -> Self {
        let switched = endpoint.as_ref().and_then(Endpoint::switched);
        Self {
            endpoint,
            response_timeout,
            state: State::Up(connection),
            switched,
            calls: FuturesUnordered::new(),
            ready: Vec::new(),
            generation: 0,
            trusted: 0,
        }
    }

    /// A link that connects when the first command is sent.
    pub(super) fn unconnected(endpoint: Endpoint, response_timeout: Duration) -> Self {
        let why = Failure::Unavailable("not connected yet".to_owned());
        Self {
            endpoint: Some(endpoint),
            response_timeout,
            state: State::Down { failures: 0, retry_at: Instant::now(), why },
            switched: None,
            calls: FuturesUnordered::new(),
            ready: Vec::new(),
            generation: 0,
            trusted: 0,
        }
    }

    /// Sends a command, or queues it while connecting. [`poll_answers`](Self::poll_answers) returns its result.
    pub(super) fn send(&mut self, call: CallId, cmd: Cmd, way: Way) {
        match &mut self.state {
            State::Up(connection) => {
                let answer = match way {
                    Way::Plain => connection.run(cmd),
                    Way::Asking => connection.run_asking(cmd),
                };
                self.calls.push(Box::pin(ended(self.generation, call, answer, self.response_timeout)));
            }
            State::Connecting { queue, .. } => queue.push((call, cmd, way)),
            State::Down { retry_at, why, .. } if Instant::now() < *retry_at => {
                self.ready.push((call, Err(why.clone())))
            }
            State::Down { failures, .. } => {
                let failures = *failures;
                self.connect(failures, (call, cmd, way));
            }
        }
    }

    /// Whether no command is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.calls.is_empty() && self.ready.is_empty() && !matches!(self.state, State::Connecting { .. })
    }

    /// Appends new results to `answers`. Ready if there is at least one.
    pub(super) fn poll_answers(&mut self, context: &mut Context<'_>, answers: &mut Vec<Answer>) -> Poll<()> {
        self.poll_connecting(context);
        self.poll_switched(context);
        answers.append(&mut self.ready);
        while answers.len() < ANSWERS_A_TURN {
            let Poll::Ready(Some(Ended { generation, mut answer })) = self.calls.poll_next_unpin(context) else {
                break;
            };
            if generation < self.trusted {
                answer.1 = Err(Failure::Interrupted(REPLACED.to_owned()));
            }
            if let Err(failure) = &answer.1 {
                tracing::debug!(call = answer.0.0, %failure, "command failed");
                if (failure.maybe_applied() || is_demoted(failure)) && generation == self.generation {
                    self.lose_connection(failure.clone());
                }
            }
            answers.push(answer);
        }
        if answers.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }

    fn poll_connecting(&mut self, context: &mut Context<'_>) {
        let State::Connecting { attempt, queue, failures } = &mut self.state else { return };
        let Poll::Ready(attempt) = attempt.as_mut().poll(context) else { return };
        let queue = mem::take(queue);
        match attempt {
            Ok(connection) => {
                tracing::info!("connected to the server");
                self.generation += 1;
                self.state = State::Up(connection);
                self.switched = self.endpoint.as_ref().and_then(Endpoint::switched);
                self.poll_switched(context);
                for (call, cmd, way) in queue {
                    self.send(call, cmd, way);
                }
            }
            Err(error) => {
                let why = connect_failure(&error);
                let pause = FIRST_PAUSE.saturating_mul(1 << (*failures).min(5)).min(LONGEST_PAUSE);
                tracing::warn!(%error, "can't connect to the server");
                self.ready.extend(queue.into_iter().map(|(call, ..)| (call, Err(why.clone()))));
                self.state = State::Down { failures: *failures + 1, retry_at: Instant::now() + pause, why };
            }
        }
    }

    fn poll_switched(&mut self, context: &mut Context<'_>) {
        if let Some(switched) = &mut self.switched
            && switched.as_mut().poll(context).is_ready()
        {
            self.switched = None;
            self.lose_connection(Failure::Interrupted(REPLACED.to_owned()));
            self.generation += 1;
            self.trusted = self.generation;
        }
    }

    /// Drops the connection. The next command reconnects. A connection that the user provided is kept.
    fn lose_connection(&mut self, why: Failure) {
        if self.endpoint.is_none() || !matches!(self.state, State::Up(_)) {
            return;
        }
        tracing::warn!(%why, "connection to the server lost");
        // Without a pause, a demoted server would be connected to in a tight loop.
        let pause = if is_demoted(&why) { LONGEST_PAUSE } else { Duration::ZERO };
        self.state = State::Down { failures: 0, retry_at: Instant::now() + pause, why };
    }

    fn connect(&mut self, failures: u32, first: Queued) {
        let Some(endpoint) = self.endpoint.clone() else {
            let why = Failure::Unavailable("this connection can't be made again".to_owned());
            return self.ready.push((first.0, Err(why)));
        };
        let attempt =
            Box::pin(async move { endpoint.connect().await.map(|connection| Arc::new(connection) as Connection) });
        self.state = State::Connecting { attempt, queue: vec![first], failures };
    }
}

async fn ended(
    generation: u64,
    call: CallId,
    answer: BoxFuture<'static, RedisResult<Value>>,
    response_timeout: Duration,
) -> Ended {
    Ended { generation, answer: (call, reply_within(response_timeout, answer).await) }
}
