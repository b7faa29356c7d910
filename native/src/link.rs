//! The connection that commands go over: calls in flight, and connecting again after a break.
//!
//! ```text
//! Up --a call broke or timed out--> Down --a command, not too early--> Connecting --ok--> Up
//!                                     ^------------------------------------ failed ---'
//! ```
//! Nothing is ever sent twice here: a call that broke is told as such, and the engine decides.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_core::{CallId, Command, Failure, Reply};
use redis::aio::ConnectionLike;
use redis::{Cmd, RedisResult, Value};
use tokio::time::{Instant, timeout};

use crate::endpoint::Endpoint;
use crate::wire;

/// The end of a command.
pub(crate) type Answer = (CallId, Result<Reply, Failure>);

/// After a failed attempt to connect no other is made for this long, doubled with each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// At most so many answers are taken in one turn of the driver.
const ANSWERS_A_TURN: usize = 256;

/// A connection of any kind, behind one pointer.
pub(crate) type Connection = Arc<dyn Commands>;

/// Anything that runs commands.
pub(crate) trait Commands: Send + Sync {
    fn run(&self, cmd: Cmd) -> BoxFuture<'static, RedisResult<Value>>;
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Commands for C {
    fn run(&self, cmd: Cmd) -> BoxFuture<'static, RedisResult<Value>> {
        let mut connection = self.clone();
        Box::pin(async move { connection.req_packed_command(&cmd).await })
    }
}

pub(crate) struct Link {
    /// Where to connect again; none if the connection is the user's.
    endpoint: Option<Endpoint>,
    response_timeout: Duration,
    state: State,
    calls: FuturesUnordered<BoxFuture<'static, Ended>>,
    /// Answers that are known without a server.
    ready: Vec<Answer>,
    /// Counts the connections, so that an old one's last words don't end the new one.
    generation: u64,
}

enum State {
    Up(Connection),
    Connecting { attempt: BoxFuture<'static, RedisResult<Connection>>, queue: Vec<(CallId, Command)>, failures: u32 },
    Down { failures: u32, retry_at: Instant, why: Failure },
}

struct Ended {
    generation: u64,
    answer: Answer,
}

impl Link {
    pub(crate) fn new(connection: Connection, endpoint: Option<Endpoint>, response_timeout: Duration) -> Self {
        Self {
            endpoint,
            response_timeout,
            state: State::Up(connection),
            calls: FuturesUnordered::new(),
            ready: Vec::new(),
            generation: 0,
        }
    }

    /// Sends a command, or queues it while connecting. Its end comes out of [`poll_answers`](Self::poll_answers).
    pub(crate) fn send(&mut self, call: CallId, command: Command) {
        match &mut self.state {
            State::Up(connection) => {
                let answer = connection.run(wire::command(&command));
                self.calls.push(Box::pin(ended(self.generation, call, answer, self.response_timeout)));
            }
            State::Connecting { queue, .. } => queue.push((call, command)),
            State::Down { retry_at, why, .. } if Instant::now() < *retry_at => {
                self.ready.push((call, Err(why.clone())))
            }
            State::Down { failures, .. } => {
                let failures = *failures;
                self.connect(failures, (call, command));
            }
        }
    }

    /// Puts the answers that have come into `answers`; ready if there is at least one.
    pub(crate) fn poll_answers(&mut self, context: &mut Context<'_>, answers: &mut Vec<Answer>) -> Poll<()> {
        self.poll_connecting(context);
        answers.append(&mut self.ready);
        while answers.len() < ANSWERS_A_TURN {
            let Poll::Ready(Some(Ended { generation, answer })) = self.calls.poll_next_unpin(context) else { break };
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
                tracing::info!("connected to the server again");
                self.generation += 1;
                self.state = State::Up(connection);
                for (call, command) in queue {
                    self.send(call, command);
                }
            }
            Err(error) => {
                let why = wire::connect_failure(&error);
                let pause = FIRST_PAUSE.saturating_mul(1 << (*failures).min(5)).min(LONGEST_PAUSE);
                tracing::warn!(%error, "can't connect to the server");
                self.ready.extend(queue.into_iter().map(|(call, _)| (call, Err(why.clone()))));
                self.state = State::Down { failures: *failures + 1, retry_at: Instant::now() + pause, why };
            }
        }
    }

    /// The next command connects again. A connection that the user brought is kept: its own affair.
    fn lose_connection(&mut self, why: Failure) {
        if self.endpoint.is_none() || !matches!(self.state, State::Up(_)) {
            return;
        }
        tracing::warn!(%why, "connection to the server lost");
        // A demoted server would otherwise be connected to again and again.
        let pause = if is_demoted(&why) { LONGEST_PAUSE } else { Duration::ZERO };
        self.state = State::Down { failures: 0, retry_at: Instant::now() + pause, why };
    }

    fn connect(&mut self, failures: u32, first: (CallId, Command)) {
        let Some(endpoint) = self.endpoint.clone() else {
            let why = Failure::Unavailable("this connection can't be made again".to_owned());
            return self.ready.push((first.0, Err(why)));
        };
        let attempt =
            Box::pin(async move { endpoint.connect().await.map(|connection| Arc::new(connection) as Connection) });
        self.state = State::Connecting { attempt, queue: vec![first], failures };
    }
}

/// The server is a replica now: the address may lead to the new primary, but only for a new connection.
fn is_demoted(failure: &Failure) -> bool {
    // Redis 6 wraps what a script ran into.
    matches!(failure, Failure::Refused(text) if text.contains("READONLY") || text.contains("MASTERDOWN"))
}

async fn ended(
    generation: u64,
    call: CallId,
    answer: BoxFuture<'static, RedisResult<Value>>,
    response_timeout: Duration,
) -> Ended {
    let answer = match timeout(response_timeout, answer).await {
        Ok(answer) => wire::result(answer),
        Err(_) => Err(Failure::TimedOut),
    };
    Ended { generation, answer: (call, answer) }
}
