//! The connection for commands to one server: it tracks the commands in flight and reconnects after a break.
//!
//! ```text
//! Up --a command broke or timed out--> Down --next command, after a backoff--> Connecting --ok--> Up
//!                                        ^------------------------------------------ failed ---'
//! ```
//!
//! If the server was not ready when the manager was made, the link checks it whenever it connects, until the check has succeeded. No
//! command is sent before that, because it decides which counters of fences the commands have to name.
//!
//! A link never sends a command twice. The engine learns that a command broke, and decides what to do.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_core::{Abilities, CommandId, Failure, Reply};
use redis::{Cmd, RedisResult, Value};
use tokio::time::Instant;

use crate::errors::{connect_failure, is_demoted};
use crate::metrics;
use crate::net::codec;
use crate::net::connection::{LATE, SharedConnection};
use crate::net::topology::{Endpoint, Opening};

/// A command has ended.
pub(crate) struct Completion {
    pub(crate) id: CommandId,
    pub(crate) result: Result<Reply, Failure>,
}

/// The pause after a failed attempt to connect. It doubles with each failure.
const MIN_BACKOFF: Duration = Duration::from_millis(20);
const MAX_BACKOFF: Duration = Duration::from_millis(500);

/// How many completions one poll returns at most, so that the driver also does its other work.
const MAX_COMPLETIONS_PER_POLL: usize = 256;

const PRIMARY_CHANGED: &str = "another server is the primary now";

pub(crate) struct ServerLink {
    /// Where to reconnect. None if the user provided the connection.
    endpoint: Option<Endpoint>,
    /// How to connect and check the server. None once it is checked.
    opening: Option<Opening>,
    /// What the check has found, until somebody takes it.
    abilities: Option<Abilities>,
    response_timeout: Duration,
    state: State,
    /// Resolves when another server has become the primary.
    primary_changed: Option<BoxFuture<'static, ()>>,
    /// The command in flight that was sent while no other one was. It needs no allocation.
    alone: Option<InFlight>,
    in_flight: FuturesUnordered<InFlight>,
    /// Until when no command in flight is overdue. One time for all of them, because most are answered long before.
    overdue_at: Option<Instant>,
    /// Completions of commands that were never sent.
    unsent: Vec<Completion>,
    /// The number of the connection, 0 before the first one, so that a late failure of an old connection doesn't close the new one.
    generation: u64,
    /// Replies from connections with a smaller number are discarded, because another server is the primary now.
    oldest_trusted: u64,
}

enum State {
    Up(SharedConnection),
    Connecting { attempt: BoxFuture<'static, Result<Connected, Failure>>, queue: Vec<Queued>, failures: u32 },
    Down { failures: u32, retry_at: Instant, why: Failure },
}

/// A new connection, and what the server can do if it was checked.
type Connected = (SharedConnection, Option<Abilities>);

/// How to send a command.
#[derive(Clone, Copy)]
pub(super) enum SendMode {
    Plain,
    /// Behind an `ASKING`.
    AfterAsking,
}

type Queued = (CommandId, Cmd, SendMode);

/// A command whose reply is awaited. Its future ends with the reply, or when it has [expired](ServerLink::expire).
///
/// If the application has blocked the runtime or the machine has stalled, the reply may be in the socket already, or the
/// command may not have been sent. So a command that is found overdue too late gets the same time once more.
struct InFlight {
    generation: u64,
    id: CommandId,
    reply: BoxFuture<'static, RedisResult<Value>>,
    overdue_at: Instant,
    extended: bool,
    expired: bool,
    waker: Option<Waker>,
}

impl Future for InFlight {
    type Output = Finished;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Finished> {
        let result = match self.reply.as_mut().poll(context) {
            Poll::Ready(reply) => codec::decode(reply),
            Poll::Pending if self.expired => Err(Failure::TimedOut),
            Poll::Pending => {
                // The set of futures has one waker for each of them, which stays the same.
                self.waker.get_or_insert_with(|| context.waker().clone());
                return Poll::Pending;
            }
        };
        Poll::Ready(Finished { generation: self.generation, completion: Completion { id: self.id, result } })
    }
}

/// A command that has ended, and the number of its connection.
struct Finished {
    generation: u64,
    completion: Completion,
}

impl ServerLink {
    pub(super) fn new(connection: SharedConnection, endpoint: Option<Endpoint>, response_timeout: Duration) -> Self {
        let primary_changed = endpoint.as_ref().and_then(Endpoint::primary_changed);
        let link = Self::with_state(State::Up(connection), endpoint, response_timeout);
        Self { primary_changed, generation: 1, ..link }
    }

