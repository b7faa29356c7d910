//! The script that takes several names of one slot at once.
//!
//! Each name has its own machine with a claim, as usual. Only the command is shared. Its answer is distributed to the
//! machines, so each machine handles late, lost and duplicate answers by what it knows about its token.

use alloc::string::String;
use alloc::vec::Vec;

use super::{AcquireAll, Entry, HoldAll, Script};
use crate::client::Client;
use crate::error::{Error, Failure};
use crate::ids::{Caller, LeaseId, LockId, PartId, Token};
use crate::lock::LockState;
use crate::session::{Body, Context, InFlight, Purpose, Request, SentCommand, needed, ttl_of};
use crate::time::Duration;
use crate::wire::{
    Answer, Failed, FailureClass, FenceCounter, Reply, Scalar, Status, fence, integer, is_cross_slot, time_left,
};

impl Client {
    pub(crate) fn send_multi(&mut self, id: LeaseId) {
        let Some(group) = self.multi.group(id) else { return };
        let ttl = ttl_of(&group.options);
        let (mut named, mut parts) = (Vec::new(), Vec::new());
        for ((index, grant), part) in (0..).zip(&group.grants).zip(&group.wanted) {
            let lock = self.lock_of_part(PartId::new(id, index), grant.as_ref());
            let Some((lock, token)) = lock.and_then(|lock| Some((lock, lock.present_token()?))) else {
                // A part was held in the meantime and lost again.
                return self.start_over(id, None, Error::unreachable(Duration::ZERO, None));
            };
            // A reader may have its share of a lock that this client holds exclusively.
            let mode = lock.hold.as_ref().map_or(part.mode, |hold| hold.mode);
            named.push((lock.name.clone(), token, part.kind, mode));
            parts.push((lock.id, token));
        }
        let Some(name) = named.first().map(|(name, ..)| name.clone()) else { return };
        let request = Request { name, body: Body::Multi { parts: named, ttl } };
        let script = self.cx.new_lease();
        self.multi.open.insert(script, Entry::Script(Script { group: id, parts }));
        if self.cx.send(needed::CALL, Purpose::Multi { script }, request) {
            self.multi_sent(script);
        }
    }

    /// The script has left: from now on it may take any of its tokens.
    pub(crate) fn multi_sent(&mut self, script: LeaseId) {
        let Some(Script { group, parts }) = self.multi.script(script) else { return };
        let (group, parts) = (*group, parts.clone());
        self.for_each(&parts, |lock, token, _| {
            if let Some(in_flight) = lock.in_flight_of(token) {
                in_flight.sent();
            }
        });
        if let Some(group) = self.multi.group(group) {
            self.cx.op_sent(group.op);
        }
    }

    /// Whether a script is still needed.
    pub(crate) fn wants_multi(&self, script: LeaseId) -> bool {
        let group = self.multi.script(script).and_then(|script| self.multi.group(script.group));
        group.is_some_and(|group| group.by_script)
    }

    /// A queued script is not needed any more.
    pub(crate) fn drop_multi(&mut self, script: LeaseId) {
        self.multi.open.remove(&script);
    }

    /// The server has done nothing.
    pub(crate) fn multi_undone(&mut self, script: LeaseId) {
        if let Some(script) = self.multi.script(script) {
            let (group, parts) = (script.group, script.parts.clone());
            self.script_ended(group, &parts, None);
        }
    }

    pub(crate) fn multi_replied(&mut self, sent: &SentCommand, script: LeaseId, result: Result<Reply, Failure>) {
        let Some(Entry::Script(Script { group, parts })) = self.multi.open.remove(&script) else { return };
        let failed = match result.map(|reply| read(&reply, parts.len())) {
            Ok(Ok(Taken::All(answers))) => {
                let mut answers = answers.iter();
                self.for_each(&parts, |lock, token, cx| {
                    if let Some(answer) = answers.next() {
                        lock.acquire_answered(cx, sent, token, answer, b"");
                    }
                });
                self.gather();
                // One part came too late to be useful, or was held before and lost.
                return self.start_over(group, None, Error::unreachable(Duration::ZERO, Some(Failure::TimedOut)));
            }
            Ok(Ok(Taken::None(full, holder_remaining))) => {
                self.script_ended(group, &parts, None);
                return self.start_over(group, Some(full), Error::busy(Duration::ZERO, holder_remaining));
            }
            Ok(Err(text)) => Failed::unreadable(text),
            Err(failure) => Failed::by(failure),
        };
        self.script_ended(group, &parts, Some(&failed));
        let Some(op) = self.multi.group(group).map(|group| group.op) else { return };
        match failed.class {
            // The same script again: tokens that have been granted by now are reported as such.
            FailureClass::Retry(_) => self.cx.send_op_again(op),
            // The client has learned since then that the server enforces slots.
            FailureClass::Fatal(Error::Server(text))
                if is_cross_slot(&text) && matches!(self.cx.counter, FenceCounter::Slots(_)) =>
            {
                self.start_over(group, None, Error::CrossSlot);
            }
            FailureClass::Fatal(error) => self.fail_all(group, None, error),
        }
    }

