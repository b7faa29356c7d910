//! A user's call to all servers. Its result is what a majority says.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use super::Quorum;
use super::lock::denied;
use super::members::{CallKind, Task};
use crate::error::{Error, Vote};
use crate::event::{Holder, Input, Inspection, Outcome, ReleaseOutcome};
use crate::ids::{Caller, OpId};
use crate::lock::waited;
use crate::session::Gather;

impl Quorum {
    /// Asks all servers the same.
    pub(super) fn ask_all<'a>(&mut self, op: Caller, kind: CallKind, input: impl Fn(OpId) -> Input<'a>) {
        if self.cx.closed && kind != CallKind::Close {
            return self.cx.answer(op, Err(Error::Closed));
        }
        self.cx.scatter(op, self.members.list.iter().map(|_| true));
        for at in 0..self.members.count() {
            self.members.call(at, self.cx.now, Some(Task::Part(op, kind)), &input);
        }
    }

    /// A part of a call has ended. The call ends as soon as its outcome is certain.
    pub(super) fn part_ended(&mut self, op: Caller, kind: CallKind, at: u16, result: Result<Outcome, Error>) {
        let Some(gather) = self.cx.gather(op, at, result) else { return };
        let count = |which: fn(&Result<Outcome, Error>) -> bool| gather.answers().filter(|part| which(part)).count();
        let (yes, failed, open) = (count(agrees), count(fails), gather.open());
        let majority = self.members.majority();
        let certain = match kind {
            CallKind::Inspect | CallKind::Force | CallKind::Close => open == 0,
            CallKind::Release(_) => {
                yes >= majority || open == 0 || yes.saturating_add(open).saturating_add(failed) < majority
            }
            CallKind::Verify(_) | CallKind::Extend(..) => yes >= majority || yes.saturating_add(open) < majority,
        };
        if !certain {
            return;
        }
        let gather = mem::take(gather);
        let result = match kind {
            CallKind::Close => {
                let unreleased = by_majority(&leases(&gather), majority);
                Ok(Outcome::Closed { lost: self.cx.lost_by_close, unreleased })
            }
            // The other servers are too few to keep other clients from the lock.
            CallKind::Release(unknown)
                if yes >= majority
                    || failed.saturating_add(unknown) < majority && yes.saturating_add(failed) >= majority =>
            {
                Ok(Outcome::Released(ReleaseOutcome::Released))
            }
            _ if yes < majority && yes.saturating_add(open).saturating_add(failed) >= majority => {
                Err(self.failed(op, gather))
            }
            CallKind::Inspect => Ok(Outcome::Inspected(Box::new(majority_view(&gather, majority)))),
            // A holder that one server tells of its loss may give its lease back on the others before they are asked.
            CallKind::Force => Ok(Outcome::Revoked(leases(&gather).into_iter().max().unwrap_or(0))),
            CallKind::Verify(_) => Ok(Outcome::Verified(yes >= majority)),
            CallKind::Extend(lease, _) if yes >= majority => {
                self.valid_until(lease).map(|valid_until| Outcome::Extended { valid_until }).ok_or(Error::NotHeld)
            }
            CallKind::Extend(..) => Err(gather.0.into_iter().flatten().find_map(lost).unwrap_or(Error::NotHeld)),
            CallKind::Release(_) => Ok(Outcome::Released(ended_before(&gather))),
        };
        if let CallKind::Extend(lease, _) | CallKind::Verify(lease) = kind
            && let Some(lease) = self.cx.leases.get_mut(&lease)
        {
            lease.call_ended(op);
        }
        self.cx.complete(op, result);
    }

    fn failed(&self, op: Caller, gather: Gather) -> Error {
        let votes = gather.0.into_iter().zip(&self.members.list);
        let votes = votes.map(|(part, member)| Vote::new(member.server.clone(), part.map(|part| part.map(|_| ()))));
        denied(votes.collect(), waited(&self.cx, op), &self.members)
    }
}

fn agrees(part: &Result<Outcome, Error>) -> bool {
    use ReleaseOutcome::{AlreadyExpired, NotOwner};
    !matches!(part, Err(_) | Ok(Outcome::Verified(false) | Outcome::Released(AlreadyExpired | NotOwner)))
}

/// Whether an error says nothing about the lease.
fn fails(part: &Result<Outcome, Error>) -> bool {
    !matches!(part, Ok(_) | Err(Error::NotHeld | Error::Lost(_)))
}

fn lost(part: Result<Outcome, Error>) -> Option<Error> {
    part.err().filter(|error| matches!(error, Error::Lost(_)))
}

/// The outcome of a release that found no lease on a majority.
fn ended_before(gather: &Gather) -> ReleaseOutcome {
    let taken = gather.answers().any(|part| *part == Ok(Outcome::Released(ReleaseOutcome::NotOwner)));
    if taken { ReleaseOutcome::NotOwner } else { ReleaseOutcome::AlreadyExpired }
}

/// How many leases each server has revoked, or may still have after a close.
fn leases(gather: &Gather) -> Vec<u32> {
    let leases = gather.answers().map(|part| match part {
        Ok(Outcome::Revoked(leases) | Outcome::Closed { unreleased: leases, .. }) => *leases,
        _ => 0,
    });
    leases.collect()
}

/// How many leases a majority of the servers has.
pub(super) fn by_majority(leases: &[u32], majority: usize) -> u32 {
    let have_at_least = |count: u32| leases.iter().filter(|other| **other >= count).count();
    leases.iter().copied().filter(|count| have_at_least(*count) >= majority).max().unwrap_or(0)
}

/// A client holds the lock if a majority reports it, and is listed once. Its token and remaining time are from the first
/// server that does. The queue is the first server's.
fn majority_view(gather: &Gather, majority: usize) -> Inspection {
    let mut holders: Vec<Holder> = Vec::new();
    for holder in inspections(gather).flat_map(|seen| &seen.holders) {
        let is_same = |other: &Holder| owner(other) == owner(holder);
        let reports = inspections(gather).filter(|seen| seen.holders.iter().any(is_same)).count();
        if reports >= majority && !holders.iter().any(is_same) {
            holders.push(holder.clone());
        }
    }
    let (waiters, waiting) = match gather.0.first() {
        Some(Some(Ok(Outcome::Inspected(first)))) => (first.waiters.clone(), first.waiting),
        _ => (Vec::new(), 0),
    };
    let last_fence = inspections(gather).filter_map(|seen| seen.last_fence).max();
    Inspection { holders, waiters, waiting, last_fence, ..Inspection::default() }
}

/// What the servers have answered to an inspect.
fn inspections(gather: &Gather) -> impl Iterator<Item = &Box<Inspection>> {
    gather.answers().filter_map(|part| if let Ok(Outcome::Inspected(seen)) = part { Some(seen) } else { None })
}

/// The part of a token that is the same on all servers: the client's id without its last 16 bits, and without the counter.
fn owner(holder: &Holder) -> &str {
    if holder.foreign { &holder.token } else { holder.token.get(..32).unwrap_or(&holder.token) }
}
