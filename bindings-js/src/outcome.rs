//! Writes the outputs of one input in a form that JavaScript reads quickly: a row of numbers, and one text.
//!
//! The row begins with four numbers: when to wake the engine at the latest (µs, -1 for never), the number of outputs, and the
//! address and the length of the text in bytes. Each output follows as its kind and its fields. All texts are concatenated; the
//! row has the length of each in UTF-16 units, as JavaScript counts them, in the same order. A missing field is -1. A command is
//! one text.

use leasehold_core::{Command, Error, Failure, Grant, Inspection, Instant, Mode, Outcome, Output, ReleaseOutcome};

use crate::failure;
use crate::number::{millis, number};

const SEND: f64 = 1.0;
const SUBSCRIBE: f64 = 2.0;
const UNSUBSCRIBE: f64 = 3.0;
const ACQUIRED: f64 = 4.0;
const RELEASED: f64 = 5.0;
const EXTENDED: f64 = 6.0;
const CONVERTED: f64 = 7.0;
const HELD: f64 = 8.0;
const VERIFIED: f64 = 9.0;
const INSPECTED: f64 = 10.0;
const CLOSED: f64 = 11.0;
const FAILED: f64 = 12.0;
const LOST: f64 = 13.0;
const ACQUIRED_ALL: f64 = 14.0;
const REVOKED: f64 = 15.0;

const NONE: f64 = -1.0;
const HEAD: usize = 4;

/// A row. It is reused for every input.
#[derive(Default)]
pub(crate) struct Row {
    numbers: Vec<f64>,
    /// All texts, in UTF-8.
    text: Vec<u8>,
}

impl Row {
    /// Writes the current outputs of the engine.
    pub(crate) fn fill(&mut self, engine: &mut leasehold_core::Engine) -> *const f64 {
        self.begin();
        let mut outputs: u64 = 0;
        while let Some(output) = engine.poll_output() {
            self.output(&output);
            outputs += 1;
        }
        let wake = engine.poll_timeout().map_or(NONE, |(at, _)| moment(at));
        self.end(wake, number(outputs))
    }

    /// Writes commands that the driver sends by itself. They don't need a wake-up.
    pub(crate) fn commands(&mut self, commands: &[Command]) -> *const f64 {
        self.begin();
        for command in commands {
            self.push(&[SEND, 0.0, 0.0]);
            self.command(command);
        }
        self.end(NONE, number(commands.len() as u64))
    }

    /// Writes why the engine could not be made, if it could not.
    pub(crate) fn refusal(&mut self, error: Option<&Error>) -> *const f64 {
        self.begin();
        if let Some(error) = error {
            self.error(0.0, error);
        }
        self.end(NONE, flag(error.is_some()))
    }

    fn begin(&mut self) {
        self.numbers.clear();
        self.numbers.resize(HEAD, 0.0);
        self.text.clear();
    }

    fn end(&mut self, wake: f64, outputs: f64) -> *const f64 {
        if let Some(head) = self.numbers.first_chunk_mut::<HEAD>() {
            *head = [wake, outputs, number(self.text.as_ptr() as u64), number(self.text.len() as u64)];
        }
        self.numbers.as_ptr()
    }

    fn output(&mut self, output: &Output) {
        match output {
            Output::Send { call, node, command } => {
                self.push(&[SEND, number(call.0), node.0.into()]);
                self.command(command);
            }
            Output::Subscribe { node, channel } => {
                self.push(&[SUBSCRIBE, node.0.into()]);
                self.text(channel);
            }
            Output::Unsubscribe { node, channel } => {
                self.push(&[UNSUBSCRIBE, node.0.into()]);
                self.text(channel);
            }
            Output::Completed { op, result } => match result {
                Ok(outcome) => self.outcome(number(op.0), outcome),
                Err(error) => self.error(number(op.0), error),
            },
            Output::Lost { lease, reason } => {
                self.push(&[LOST, number(lease.0)]);
                self.text(reason.code());
            }
        }
    }