    /// The script has failed, or it has answered that not all parts are free.
    fn script_ended(&mut self, group: LeaseId, parts: &[(LockId, Token)], failed: Option<&Failed>) {
        let cause = match failed {
            Some(Failed { class: FailureClass::Retry(cause), .. }) => Some(cause),
            _ => None,
        };
        self.for_each(parts, |lock, token, cx| {
            match (lock.in_flight_of(token), failed) {
                (Some(in_flight), Some(failed)) => in_flight.failed(failed),
                (Some(in_flight), None) => in_flight.answered(),
                (None, _) => {}
            }
            if let Some(claim) = lock.claim.as_mut().filter(|claim| claim.token == token) {
                claim.failure = cause.cloned();
                // A caller that took the place of the part relied on the script.
                let is_part = |op| matches!(op, Caller::Part(part) if part.whole() == group);
                if lock.queue.head().is_some_and(|(op, _)| !is_part(op)) {
                    lock.heartbeat_due(cx);
                }
            }
        });
    }

    fn for_each(&mut self, parts: &[(LockId, Token)], mut run: impl FnMut(&mut LockState, Token, &mut Context)) {
        for (lock, token) in parts {
            self.with(*lock, |lock, cx| run(lock, *token, cx));
        }
    }
}

impl LockState {
    fn present_token(&self) -> Option<Token> {
        let held = self.hold.as_ref().map(|hold| hold.token);
        held.or_else(|| Some(self.claim.as_ref()?.token))
    }

    /// The commands that may still take this token.
    pub(crate) fn in_flight_of(&mut self, token: Token) -> Option<&mut InFlight> {
        if let Some(claim) = self.claim.as_mut().filter(|claim| claim.token == token) {
            return Some(&mut claim.in_flight);
        }
        let hold = self.hold.as_mut()?;
        if hold.token == token {
            return Some(&mut hold.in_flight);
        }
        hold.converting_mut().filter(|converting| converting.new == token).map(|converting| &mut converting.in_flight)
    }
}

enum Taken {
    /// One answer for each name, as if each had been asked for alone.
    All(Vec<Answer>),
    /// The first part that is full, and the remaining time of the lease that is in the way.
    None(u16, Option<Duration>),
}

fn read(reply: &Reply, names: usize) -> Result<Taken, String> {
    let taken = match reply {
        Reply::List(list) => taken(list),
        Reply::One(_) => None,
    };
    let fits = |taken: &Taken| match taken {
        Taken::All(answers) => answers.len() == names,
        Taken::None(full, _) => usize::from(*full) < names,
    };
    taken.filter(fits).ok_or_else(|| ["multi answered ", &reply.shown()].concat())
}

fn taken(list: &[Scalar]) -> Option<Taken> {
    let [server, ms, parts @ ..] = list else { return None };
    let server = u64::try_from(integer(server)?).ok()?;
    let ms = u64::try_from(integer(ms)?).ok();
    let mut answers = Vec::new();
    for part in parts.chunks(2) {
        let [status, value] = part else { return None };
        let status = Answer::status(status)?;
        let value = u64::try_from(integer(value)?).ok()?;
        if status == Status::Busy {
            let full = u16::try_from(value).ok()?.checked_sub(1)?;
            return Some(Taken::None(full, ms.map(Duration::from_millis)));
        }
        let left = time_left(ms)?;
        // Others may wait behind a part that was the caller's.
        let waiting = (status == Status::Entered).then_some(0);
        let value = fence(value, 1)?;
        answers.push(Answer { status, value, block: 1, server, left, waiting, foreign: false, elsewhere: None });
    }
    Some(Taken::All(answers))
}
