//! The script that takes several names of one slot at once.
//!
//! Each name has its own machine with a claim, as usual. Only the command is shared. Its answer is distributed to the
//! machines, so each machine handles late, lost and duplicate answers by what it knows about its token.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::{Entry, part};
use crate::client::Client;
use crate::error::{Error, Failure, Votes};
use crate::ids::{LeaseId, LockId, OpId, Token};
use crate::lock::{Claim, LockState};
use crate::options::{Family, Wait};
use crate::session::{Call, Context, Form, OpKind, Purpose, covering, within};
use crate::wire::{Answer, Failed, FailureClass, Name, Reply, Status, fence, integer, time_left};

impl Client {
    /// Asks for all names with one script, if none of them is in use here.
    pub(crate) fn at_once(&mut self, number: LeaseId) {
        let Some(group) = self.multi.wanted(number) else { return };
        let (op, options, names) = (group.op, group.options, group.names.clone());
        let tries = options.wait == Wait::No;
        for name in &names {
            let in_use = self.locks.find(Family::Lock, &Name::key(&self.cx.config.prefix, name));
            let Some(lock) = in_use.and_then(|id| self.locks.get(id)) else { continue };
            // Another local caller comes first.
            let busy = lock.busy(&self.cx, op);
            return self.start_over(number, busy);
        }
        for (index, name) in names.iter().enumerate() {
            let Ok(lock) = self.locks.of(&self.cx, name, Family::Lock) else { return };
            let op = OpId(part(number, index));
            self.cx.open(op, OpKind::Acquire { lock, tries }, None);
            self.with(lock, |lock, cx| {
                lock.queue.push(op, options);
                let claim = Claim::new(cx.new_token(), &options);
                lock.claim = Some(Claim { first_sent: Some(cx.now), ..claim });
            });
        }
        self.send_multi(number, Form::Digest);
    }

    pub(crate) fn send_multi(&mut self, number: LeaseId, form: Form) {
        let Some(group) = self.multi.wanted(number) else { return };
        let ttl = group.options.ttl;
        let ttl = group.options.max_hold.map_or(ttl, |most| ttl.min(covering(most)));
        let (names, nobody) =
            (group.names.clone(), Error::Unreachable { waited: Duration::ZERO, cause: None, votes: Votes::default() });
        let mut parts = Vec::new();
        for name in names {
            let id = self.locks.find(Family::Lock, &Name::key(&self.cx.config.prefix, &name));
            let token = id.and_then(|id| self.locks.get(id)).and_then(LockState::present_token);
            // A part was held in the meantime and lost again.
            let (Some(id), Some(token)) = (id, token) else { return self.start_over(number, nobody) };
            parts.push((id, token));
        }
        let script = self.cx.new_lease();
        let named = parts.iter().filter_map(|(id, token)| Some((&self.locks.get(*id)?.name, *token)));
        let command = self.cx.multi_command(form, &named.collect::<Vec<_>>(), ttl);
        self.multi.insert(script, Entry::Script { group: number, parts });
        if self.cx.send(within::CALL, Purpose::Multi { script }, command) {
            self.multi_sent(script);
        }
    }

    /// The script has left: from now on it may take any of its tokens.
    pub(crate) fn multi_sent(&mut self, script: LeaseId) {
        let Some((group, parts)) = self.multi.script(script) else { return };
        self.for_each(&parts, |lock, token, _| {
            if let Some(in_flight) = lock.in_flight_of(token) {
                in_flight.sent();
            }
        });
        if let Some(op) = self.multi.wanted(group).map(|group| group.op) {
            self.cx.op_sent(op);
        }
    }

    /// Whether a queued script is still needed. If its group is gone, the script is removed.
    pub(crate) fn wants_multi(&mut self, script: LeaseId) -> bool {
        let Some((group, _)) = self.multi.script(script) else { return false };
        let wanted = self.multi.wanted(group).is_some_and(|group| group.by_script);
        if !wanted {
            self.multi.remove(script);
        }
        wanted
    }