    fn outcome(&mut self, op: f64, outcome: &Outcome) {
        match outcome {
            Outcome::Acquired(grant) => self.grant(ACQUIRED, op, grant),
            Outcome::AcquiredAll { lease, fences, valid_until } => {
                self.push(&[ACQUIRED_ALL, op, number(lease.0), moment(*valid_until), number(fences.len() as u64)]);
                self.numbers.extend(fences.iter().map(|fence| number(*fence)));
            }
            Outcome::Released(outcome) => {
                let outcome = match outcome {
                    ReleaseOutcome::Released => 0.0,
                    ReleaseOutcome::StillHeld => 1.0,
                    ReleaseOutcome::NotOwner => 3.0,
                    // `AlreadyExpired`. The enum may grow, so a match from outside its crate needs a last arm.
                    _ => 2.0,
                };
                self.push(&[RELEASED, op, outcome]);
            }
            Outcome::Extended { valid_until } => self.push(&[EXTENDED, op, moment(*valid_until)]),
            Outcome::Converted(grant) => self.grant(CONVERTED, op, grant),
            Outcome::Held(holds) => self.push(&[HELD, op, (*holds).into()]),
            Outcome::Verified(held) => self.push(&[VERIFIED, op, flag(*held)]),
            Outcome::Inspected(inspection) => self.inspection(op, inspection),
            Outcome::Revoked(holders) => self.push(&[REVOKED, op, (*holders).into()]),
            Outcome::Closed { unreleased } => self.push(&[CLOSED, op, (*unreleased).into()]),
        }
    }

    fn grant(&mut self, kind: f64, op: f64, grant: &Grant) {
        let Grant { lease, mode, fence, valid_until, local } = grant;
        self.push(&[kind, op, number(lease.0), shared(*mode), number(*fence), moment(*valid_until), flag(*local)]);
    }

    fn inspection(&mut self, op: f64, inspection: &Inspection) {
        let Inspection { holders, waiters, last_fence, .. } = inspection;
        let counts = [number(holders.len() as u64), number(waiters.len() as u64)];
        self.push(&[INSPECTED, op, last_fence.map_or(NONE, number), counts[0], counts[1]]);
        for holder in holders {
            self.push(&[shared(holder.mode), holder.remaining.map_or(NONE, millis), flag(holder.foreign)]);
            self.text(&holder.token);
        }
        for waiter in waiters {
            self.push(&[shared(waiter.mode)]);
            self.text(&waiter.token);
        }
    }

    /// Writes an error: the times, the code, what it is about (a field or a reason), the cause or the message, and the votes.
    fn error(&mut self, op: f64, error: &Error) {
        let (waited, left) = match error {
            Error::Busy { waited, holder_remaining, .. } => (millis(*waited), holder_remaining.map_or(NONE, millis)),
            Error::Unreachable { waited, .. } => (millis(*waited), NONE),
            _ => (NONE, NONE),
        };
        let (about, problem) = words(error);
        self.push(&[FAILED, op, waited, left]);
        self.text(error.code());
        self.text(about);
        match error {
            Error::Unreachable { cause: Some(cause), .. } => self.cause(cause),
            _ => {
                self.push(&[NONE]);
                self.text(problem);
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
            let (answer, words) = crate::quorum::answer(vote);
            self.text(&vote.server);
            self.text(answer);
            self.text(words);
        }
    }

    fn cause(&mut self, cause: &Failure) {
        let (kind, text) = failure::write(cause);
        self.push(&[kind.into()]);
        self.text(text);
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
        let start = self.text.len();
        self.text.extend_from_slice(text.as_bytes());
        self.end_text(start);
    }

    /// Writes the length of the text that began at `start`, in UTF-16 units: one for each character, two for one of four bytes.
    fn end_text(&mut self, start: usize) {
        let text = self.text.get(start..).unwrap_or_default();
        let units = if text.is_ascii() {
            text.len()
        } else {
            text.iter().map(|byte| usize::from(byte & 0xC0 != 0x80) + usize::from(*byte >= 0xF0)).sum()
        };
        self.numbers.push(number(units as u64));
    }
}

/// What an error is about, and its message.
pub(crate) fn words(error: &Error) -> (&str, &str) {
    match error {
        Error::InvalidOption { field, problem } => (field, problem),
        Error::Conflict(problem) => ("", problem),
        Error::Lost(reason) => (reason.code(), ""),
        Error::Unsupported(text)
        | Error::Auth(text)
        | Error::Server(text)
        | Error::Protocol(text)
        | Error::WrongKind(text) => ("", text),
        _ => ("", ""),
    }
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