    /// A link that connects when the first command is sent.
    pub(super) fn unconnected(endpoint: Endpoint, response_timeout: Duration) -> Self {
        let why = Failure::Unavailable("not connected yet".to_owned());
        let state = State::Down { failures: 0, retry_at: Instant::now(), why };
        Self::with_state(state, Some(endpoint), response_timeout)
    }

    /// A link to a server that is checked before the first command is sent.
    pub(super) fn unchecked(opening: Opening, endpoint: Option<Endpoint>, response_timeout: Duration) -> Self {
        let why = Failure::Unavailable("not connected yet".to_owned());
        let state = State::Down { failures: 0, retry_at: Instant::now(), why };
        Self { opening: Some(opening), ..Self::with_state(state, endpoint, response_timeout) }
    }

    pub(super) fn take_abilities(&mut self) -> Option<Abilities> {
        self.abilities.take()
    }

    fn with_state(state: State, endpoint: Option<Endpoint>, response_timeout: Duration) -> Self {
        Self {
            endpoint,
            opening: None,
            abilities: None,
            response_timeout,
            state,
            primary_changed: None,
            alone: None,
            in_flight: FuturesUnordered::new(),
            overdue_at: None,
            unsent: Vec::new(),
            generation: 0,
            oldest_trusted: 0,
        }
    }

    /// Sends a command, or queues it while connecting. [`poll_completions`](Self::poll_completions) returns its result.
    pub(super) fn send(&mut self, id: CommandId, cmd: Cmd, mode: SendMode) {
        match &mut self.state {
            State::Up(connection) => {
                let reply = match mode {
                    SendMode::Plain => connection.run(cmd),
                    SendMode::AfterAsking => connection.run_asking(cmd),
                };
                let overdue_at = Instant::now() + self.response_timeout;
                self.overdue_at.get_or_insert(overdue_at);
                let (generation, extended, expired) = (self.generation, false, false);
                let command = InFlight { generation, id, reply, overdue_at, extended, expired, waker: None };
                if self.alone.is_none() && self.in_flight.is_empty() {
                    self.alone = Some(command);
                } else {
                    self.in_flight.push(command);
                }
            }
            State::Connecting { queue, .. } => queue.push((id, cmd, mode)),
            State::Down { retry_at, why, .. } if Instant::now() < *retry_at => {
                self.unsent.push(Completion { id, result: Err(why.clone()) });
            }
            State::Down { failures, .. } => {
                let failures = *failures;
                self.connect(failures, (id, cmd, mode));
            }
        }
    }

    /// Whether no command is in flight.
    pub(super) fn is_idle(&self) -> bool {
        let in_flight = self.alone.is_some() || !self.in_flight.is_empty();
        !in_flight && self.unsent.is_empty() && !matches!(self.state, State::Connecting { .. })
    }

    /// Whether it is connected, and nothing is in flight.
    pub(super) fn is_idle_and_up(&self) -> bool {
        matches!(self.state, State::Up(_)) && self.is_idle()
    }

    /// When to poll at the latest, because a command may be overdue then.
    pub(super) const fn poll_timeout(&self) -> Option<Instant> {
        self.overdue_at
    }

    /// Appends new completions. Ready if there is at least one.
    pub(super) fn poll_completions(
        &mut self,
        context: &mut Context<'_>,
        completions: &mut Vec<Completion>,
    ) -> Poll<()> {
        self.expire();
        self.poll_connecting(context);
        self.poll_primary_changed(context);
        completions.append(&mut self.unsent);
        if let Some(alone) = &mut self.alone
            && let Poll::Ready(finished) = Pin::new(alone).poll(context)
        {
            self.alone = None;
            self.finish(finished, completions);
        }
        loop {
            if completions.len() >= MAX_COMPLETIONS_PER_POLL {
                context.waker().wake_by_ref();
                break;
            }
            let Poll::Ready(Some(finished)) = self.in_flight.poll_next_unpin(context) else { break };
            self.finish(finished, completions);
        }
        if completions.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }

    fn finish(&mut self, Finished { generation, mut completion }: Finished, completions: &mut Vec<Completion>) {
        if generation < self.oldest_trusted {
            completion.result = Err(Failure::Interrupted(PRIMARY_CHANGED.to_owned()));
        }
        if let Err(failure) = &completion.result {
            tracing::debug!(id = completion.id.0, %failure, "command failed");
            if (failure.maybe_applied() || is_demoted(failure)) && generation == self.generation {
                self.drop_connection(failure.clone());
            }
        }
        completions.push(completion);
    }

