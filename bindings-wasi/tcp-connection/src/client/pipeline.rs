//! The task of an endpoint: it keeps one connection for the commands, and makes a new one after a break when there is a
//! command to send.
//!
//! Commands leave in order, without waiting for replies. Each reply belongs to the oldest command without one.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use futures_channel::mpsc::UnboundedReceiver;
use futures_channel::oneshot::Sender;
use futures_util::StreamExt;

use crate::bindings::exports::leasehold::lock::connection::{Failure, Reply};
use crate::net::{Address, Broken, Connection, Input, Output, Parsed};
use crate::refusal;
use crate::time::{Stopwatch, race, sleep};

/// One write combines waiting commands up to this many bytes.
const WRITE_SIZE: usize = 64 << 10;

/// A command of a running call.
pub(super) struct Command {
    pub(super) bytes: Vec<u8>,
    /// Started when the call began.
    pub(super) stopwatch: Stopwatch,
    pub(super) caller: Sender<Result<Reply, Failure>>,
}

impl Command {
    /// Sends the caller its answer, if the call was not cancelled.
    fn answer(self, answer: Result<Reply, Failure>) {
        let _ = self.caller.send(answer);
    }
}

/// Runs until the endpoint is dropped.
pub(super) async fn run(
    address: Rc<Address>,
    limit: Duration,
    mut connection: Connection,
    mut commands: UnboundedReceiver<Command>,
) {
    let mut first = None;
    while run_session(connection, limit, first.take(), &mut commands).await {
        let Some((reconnected, command)) = reconnect(&address, limit, &mut commands).await else { return };
        (connection, first) = (reconnected, Some(command));
    }
}

/// Connects as soon as there is a command, and returns both. None if the endpoint was dropped.
async fn reconnect(
    address: &Address,
    limit: Duration,
    commands: &mut UnboundedReceiver<Command>,
) -> Option<(Connection, Command)> {
    loop {
        let command = commands.next().await?;
        if command.caller.is_canceled() {
            continue;
        }
        // The limit is measured from now, even if this command has waited before. Calls that arrive during the attempt
        // then wait for the limit at most.
        let failure = match Connection::open(address, limit).await {
            Ok(connection) => return Some((connection, command)),
            Err(failure) => failure,
        };
        command.answer(Err(failure.clone()));
        while let Ok(command) = commands.try_recv() {
            command.answer(Err(failure.clone()));
        }
    }
}

/// The commands of one connection.
struct Session<'a> {
    limit: Duration,
    commands: RefCell<&'a mut UnboundedReceiver<Command>>,
    /// The commands without a reply, in the order in which they were sent. Their bytes are gone.
    sent: RefCell<VecDeque<Command>>,
}

/// Why a session ended.
enum End {
    /// The endpoint was dropped.
    Dropped,
    /// The oldest command has no reply within the limit. A later reply could not be matched to its command for certain.
    TimedOut,
    Broken(Broken),
}

/// Sends commands, `first` before the others. Returns whether the endpoint needs another connection: true if this one
/// broke, false if the endpoint was dropped.
async fn run_session(
    connection: Connection,
    limit: Duration,
    first: Option<Command>,
    commands: &mut UnboundedReceiver<Command>,
) -> bool {
    let session = Session { limit, commands: RefCell::new(commands), sent: RefCell::default() };
    let Connection { mut output, mut input } = connection;
    let end = race(session.time_out(), race(session.receive(&mut input), session.send(&mut output, first)));
    let end = end.await;
    let in_use = !matches!(end, End::Dropped);
    session.end(end);
    in_use
}

impl Session<'_> {
    async fn send(&self, output: &mut Output, mut first: Option<Command>) -> End {
        loop {
            let next = match first.take() {
                Some(command) => command,
                None => match self.next_command().await {
                    Some(command) => command,
                    None => return End::Dropped,
                },
            };
            let mut bytes = Vec::new();
            self.pack(next, &mut bytes);
            while bytes.len() < WRITE_SIZE
                && let Ok(command) = self.commands.borrow_mut().try_recv()
            {
                self.pack(command, &mut bytes);
            }
            if let Err(broken) = output.write(bytes).await {
                return End::Broken(broken);
            }
        }
    }

    async fn next_command(&self) -> Option<Command> {
        std::future::poll_fn(|context| self.commands.borrow_mut().poll_next_unpin(context)).await
    }

    /// Adds a command to the next write, unless its call was cancelled.
    fn pack(&self, mut command: Command, bytes: &mut Vec<u8>) {
        if command.caller.is_canceled() {
            return;
        }
        if command.stopwatch.remaining(self.limit).is_zero() {
            return command.answer(Err(Failure::Unavailable("the command could not be sent in time".to_owned())));
        }
        bytes.append(&mut command.bytes);
        self.sent.borrow_mut().push_back(command);
    }

    async fn receive(&self, input: &mut Input) -> End {
        loop {
            let reply = match input.next().await {
                Ok(Parsed::Error(text)) => Err(refusal::of_command(text)),
                Ok(Parsed::Single(value)) => Ok(Reply::Single(value)),
                Ok(Parsed::Array(values)) => Ok(Reply::Array(values)),
                Ok(Parsed::Nested) => Ok(Reply::Other("an array in an array, or an error in one".to_owned())),
                Err(broken) => return End::Broken(broken),
            };
            let Some(command) = self.sent.borrow_mut().pop_front() else {
                return End::Broken(Broken::Malformed("the server sent a reply without a command".to_owned()));
            };
            command.answer(reply);
        }
    }

    /// Ends when the oldest command has had no reply within the limit.
    async fn time_out(&self) -> End {
        loop {
            let oldest = self.sent.borrow().front().map(|command| command.stopwatch);
            let remaining = oldest.map_or(self.limit, |stopwatch| stopwatch.remaining(self.limit));
            if remaining.is_zero() {
                return End::TimedOut;
            }
            sleep(remaining).await;
        }
    }

    /// Fails all commands that have no reply.
    fn end(self, end: End) {
        let mut sent = self.sent.into_inner();
        let text = match end {
            End::Dropped => "the endpoint was dropped".to_owned(),
            End::TimedOut => {
                if let Some(oldest) = sent.pop_front() {
                    oldest.answer(Err(Failure::TimedOut));
                }
                "the server did not answer an earlier command in time".to_owned()
            }
            End::Broken(Broken::Closed(text)) => text,
            End::Broken(Broken::Malformed(text)) => {
                // The oldest caller gets what the server sent, so that a user sees it.
                if let Some(oldest) = sent.pop_front() {
                    oldest.answer(Ok(Reply::Other(text.clone())));
                }
                text
            }
        };
        for command in sent {
            command.answer(Err(Failure::Interrupted(text.clone())));
        }
    }
}
