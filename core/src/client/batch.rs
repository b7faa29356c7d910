//! Group commit: what the client has to say to one server at one moment travels as one script call.
//!
//! ```text
//!  send_together --> wait --the driver wakes the engine--> batch --reply--> each entry's own answer
//!                                      \                        \
//!                                       '-- only one command ----'-- an entry left undone --> sent alone
//! ```
//!
//! A batch takes only the common path of a command. An entry that needs more, or that the server refuses, changes
//! nothing and is sent alone, as if it had never been in the batch. So one entry's error is never another's. Gray and
//! Reuter, Transaction Processing (1992), section 10.3.4, describes group commit.

use alloc::string::String;
use alloc::vec::Vec;

use super::Client;
use crate::error::Failure;
use crate::ids::LeaseId;
use crate::session::{ACQUIRE_BLOCK, ACQUIRE_TTL, Purpose, Queued, SentCommand, TOGETHER};
use crate::wire::{Answer, Command, Failed, Form, Reply, Status, fence, integer, time_left};

/// How far fences may run ahead of the server's clock, in microseconds.
const AHEAD: u64 = 1024;

impl Client {
    /// Sends what may travel together. The driver has no other input now, so nothing more will be added.
    #[inline(never)]
    pub(super) fn pump_together(&mut self) {
        while self.cx.flows.leave_together().is_some_and(|at| at <= self.cx.now) {
            let mut entries = Vec::new();
            while entries.len() < TOGETHER
                && let Some(entry) = self.cx.flows.pop_together(self.cx.now)
            {
                if self.is_wanted(entry.purpose) {
                    self.sent(entry.purpose);
                    entries.push(entry);
                }
            }
            if entries.len() > 1 {
                let batch = self.cx.new_lease();
                let form = if core::mem::take(&mut self.batch_unknown) { Form::Source } else { Form::Digest };
                let command = self.cx.batch_command(form, &entries);
                self.cx.transmit(0, Purpose::Batch { batch }, command);
                self.multi.keep_batch(batch, entries);
            } else if let Some(entry) = entries.pop() {
                self.cx.transmit(0, entry.purpose, entry.command);
            }
        }
    }

    pub(super) fn batch_replied(&mut self, sent: &SentCommand, batch: LeaseId, result: Result<Reply, Failure>) {
        let Some(entries) = self.multi.take_batch(batch) else { return };
        let numbers = match &result {
            Ok(Reply::List(list)) if list.len() == entries.len().saturating_add(1) => list.as_slice(),
            _ => &[],
        };
        // For example, the user may not touch one of the names. Each entry gets its own answer.
        // Unless a slot has begun to move while the script ran: then it has done a part of its work.
        let refusal = match &result {
            Err(failure @ Failure::Refused(text)) => {
                (!Failed::by(failure.clone(), Form::Digest).maybe_applied).then_some(text)
            }
            _ => None,
        };
        if let Some(text) = refusal {
            self.batch_unknown = text.starts_with("NOSCRIPT");
        }
        let server = numbers.last().and_then(integer);
        for (index, entry) in entries.into_iter().enumerate() {
            let number = numbers.get(index).and_then(integer);
            if refusal.is_some() || number == Some(0) {
                self.send_alone(entry);
            } else if let Some(answer) = answer(&entry, number, server) {
                let mut sent = *sent;
                sent.purpose = entry.purpose;
                self.answered(&sent, &answer);
            } else {
                let failed = match &result {
                    Err(failure) => Failed::by(failure.clone(), Form::Digest),
                    Ok(reply) => Failed::unreadable(["batch answered ", &reply.shown()].concat()),
                };
                self.failed(entry.purpose, failed);
            }
        }
    }

    /// A batch left this command undone. It leaves at once, because its caller has waited for a round trip already.
    fn send_alone(&mut self, entry: Queued) {
        if !self.is_wanted(entry.purpose) {
            return self.failed(entry.purpose, Failed::by(Failure::Unavailable(String::new()), Form::Digest));
        }
        // The server has answered. Its next silence begins now.
        self.cx.is_answered(entry.purpose);
        if let Purpose::Acquire { lock, .. } = entry.purpose {
            self.with(lock, |lock, cx| {
                if let Some(claim) = &mut lock.claim {
                    claim.sent = Some(cx.now);
                }
            });
        }
        self.cx.transmit(0, entry.purpose, entry.command);
    }
}

/// An entry's answer, as if it had been sent alone. None if the server's number is out of bounds.
fn answer(entry: &Queued, number: Option<i64>, server: Option<i64>) -> Option<Answer> {
    let (number, server) = (u64::try_from(number?).ok()?, u64::try_from(server?).ok()?);
    let (status, value, block, left) = match entry.purpose {
        Purpose::Acquire { .. } => {
            let ahead = server.saturating_add(AHEAD).saturating_sub(number);
            let block = argument(&entry.command, ACQUIRE_BLOCK).min(ahead).max(1);
            (Status::Entered, number, block, Some(argument(&entry.command, ACQUIRE_TTL)))
        }
        Purpose::Release { .. } => (Status::Released, 0, 0, None),
        _ => (Status::Renewed, 0, 0, Some(number)),
    };
    let value = fence(value, block)?;
    let waiting = (status != Status::Renewed).then_some(0);
    Some(Answer { status, value, block, server, left: time_left(left)?, waiting, foreign: false })
}

/// A number that this client wrote into its command.
fn argument(command: &Command, index: usize) -> u64 {
    command.word(index).iter().fold(0, |number: u64, digit| number.wrapping_mul(10).wrapping_add(u64::from(digit & 15)))
}