    /// Ends the commands that are overdue.
    fn expire(&mut self) {
        if self.overdue_at.is_none() {
            return;
        }
        let now = Instant::now();
        if self.overdue_at.is_some_and(|at| at > now) {
            return;
        }
        let mut next: Option<Instant> = None;
        let commands = self.alone.iter_mut().chain(self.in_flight.iter_mut());
        for command in commands.filter(|command| !command.expired) {
            if command.overdue_at <= now {
                let late = now.saturating_duration_since(command.overdue_at) > LATE.min(self.response_timeout / 4);
                if late && !command.extended {
                    command.extended = true;
                    command.overdue_at = now + self.response_timeout;
                } else {
                    command.expired = true;
                    command.waker.take().into_iter().for_each(Waker::wake);
                    continue;
                }
            }
            next = Some(next.map_or(command.overdue_at, |next| next.min(command.overdue_at)));
        }
        self.overdue_at = next;
    }

    fn poll_connecting(&mut self, context: &mut Context<'_>) {
        let State::Connecting { attempt, queue, failures } = &mut self.state else { return };
        let Poll::Ready(attempt) = attempt.as_mut().poll(context) else { return };
        let queue = mem::take(queue);
        match attempt {
            Ok((connection, abilities)) => {
                tracing::info!("connected to the server");
                if self.generation > 0 {
                    metrics::reconnected();
                }
                self.generation += 1;
                self.state = State::Up(connection);
                self.primary_changed = self.endpoint.as_ref().and_then(Endpoint::primary_changed);
                self.poll_primary_changed(context);
                let is_outdated = abilities.is_some_and(|abilities| abilities.has_slots);
                if abilities.is_some() {
                    (self.opening, self.abilities) = (None, abilities);
                }
                for (id, cmd, mode) in queue {
                    if is_outdated {
                        self.unsent.push(Completion { id, result: Err(Abilities::outdated()) });
                    } else {
                        self.send(id, cmd, mode);
                    }
                }
            }
            Err(why) => {
                let backoff = MIN_BACKOFF.saturating_mul(1 << (*failures).min(5)).min(MAX_BACKOFF);
                tracing::warn!(%why, "can't connect to the server");
                let unsent = queue.into_iter().map(|(id, ..)| Completion { id, result: Err(why.clone()) });
                self.unsent.extend(unsent);
                self.state = State::Down { failures: *failures + 1, retry_at: Instant::now() + backoff, why };
            }
        }
    }

    fn poll_primary_changed(&mut self, context: &mut Context<'_>) {
        if let Some(primary_changed) = &mut self.primary_changed
            && primary_changed.as_mut().poll(context).is_ready()
        {
            self.primary_changed = None;
            self.drop_connection(Failure::Interrupted(PRIMARY_CHANGED.to_owned()));
            self.generation += 1;
            self.oldest_trusted = self.generation;
        }
    }

    /// Drops the connection. The next command reconnects. A connection that the user provided is kept.
    fn drop_connection(&mut self, why: Failure) {
        if self.endpoint.is_none() || !matches!(self.state, State::Up(_)) {
            return;
        }
        tracing::warn!(%why, "connection to the server lost");
        // Without a backoff, the link would connect to a demoted server in a tight loop.
        let backoff = if is_demoted(&why) { MAX_BACKOFF } else { Duration::ZERO };
        self.state = State::Down { failures: 0, retry_at: Instant::now() + backoff, why };
    }

    fn connect(&mut self, failures: u32, first: Queued) {
        let attempt: BoxFuture<'static, _> = match (self.opening.clone(), self.endpoint.clone()) {
            (Some(opening), _) => Box::pin(async move {
                let (connection, abilities) = opening.again().await?;
                Ok((connection, Some(abilities)))
            }),
            (None, Some(endpoint)) => Box::pin(async move {
                let connection = endpoint.connect().await.map_err(|error| connect_failure(&error))?;
                Ok((endpoint.share(connection), None))
            }),
            (None, None) => {
                let why = Failure::Unavailable("this connection can't be made again".to_owned());
                return self.unsent.push(Completion { id: first.0, result: Err(why) });
            }
        };
        self.state = State::Connecting { attempt, queue: vec![first], failures };
    }
}
