//! Sends commands and receives replies over one connection. Commands leave in order, without waiting for replies. Each
//! reply belongs to the oldest command without one.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use futures_channel::mpsc::UnboundedReceiver;
use futures_channel::oneshot::Sender;
use futures_util::StreamExt;

use crate::bindings::exports::leasehold::lock::connection::{Failure, Reply};
use crate::connection::{Broken, Connection, Input, Output};
use crate::resp::Parsed;
use crate::timer::{Moment, first, sleep};

/// One write takes this many bytes of waiting commands.
const AT_ONCE: usize = 64 << 10;

/// A call that was made.
pub(crate) struct Command {
    pub(crate) bytes: Vec<u8>,
    pub(crate) began: Moment,
    pub(crate) caller: Sender<Result<Reply, Failure>>,
}

impl Command {
    /// Answers the caller, if it is still there.
    pub(crate) fn answer(self, answer: Result<Reply, Failure>) {
        let _ = self.caller.send(answer);
    }
}

/// Why a session ended.
enum End {
    /// Nobody can call any more.
    Unused,
    /// The oldest command was not answered in time, so later answers are uncertain, too.
    Late,
    Broken(Broken),
}

struct Session<'a> {
    limit: Duration,
    commands: RefCell<&'a mut UnboundedReceiver<Command>>,
    /// The commands that were sent, without their bytes, in the order of their replies.
    sent: RefCell<VecDeque<Command>>,
}

/// Serves commands, the given one first, until the connection breaks (true) or nobody can call any more (false).
pub(crate) async fn run(
    connection: Connection,
    limit: Duration,
    waiting: Option<Command>,
    commands: &mut UnboundedReceiver<Command>,
) -> bool {
    let session = Session { limit, commands: RefCell::new(commands), sent: RefCell::default() };
    let Connection { mut output, mut input } = connection;
    let end = first(session.watch(), first(session.receive(&mut input), session.send(&mut output, waiting)));
    let end = end.await;
    let in_use = !matches!(end, End::Unused);
    session.end(end);
    in_use
}

impl Session<'_> {
    async fn send(&self, output: &mut Output, mut waiting: Option<Command>) -> End {
        loop {
            let next = match waiting.take() {
                Some(command) => command,
                None => match self.next().await {
                    Some(command) => command,
                    None => return End::Unused,
                },
            };
            let mut bytes = Vec::new();
            self.pack(next, &mut bytes);
            while bytes.len() < AT_ONCE
                && let Ok(command) = self.commands.borrow_mut().try_recv()
            {
                self.pack(command, &mut bytes);
            }
            if let Err(broken) = output.write(bytes).await {
                return End::Broken(broken);
            }
        }
    }

    async fn next(&self) -> Option<Command> {
        std::future::poll_fn(|context| self.commands.borrow_mut().poll_next_unpin(context)).await
    }

    /// Adds a command to the next write, unless nobody waits for it any more.
    fn pack(&self, mut command: Command, bytes: &mut Vec<u8>) {
        if command.caller.is_canceled() {
            return;
        }
        if command.began.rest_of(self.limit).is_zero() {
            return command.answer(Err(Failure::Unavailable("the command could not be sent in time".to_owned())));
        }
        bytes.append(&mut command.bytes);
        self.sent.borrow_mut().push_back(command);
    }

    async fn receive(&self, input: &mut Input) -> End {
        loop {
            let reply = match input.next().await {
                Ok(Parsed::Error(text)) => Err(Failure::Refused(text)),
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

    /// Ends when the oldest command has waited for too long.
    async fn watch(&self) -> End {
        loop {
            let oldest = self.sent.borrow().front().map(|command| command.began);
            let rest = oldest.map_or(self.limit, |began| began.rest_of(self.limit));
            if rest.is_zero() {
                return End::Late;
            }
            sleep(rest).await;
        }
    }

    /// Fails all commands that were sent and not answered.
    fn end(self, end: End) {
        let mut sent = self.sent.into_inner();
        let text = match end {
            End::Unused => "the endpoint was dropped".to_owned(),
            End::Late => {
                if let Some(oldest) = sent.pop_front() {
                    oldest.answer(Err(Failure::TimedOut));
                }
                "the server did not answer an earlier command in time".to_owned()
            }
            End::Broken(Broken::Closed(text)) => text,
            End::Broken(Broken::Malformed(text)) => {
                // Report what the server sent to one of the callers.
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
