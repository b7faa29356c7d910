//! Writes the outputs of one input in a form that JavaScript reads quickly: a record of numbers, and one text.
//!
//! The record begins with five numbers: when the input happened, when to wake the engine at the latest (both in microseconds;
//! infinity for never), the number of outputs, and the address and the length of the text in bytes. Each output follows as its kind and its fields. All texts are
//! concatenated; the record has the length of each in UTF-16 units, as JavaScript counts them, in the same order. A missing
//! number is [`ABSENT`]. A command is one text. `ts/engine/output-reader.ts` reads it.

use alloc::vec::Vec;
use leasehold_core::Duration;

use leasehold_core::{Command, Error, Failure, Field, Grant, Inspection, Instant, Mode, Outcome, Output};
#[cfg(not(feature = "quorum"))]
use leasehold_core::{LeaseId, Renewal};

use crate::codes::{ABSENT, Code, OutputKind, outcome_number};
use crate::number::{millis, number};
use crate::text;

/// When to wake an engine that waits for nothing.
const NEVER: f64 = f64::INFINITY;

const HEAD: usize = 5;

/// The outputs of one input. It is reused for every input.
#[derive(Default)]
pub(crate) struct OutputWriter {
    numbers: Vec<f64>,
    /// All texts, in UTF-8.
    text: Vec<u8>,
}

impl OutputWriter {
    /// Writes the current outputs of the engine.
    pub(crate) fn outputs(&mut self, now: Instant, engine: &mut leasehold_core::Engine) -> *const f64 {
        self.begin();
        let mut outputs: u64 = 0;
        while let Some(output) = engine.poll_output() {
            self.output(&output);
            outputs += 1;
        }
        let wake = engine.poll_timeout().map_or(NEVER, |(at, _)| moment(at));
        self.end(moment(now), wake, number(outputs))
    }

    /// Writes why the engine could not be started, as a failed operation. No output says that it was.
    pub(crate) fn started(&mut self, error: Option<&Error>) -> *const f64 {
        self.begin();
        if let Some(error) = error {
            self.error(0.0, error);
        }
        self.end(0.0, NEVER, flag(error.is_some()))
    }

    /// Writes the locks that linger: for each, whether it is shared, and its name.
    pub(crate) fn lingering(&mut self, locks: Vec<(&str, Mode)>) -> *const f64 {
        self.begin();
        for (name, mode) in &locks {
            self.push(&[flag(*mode == Mode::Shared)]);
            self.text(name);
        }
        self.end(0.0, NEVER, number(locks.len() as u64))
    }

    #[cfg(not(feature = "quorum"))]
    /// Writes what renews a lease: for each name, the lease, the token, when the lease ends at the latest, and the command.
    pub(crate) fn renewals(&mut self, engine: Option<&leasehold_core::Engine>, lease: LeaseId) -> *const f64 {
        self.begin();
        let mut count = 0.0;
        if let Some(engine) = engine {
            engine.renewals(lease, |Renewal { lease, token, ends, command }| {
                self.push(&[number(lease.0), number(token), ends.map_or(NEVER, moment)]);
                self.command(&command);
                count += 1.0;
            });
        }
        self.end(0.0, NEVER, count)
    }

    fn begin(&mut self) {
        self.numbers.clear();
        self.numbers.extend_from_slice(&[0.0; HEAD]);
        self.text.clear();
    }

    fn end(&mut self, now: f64, wake: f64, outputs: f64) -> *const f64 {
        if let Some(head) = self.numbers.first_chunk_mut::<HEAD>() {
            *head = [now, wake, outputs, number(self.text.as_ptr() as u64), number(self.text.len() as u64)];
        }
        self.numbers.as_ptr()
    }

    fn output(&mut self, output: &Output) {
        match output {
            Output::Send { id, node, command } => {
                self.push(&[OutputKind::Send.number(), number(id.0), node.0.into()]);
                self.command(command);
            }
            Output::SendDedicated { op, command } => {
                self.push(&[OutputKind::SendDedicated.number(), number(op.0)]);
                self.bytes(command.key().unwrap_or_default());
                self.command(command);
            }
            Output::CloseDedicated { op } => self.push(&[OutputKind::CloseDedicated.number(), number(op.0)]),
            // A quorum has no channels, so there is only one server.
            Output::Subscribe { channel, .. } => {
                self.push(&[OutputKind::Subscribe.number()]);
                self.text(channel);
            }
            Output::Unsubscribe { channel, .. } => {
                self.push(&[OutputKind::Unsubscribe.number()]);
                self.text(channel);
            }
            Output::Completed { op, result } => match result {
                Ok(outcome) => self.outcome(number(op.0), outcome),
                Err(error) => self.error(number(op.0), error),
            },
            Output::Leader { op, leader: None } => self.leader(number(op.0), ABSENT, 0.0, ""),
            Output::Leader { op, leader: Some(leader) } => {
                self.leader(number(op.0), number(leader.fence), millis(leader.led), &leader.value);
            }
            Output::Lost { lease, reason } => {
                self.push(&[OutputKind::Lost.number(), number(lease.0), reason.number()]);
            }
        }
    }

    fn leader(&mut self, op: f64, fence: f64, led: f64, value: &str) {
        self.push(&[OutputKind::Leader.number(), op, fence, led]);
        self.text(value);
    }

