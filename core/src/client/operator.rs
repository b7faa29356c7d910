//! What operators ask for: who holds a lock and who waits for it, and to take it by force.
//!
//! Only the server knows the kind of a lock, so the script of each family is tried until one fits. Running the script
//! of a force release twice would do more than running it once, so it is never resent once it may have run.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::slice::Iter;

use super::Client;
use crate::error::{Error, Failure};
use crate::event::{Holder, Inspection, Outcome, Waiter};
use crate::ids::{Caller, Fence};
use crate::lock::waited;
use crate::options::{Family, Mode};
use crate::session::{Body, OpKind, Purpose, Request, needed};
use crate::text::{lossy, signed};
use crate::time::api::Duration;
use crate::wire::{Answer, Failed, FailureClass, Name, Reply, Scalar, Status, integer};

/// Why a force release leaves a key alone.
const NO_LEASE: &str = "it has no TTL; `foreign` deletes it";

impl Client {
    pub(super) fn inspect(&mut self, op: Caller, name: &str) {
        if let Some(name) = self.named(op, name, Family::Lock) {
            self.cx.open(op, OpKind::Inspect { name }, Some(self.cx.patience()));
            self.send_inspect(op);
        }
    }

    /// The name of a call that can begin. Otherwise the call ends with the reason.
    #[inline(never)]
    fn named(&mut self, op: Caller, name: &str, family: Family) -> Option<Arc<Name>> {
        let key = if self.cx.closed { Err(Error::Closed) } else { Name::check(&self.cx.config.prefix, name) };
        match key {
            Ok(key) => Some(Name::new(key, family)),
            Err(error) => {
                self.cx.refuse(op, error);
                None
            }
        }
    }

    pub(super) fn send_inspect(&mut self, op: Caller) {
        let Some(OpKind::Inspect { name }) = self.cx.ops.get(&op).map(|op| &op.kind) else { return };
        let request = Request::new(name, Body::Inspect);
        if self.cx.send(needed::CALL, Purpose::Inspect { op }, request) {
            self.cx.op_sent(op);
        }
    }

    pub(super) fn inspect_replied(&mut self, op: Caller, result: Result<Reply, Failure>) {
        let class = match result {
            Ok(reply) => match read(&reply) {
                Some(inspection) => return self.cx.complete(op, Ok(Outcome::Inspected(inspection))),
                None => FailureClass::Fatal(Error::Protocol(["inspect answered ", &reply.shown()].concat())),
            },
            Err(failure) => Failed::by(failure).class,
        };
        match class {
            FailureClass::Retry(_) => self.cx.send_op_again(op),
            FailureClass::Fatal(error) => self.cx.fail(op, error),
        }
    }
}

fn read(reply: &Reply) -> Option<Box<Inspection>> {
    let Reply::List(list) = reply else { return None };
    let rest = &mut list.iter();
    let now = number(rest)?;
    // Fences and places in the queue may be a little ahead of the clock.
    let since = |then: i64| Duration::from_micros(u64::try_from(now.saturating_sub(then)).unwrap_or(0));
    let holder = text(rest)?;
    let pttl = number(rest)?;
    let mut inspection = Box::<Inspection>::default();
    let last = number(rest)?;
    inspection.last_fence = (last > 0).then(|| Fence::new(last.unsigned_abs()));

    for _ in 0..number(rest)? {
        let token = text(rest)?;
        let left = number(rest)?.saturating_sub(now / 1000);
        inspection.holders.push(unnamed(token, Mode::Shared, time(left.max(0)), false));
    }
    if !holder.is_empty() && holder != "shared" {
        let remaining = time(pttl);
        let foreign = remaining.is_none() || !is_token(&holder);
        inspection.holders = Vec::from([unnamed(holder, Mode::Exclusive, remaining, foreign)]);
    }
    for _ in 0..number(rest)? {
        let token = text(rest)?;
        let record = text(rest)?;
        let (mode, callers) = of_record(&record);
        let waited = number(rest).map(since);
        inspection.waiters.push(Waiter { token, mode, waited, callers, label: None, lease_label: None });
    }
    // The last fence of a client that holds the lock alone is about the time of its grant.
    let granted = number(rest).filter(|granted| *granted > 0);
    if let [only] = inspection.holders.as_mut_slice()
        && !only.foreign
    {
        only.held = granted.map(since);
    }
    let listed = inspection.waiters.len() as u64;
    inspection.waiting = number(rest).map_or(listed, i64::unsigned_abs);
    inspection.limit = number(rest).and_then(|limit| limit.try_into().ok());
    inspection.per = number(rest).and_then(time);
    Some(inspection)
}