    pub(crate) fn multi_replied(&mut self, call: &Call, script: LeaseId, result: Result<Reply, Failure>) {
        let Some(Entry::Script { group, parts }) = self.multi.remove(script) else { return };
        let failed = match result.map(|reply| read(&reply, parts.len())) {
            Ok(Ok(Taken::All(answers))) => {
                let mut answers = answers.iter();
                self.for_each(&parts, |lock, token, cx| {
                    if let Some(answer) = answers.next() {
                        lock.acquire_answered(cx, call, token, answer);
                    }
                });
                self.gather();
                // One part came too late to be useful, or was held before and lost.
                let waited = Duration::ZERO;
                return self.start_over(
                    group,
                    Error::Unreachable { waited, cause: Some(Failure::TimedOut), votes: Votes::default() },
                );
            }
            Ok(Ok(Taken::None(holder_remaining))) => {
                self.script_ended(&parts, false, None);
                return self.start_over(
                    group,
                    Error::Busy { waited: Duration::ZERO, holder_remaining, votes: Votes::default() },
                );
            }
            Ok(Err(text)) => Failed::unreadable(text),
            Err(failure) => Failed::by(failure, call.by_source),
        };
        let cause = if let FailureClass::Retry(cause) = &failed.class { Some(cause) } else { None };
        self.script_ended(&parts, failed.maybe_applied, cause);
        match failed.class {
            FailureClass::NoScript => {
                if let Some(op) = self.multi.wanted(group).map(|group| group.op) {
                    self.cx.sends_another(op);
                }
                self.send_multi(group, Form::Source);
            }
            // The same script again: tokens that have been granted by now are reported as such.
            FailureClass::Retry(_) => {
                if let Some(op) = self.multi.wanted(group).map(|group| group.op) {
                    self.cx.send_op_again(op);
                }
            }
            FailureClass::Fatal(error) => self.fail_all(group, error),
        }
    }

    fn script_ended(&mut self, parts: &[(LockId, Token)], maybe_applied: bool, cause: Option<&Failure>) {
        self.for_each(parts, |lock, token, _| {
            if let Some(in_flight) = lock.in_flight_of(token) {
                in_flight.ended(maybe_applied);
            }
            if let Some(claim) = lock.claim.as_mut().filter(|claim| claim.token == token) {
                claim.failure = cause.cloned();
            }
        });
    }

    fn for_each(&mut self, parts: &[(LockId, Token)], mut run: impl FnMut(&mut LockState, Token, &mut Context)) {
        for (lock, token) in parts {
            self.with(*lock, |lock, cx| run(lock, *token, cx));
        }
    }

    /// Ends a part's caller. The callers behind it relied on the script, so they now ask for themselves.
    pub(crate) fn stop_wanting(&mut self, op: OpId) {
        let Some(OpKind::Acquire { lock, .. }) = self.cx.ops.get(&op).map(|op| &op.kind) else { return };
        let lock = *lock;
        self.cancel(op, Error::Cancelled);
        self.with(lock, |lock, cx| {
            if lock.claim.as_ref().is_some_and(|claim| claim.timer.is_none()) {
                lock.heartbeat_due(cx);
            }
        });
    }
}

impl LockState {
    fn present_token(&self) -> Option<Token> {
        let held = self.hold.as_ref().map(|hold| hold.token);
        held.or_else(|| Some(self.claim.as_ref()?.token))
    }

    fn in_flight_of(&mut self, token: Token) -> Option<&mut crate::session::InFlight> {
        if let Some(claim) = self.claim.as_mut().filter(|claim| claim.token == token) {
            return Some(&mut claim.in_flight);
        }
        self.hold.as_mut().filter(|hold| hold.token == token).map(|hold| &mut hold.in_flight)
    }
}

enum Taken {
    /// One answer for each name, as if each had been asked for alone.
    All(Vec<Answer>),
    /// The remaining time of the lease that is in the way.
    None(Option<Duration>),
}

fn read(reply: &Reply, names: usize) -> Result<Taken, String> {
    let taken = match reply {
        Reply::List(list) => taken(list),
        Reply::One(_) => None,
    };
    let fits = |taken: &Taken| !matches!(taken, Taken::All(answers) if answers.len() != names);
    taken.filter(fits).ok_or_else(|| format!("several answered {reply}"))
}

fn taken(list: &[crate::wire::Scalar]) -> Option<Taken> {
    let [server, ms, parts @ ..] = list else { return None };
    let server = u64::try_from(integer(server)?).ok()?;
    let ms = u64::try_from(integer(ms)?).ok();
    let mut answers = Vec::new();
    for part in parts.chunks(2) {
        let [status, value] = part else { return None };
        let status = Answer::status(status)?;
        if status == Status::Busy {
            return Some(Taken::None(ms.map(Duration::from_millis)));
        }
        let left = time_left(ms)?;
        let value = fence(u64::try_from(integer(value)?).ok()?, 1)?;
        answers.push(Answer { status, value, block: 1, server, left, waiting: Some(0), foreign: false });
    }
    Some(Taken::All(answers))
}