    fn outcome(&mut self, op: f64, outcome: &Outcome) {
        self.push(&[outcome_number(outcome.kind()), op]);
        outcome.values(|field| match field {
            Field::Number(value) => self.numbers.push(number(value)),
            Field::Moment(at) => self.numbers.push(moment(at)),
            Field::Flag(value) => self.numbers.push(flag(value)),
            Field::Text(text) => self.text(&text),
            Field::Numbers(values) => {
                self.numbers.push(number(values.len() as u64));
                self.numbers.extend(values.iter().map(|value| number(*value)));
            }
            Field::Grant(grant) => self.grant(grant),
            Field::Released(outcome) => self.numbers.push(outcome.number()),
            Field::Inspection(inspection) => self.inspection(inspection),
        });
    }

    fn grant(&mut self, grant: &Grant) {
        let Grant { lease, mode, fence, valid_until, local } = grant;
        self.push(&[number(lease.0), shared(*mode), number(*fence), moment(*valid_until), flag(*local)]);
    }

    fn inspection(&mut self, inspection: &Inspection) {
        let Inspection { holders, waiters, waiting, last_fence, limit, per, .. } = inspection;
        let counts = [number(holders.len() as u64), number(waiters.len() as u64)];
        let last_fence = last_fence.map_or(ABSENT, |fence| number(fence.get()));
        let limit = limit.map_or(ABSENT, f64::from);
        self.push(&[last_fence, number(*waiting), limit, time(*per), counts[0], counts[1]]);
        for holder in holders {
            self.push(&[shared(holder.mode), time(holder.remaining), flag(holder.foreign), time(holder.held)]);
            self.text(&holder.token);
        }
        for waiter in waiters {
            self.push(&[shared(waiter.mode), time(waiter.waited), number(waiter.callers)]);
            self.text(&waiter.token);
        }
    }

    /// Writes an error: the code, the times, the reason of a loss, the field, the cause or the message, the holder, and the votes.
    fn error(&mut self, op: f64, error: &Error) {
        let (waited, holder_remaining) = match error {
            Error::Busy { waited, holder_remaining, .. } => (millis(*waited), time(*holder_remaining)),
            Error::Unreachable { waited, .. } | Error::NotReplicated { waited, .. } => (millis(*waited), ABSENT),
            _ => (ABSENT, ABSENT),
        };
        let (field, reason) = match error {
            Error::InvalidOption { field, .. } => (*field, ABSENT),
            Error::Lost(reason) => ("", reason.number()),
            _ => ("", ABSENT),
        };
        let (confirmed, wanted) = match error {
            Error::NotReplicated { confirmed, wanted, .. } => ((*confirmed).into(), (*wanted).into()),
            _ => (ABSENT, ABSENT),
        };
        let waiters = match error {
            Error::Busy { waiters: Some(waiters), .. } => (*waiters).into(),
            _ => ABSENT,
        };
        let (kind, code) = (OutputKind::Failed.number(), error.kind().number());
        self.push(&[kind, op, code, waited, holder_remaining, waiters, reason, confirmed, wanted]);
        self.text(field);
        match error {
            Error::Unreachable { cause: Some(cause), .. } => self.cause(cause),
            _ => {
                self.push(&[ABSENT]);
                self.text(error.problem());
            }
        }
        #[cfg(feature = "quorum")]
        self.votes(error);
        #[cfg(not(feature = "quorum"))]
        self.push(&[0.0]);
    }

    #[cfg(feature = "quorum")]
    fn votes(&mut self, error: &Error) {
        let votes: &[leasehold_core::Vote] = match error {
            Error::Busy { votes, .. } | Error::Unreachable { votes, .. } => votes,
            _ => &[],
        };
        self.push(&[number(votes.len() as u64)]);
        for vote in votes {
            let (answer, message) = crate::quorum::answer(vote);
            self.text(&vote.server);
            self.text(answer);
            self.text(message);
        }
    }

    fn cause(&mut self, cause: &Failure) {
        self.push(&[cause.kind().number()]);
        self.text(cause.text());
    }

    /// Writes a command in RESP, so that drivers can send it unchanged, and its length in bytes.
    fn command(&mut self, command: &Command) {
        let start = self.text.len();
        let words = command.words();
        self.header(b'*', words.len());
        for word in words {
            self.header(b'$', word.len());
            self.text.extend_from_slice(word);
            self.end_line();
        }
        self.end_text(start);
        self.numbers.push(number((self.text.len() - start) as u64));
    }

    /// Pushes single bytes, because in WebAssembly that is faster than copying a few at once.
    fn header(&mut self, kind: u8, length: usize) {
        self.text.push(kind);
        let mut unit = 1;
        while length / unit >= 10 {
            unit *= 10;
        }
        while unit > 0 {
            self.text.push(b'0' + u8::try_from(length / unit % 10).unwrap_or_default());
            unit /= 10;
        }
        self.end_line();
    }

    fn end_line(&mut self) {
        self.text.push(b'\r');
        self.text.push(b'\n');
    }

    fn push(&mut self, numbers: &[f64]) {
        self.numbers.extend_from_slice(numbers);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Writes text that is known to be UTF-8.
    fn bytes(&mut self, text: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(text);
        self.end_text(start);
    }

    /// Writes the length of the text that began at `start`.
    fn end_text(&mut self, start: usize) {
        self.numbers.push(text::length(self.text.get(start..).unwrap_or_default()));
    }
}

#[cfg(test)]
impl OutputWriter {
    /// The numbers and the text, as TypeScript reads them.
    pub(crate) fn record(&self) -> (&[f64], &[u8]) {
        (&self.numbers, &self.text)
    }
}

/// A time that may be unknown, in milliseconds.
fn time(time: Option<Duration>) -> f64 {
    time.map_or(ABSENT, millis)
}

fn moment(at: Instant) -> f64 {
    number(at.as_micros())
}

fn shared(mode: Mode) -> f64 {
    flag(mode == Mode::Shared)
}

fn flag(flag: bool) -> f64 {
    if flag { 1.0 } else { 0.0 }
}