/// A time in ms. None if it is negative.
#[inline(never)]
fn time(ms: i64) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

/// The mode of a waiter and its callers: the first word of its record, and the last but one.
fn of_record(record: &str) -> (Mode, u64) {
    let (mut mode, mut last, mut callers) = (None, "", "");
    for word in record.split(' ') {
        mode = mode.or(Some(word));
        (callers, last) = (last, word);
    }
    (mode.and_then(Mode::read).unwrap_or(Mode::Exclusive), callers.parse().unwrap_or(1))
}

/// A holder whose labels are not known yet.
fn unnamed(token: String, mode: Mode, remaining: Option<Duration>, foreign: bool) -> Holder {
    Holder { token, mode, remaining, foreign, held: None, label: None, lease_label: None }
}

#[inline(never)]
fn number(rest: &mut Iter<'_, Scalar>) -> Option<i64> {
    integer(rest.next()?)
}

#[inline(never)]
fn text(rest: &mut Iter<'_, Scalar>) -> Option<String> {
    match rest.next()? {
        Scalar::Text(text) => Some(lossy(text)),
        Scalar::Int(number) => Some(signed(*number)),
        Scalar::Nil => None,
    }
}

/// Whether a text has the form `<uuid>:<counter>`.
pub(crate) fn is_token(text: &str) -> bool {
    let Some((uuid, counter)) = text.split_once(':') else { return false };
    let groups = uuid.split('-').map(str::len);
    groups.eq([8, 4, 4, 4, 12])
        && uuid.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
        && !counter.is_empty()
        && counter.bytes().all(|byte| byte.is_ascii_digit())
}

impl Client {
    pub(super) fn force(&mut self, op: Caller, name: &str, foreign: bool) {
        if let Some(name) = self.named(op, name, Family::Lock) {
            self.cx.open(op, OpKind::Force { name, foreign }, Some(self.cx.patience()));
            self.send_force(op);
        }
    }

    /// Deletes the result of a once. A second command could delete the next result, so it is as careful as a force release.
    pub(super) fn forget(&mut self, op: Caller, name: &str) {
        if let Some(name) = self.named(op, name, Family::Once) {
            self.cx.open(op, OpKind::Forget { name }, Some(self.cx.patience()));
            self.send_force(op);
        }
    }

    pub(super) fn send_force(&mut self, op: Caller) {
        let request = match self.cx.ops.get(&op).map(|op| &op.kind) {
            Some(OpKind::Force { name, foreign }) => {
                Request::new(name, Body::Force { foreign: *foreign, ahead: self.cx.config.ahead })
            }
            Some(OpKind::Forget { name }) => Request::new(name, Body::Forget),
            _ => return,
        };
        if self.cx.send(needed::CALL, Purpose::Force { op }, request) {
            self.cx.op_sent(op);
        }
    }

    pub(super) fn force_replied(&mut self, op: Caller, result: Result<Reply, Failure>) {
        let forgets = matches!(self.cx.ops.get(&op).map(|op| &op.kind), Some(OpKind::Forget { .. }));
        let failed = match result {
            Ok(Reply::One(Scalar::Int(deleted))) if forgets => {
                return self.cx.complete(op, Ok(Outcome::Forgotten(deleted > 0)));
            }
            Ok(reply) => match Answer::read(&reply) {
                Ok(answer) if answer.status == Status::Taken => {
                    return self.cx.fail(op, Error::WrongKind(NO_LEASE.into()));
                }
                Ok(answer) => {
                    let holders = u32::try_from(answer.value).unwrap_or(u32::MAX);
                    return self.cx.complete(op, Ok(Outcome::Revoked(holders)));
                }
                Err(text) => Failed::unreadable(text),
            },
            Err(failure) => Failed::by(failure),
        };
        match failed.class {
            // A second command could take the lock from the next holder.
            FailureClass::Retry(cause) if failed.maybe_applied => {
                let error = Error::unreachable(waited(&self.cx, op), Some(cause));
                self.cx.fail(op, error);
            }
            FailureClass::Retry(_) => self.cx.send_op_again(op),
            FailureClass::Fatal(error @ Error::WrongKind(_)) => {
                let Some(OpKind::Force { name, .. }) = self.cx.ops.get_mut(&op).map(|op| &mut op.kind) else { return };
                let Some(family) = name.family.next() else { return self.cx.fail(op, error) };
                *name = Name::new(name.key.as_ref().into(), family);
                self.cx.sends_another(op);
                self.send_force(op);
            }
            FailureClass::Fatal(error) => self.cx.fail(op, error),
        }
    }
}
