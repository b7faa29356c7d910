//! The fast path, and batches: the requests that a client has for one server at one moment share one script call.
//!
//! ```text
//!  send_fast --> wait --the driver wakes the engine--> fast path --reply--> each entry's own answer
//!                                                                 \
//!                                                                  '-- an entry left undone --> its own script
//! ```
//!
//! The scripts of the fast path are short: a free lock is taken, a lock that nobody waits for is given back, a lease is
//! renewed. One command alone has a script of its own; several share `batch`. An entry that needs more, or that the
//! server refuses, changes nothing and is sent to its own script, as if it had never been tried. So one entry's error is
//! never another's. A quorum skips the fast path of a lock that other clients are known to want. Gray and Reuter,
//! Transaction Processing (1992), section 10.3.4, describes group commit.

use alloc::vec::Vec;

use super::Client;
use crate::error::Failure;
use crate::options::Family;
use crate::session::{Body, Form, Purpose, Queued, SentCommand, has_fast_script};
use crate::wire::{Answer, Failed, Reply, Scalar, Status, fence, integer, natural, time_left};

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
    /// Sends the batches that are due. The driver has no other input now, so nothing more will be added.
    #[inline(never)]
    pub(super) fn pump_batches(&mut self) {
        while let Some(flow) = self.cx.flows.batch_due(self.cx.now) {
            let mut entries = self.cx.flows.take_batch(self.cx.now, flow);
            entries.retain(|entry| self.is_wanted(entry.purpose));
            for entry in &mut entries {
                self.renew_for_now(entry.purpose, &mut entry.request);
                self.sent(entry.purpose);
            }
            self.cx.transmit_batch(flow, Form::Digest, entries);
        }
    }

    pub(super) fn batch_replied(&mut self, sent: &SentCommand, entries: Vec<Queued>, result: Result<Reply, Failure>) {
        let answers = result.as_ref().ok().and_then(|reply| answers(reply, &entries));
        let failed = || match &result {
            Ok(reply) => Failed::unreadable(reply.shown()),
            Err(failure) => Failed::by(failure.clone()),
        };
        // The reason may be one entry: for example, the user may not touch its name. Each one gets its own answer.
        // Unless a slot has begun to move while the script ran: then it has done a part of its work.
        let refused =
            matches!(&result, Err(failure @ Failure::Refused(_)) if !Failed::by(failure.clone()).maybe_applied);
        if refused && entries.len() == 1 {
            // Perhaps this user may not run `DELIFEQ`, or an older server has taken over. The scripts work everywhere.
            self.cx.delete_if_equal = None;
        }
        for (index, entry) in entries.into_iter().enumerate() {
            let number = answers.as_ref().and_then(|answers| integer(answers.numbers.get(index)?));
            if refused || number == Some(0) {
                if self.goes_on(entry.purpose) {
                    // At once, because its caller has waited for a round trip already.
                    self.cx.transmit(sent.flow(), entry.purpose, Form::Digest, entry.request);
                }
            } else if let Some(answer) = answers.as_ref().and_then(|answers| answer(&entry, answers, number)) {
                let mut sent = *sent;
                sent.purpose = entry.purpose;
                self.answered(&sent, &answer, b"");
            } else {
                self.failed(entry.purpose, failed());
            }
        }
    }
}

/// Parses the reply to the fast path of these entries. Exclusive locks have scripts of their own with a shorter reply.
fn answers<'a>(reply: &'a Reply, entries: &[Queued]) -> Option<Answers<'a>> {
    let alone = match entries {
        [entry] if has_fast_script(&entry.request) => Some(entry.purpose),
        _ => None,
    };
    match (reply, alone) {
        (Reply::One(one), Some(Purpose::Acquire { .. })) => {
            // A fence is a text. Only a connection to something else answers another number than 0.
            let fence = natural(one).filter(|fence| *fence == 0 || matches!(one, Scalar::Text(_)))?;
            Some(Answers { server: fence, fence, numbers: core::slice::from_ref(one) })
        }
        (Reply::List(list), Some(Purpose::Acquire { .. })) => {
            let [server, fence] = list.as_slice() else { return None };
            Some(Answers { server: natural(server)?, fence: natural(fence)?, numbers: core::slice::from_ref(fence) })
        }
        (Reply::One(one), Some(Purpose::Release { .. })) => {
            Some(Answers { numbers: core::slice::from_ref(one), ..Answers::default() })
        }
        (Reply::List(list), _) => {
            let [server, fence, numbers @ ..] = list.as_slice() else { return None };
            let (server, fence) = (natural(server)?, natural(fence)?);
            (numbers.len() == entries.len()).then_some(Answers { server, fence, numbers })
        }
        _ => None,
    }
}

/// An entry's answer, as if its own script had given it. None if the server's number is out of bounds.
fn answer(entry: &Queued, answers: &Answers<'_>, number: Option<i64>) -> Option<Answer> {
    let server = answers.server;
    let number = u64::try_from(number?).ok()?;
    let (status, value, block, left, waiting) = match &entry.request.body {
        Body::Acquire(what) => {
            let ahead = server.saturating_add(AHEAD).saturating_sub(answers.fence);
            let block = what.block.min(ahead).max(1);
            let waiting = if entry.request.name.family == Family::Reentrant { number.saturating_sub(1) } else { 0 };
            (Status::Entered, fence(answers.fence, block)?, block, Some(what.ttl.as_millis()), Some(waiting))
        }
        Body::Release(_) => (Status::Released, 0, 0, None, Some(0)),
        _ => (Status::Renewed, 0, 0, Some(number), None),
    };
    Some(Answer { status, value, block, server, left: time_left(left)?, waiting, foreign: false, elsewhere: None })
}
