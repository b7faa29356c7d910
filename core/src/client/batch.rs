//! The common path, and group commit: what the client has to say to one server at one moment travels as one script call.
//!
//! ```text
//!  send_together --> wait --the driver wakes the engine--> common path --reply--> each entry's own answer
//!                                                                 \
//!                                                                  '-- an entry left undone --> its own script
//! ```
//!
//! The scripts of the common path are short: a free lock is taken, a lock that nobody waits for is given back, a lease is
//! renewed. One command alone has a script of its own; several share `batch`. An entry that needs more, or that the
//! server refuses, changes nothing and is sent to its own script, as if it had never been tried. So one entry's error is
//! never another's. Gray and Reuter, Transaction Processing (1992), section 10.3.4, describes group commit.

use alloc::string::String;
use alloc::vec::Vec;

use super::Client;
use crate::error::Failure;
use crate::ids::LeaseId;
use crate::session::{ACQUIRE_BLOCK, ACQUIRE_TTL, CommonPath, Purpose, Queued, SentCommand};
use crate::wire::{Answer, Command, Failed, FailureClass, Form, Reply, Scalar, Status, fence, integer, time_left};

/// How far fences may run ahead of the server's clock, in microseconds.
const AHEAD: u64 = 1024;

/// What the server answered to all entries.
#[derive(Default)]
struct Answers<'a> {
    server: u64,
    fence: u64,
    /// A number for each entry. 0 if it was left undone.
    numbers: &'a [Scalar],
}

impl Client {
    /// Sends what may travel together. The driver has no other input now, so nothing more will be added.
    #[inline(never)]
    pub(super) fn pump_together(&mut self) {
        while let Some(flow) = self.cx.flows.leaves_now(self.cx.now) {
            let mut entries = self.cx.flows.take_together(self.cx.now, flow);
            entries.retain(|entry| self.is_wanted(entry.purpose));
            for entry in &mut entries {
                self.renew_for_now(entry);
                self.sent(entry.purpose);
            }
            if !entries.is_empty() {
                self.cx.transmit_entries(flow, Form::Digest, entries);
            }
        }
    }

    pub(super) fn batch_replied(&mut self, sent: &SentCommand, batch: LeaseId, result: Result<Reply, Failure>) {
        let Some(entries) = self.cx.batches.remove(&batch) else { return };
        let answers = result.as_ref().ok().and_then(|reply| answers(reply, &entries));
        let failed = || match &result {
            Ok(reply) => Failed::unreadable(["the common path answered ", &reply.shown()].concat()),
            Err(failure) => Failed::by(failure.clone(), sent.form),
        };
        // The reason may be one entry: for example, the user may not touch its name. Each one gets its own answer.
        // Unless a slot has begun to move while the script ran: then it has done a part of its work.
        let refusal = Some(&result).filter(|result| matches!(result, Err(Failure::Refused(_)))).map(|_| failed());
        let refused = refusal.as_ref().is_some_and(|failed| !failed.maybe_applied);
        let unknown = refusal.is_some_and(|failed| failed.class == FailureClass::NoScript);
        let mut again = Vec::new();
        for (index, entry) in entries.into_iter().enumerate() {
            let number = answers.as_ref().and_then(|answers| integer(answers.numbers.get(index)?));
            if refused || number == Some(0) {
                if !self.is_still_wanted(entry.purpose) {
                    continue;
                }
                if unknown {
                    again.push(entry);
                } else {
                    // At once, because its caller has waited for a round trip already.
                    self.cx.transmit(sent.flow(), entry.purpose, entry.command);
                }
            } else if let Some(answer) = answers.as_ref().and_then(|answers| answer(&entry, answers, number)) {
                let mut sent = *sent;
                sent.purpose = entry.purpose;
                self.answered(&sent, &answer);
            } else {
                self.failed(entry.purpose, failed());
            }
        }
        if !again.is_empty() {
            self.cx.transmit_entries(sent.flow(), Form::Source, again);
        }
    }

    /// The server has answered that it has done nothing. Its next silence begins now.
    fn is_still_wanted(&mut self, purpose: Purpose) -> bool {
        if !self.is_wanted(purpose) {
            self.failed(purpose, Failed::by(Failure::Unavailable(String::new()), Form::Digest));
            return false;
        }
        if let Some(op) = self.cx.call_behind(purpose)
            && let Some(open) = self.cx.ops.get_mut(&op)
        {
            open.sent = Some(self.cx.now);
        }
        if let Purpose::Acquire { lock, .. } = purpose {
            self.with(lock, |lock, cx| {
                if let Some(claim) = &mut lock.claim {
                    claim.sent = Some(cx.now);
                }
            });
        }
        true
    }
}

/// Parses the reply to the common path of these entries. Exclusive locks have scripts of their own with a shorter reply.
fn answers<'a>(reply: &'a Reply, entries: &[Queued]) -> Option<Answers<'a>> {
    let number = |scalar: &Scalar| u64::try_from(integer(scalar)?).ok();
    match (reply, entries) {
        (Reply::One(one), [Queued { common: CommonPath::Acquire, .. }]) => {
            // A fence is a text. Only a connection to something else answers another number than 0.
            let fence = number(one).filter(|fence| *fence == 0 || matches!(one, Scalar::Text(_)))?;
            Some(Answers { server: fence, fence, numbers: core::slice::from_ref(one) })
        }
        (Reply::List(list), [Queued { common: CommonPath::Acquire, .. }]) => {
            let [server, fence] = list.as_slice() else { return None };
            Some(Answers { server: number(server)?, fence: number(fence)?, numbers: core::slice::from_ref(fence) })
        }
        (Reply::One(one), [Queued { common: CommonPath::Release, .. }]) => {
            Some(Answers { numbers: core::slice::from_ref(one), ..Answers::default() })
        }
        (Reply::List(list), _) => {
            let [server, fence, numbers @ ..] = list.as_slice() else { return None };
            let (server, fence) = (number(server)?, number(fence)?);
            (numbers.len() == entries.len()).then_some(Answers { server, fence, numbers })
        }
        _ => None,
    }
}

/// An entry's answer, as if its own script had given it. None if the server's number is out of bounds.
fn answer(entry: &Queued, answers: &Answers<'_>, number: Option<i64>) -> Option<Answer> {
    let server = answers.server;
    let number = u64::try_from(number?).ok()?;
    let (status, value, block, left) = match entry.purpose {
        Purpose::Acquire { .. } => {
            let ahead = server.saturating_add(AHEAD).saturating_sub(answers.fence);
            let block = argument(&entry.command, ACQUIRE_BLOCK).min(ahead).max(1);
            (Status::Entered, fence(answers.fence, block)?, block, Some(argument(&entry.command, ACQUIRE_TTL)))
        }
        Purpose::Release { .. } => (Status::Released, 0, 0, None),
        _ => (Status::Renewed, 0, 0, Some(number)),
    };
    let waiting = match entry.common {
        _ if status == Status::Renewed => None,
        CommonPath::AcquireReentrant => Some(number.saturating_sub(1)),
        _ => Some(0),
    };
    Some(Answer { status, value, block, server, left: time_left(left)?, waiting, foreign: false })
}

/// A number that this client wrote into its command.
fn argument(command: &Command, index: usize) -> u64 {
    command.word(index).iter().fold(0, |number: u64, digit| number.wrapping_mul(10).wrapping_add(u64::from(digit & 15)))
}
