//! A user's call with a part for each server.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::Quorum;
use super::lock::denied;
use super::members::Task;
use crate::error::{Error, Vote};
use crate::event::{Input, Outcome, ReleaseOutcome};
use crate::ids::OpId;
use crate::lock::waited;
use crate::session::{Context, OpKind, Tally, TallyKind};

impl Context {
    /// Opens a call. Each of its parts has its own time limit.
    pub(crate) fn open_tally(&mut self, op: OpId, tally: Tally) {
        self.open(op, OpKind::Tally(Box::new(tally)), None);
    }
}

impl Quorum {
    /// Asks all servers the same.
    pub(crate) fn ask_all<'a>(&mut self, op: OpId, kind: TallyKind, input: impl Fn(OpId) -> Input<'a>) {
        let servers = self.members.list.len();
        let tally = Tally { kind, parts: (0..servers).map(|_| None).collect() };
        self.cx.open_tally(op, tally);
        for at in (0..servers).filter_map(|at| u16::try_from(at).ok()) {
            let part = self.members.new_op(Some(Task::Part(op)));
            self.members.tell(at, self.cx.now, input(part));
        }
    }

    /// A part of a call has ended. The call ends as soon as its outcome is certain.
    pub(crate) fn part_ended(&mut self, op: OpId, at: u16, result: Result<Outcome, Error>) {
        let Some(OpKind::Tally(tally)) = self.cx.ops.get_mut(&op).map(|op| &mut op.kind) else { return };
        if let Some(part) = tally.parts.get_mut(usize::from(at)) {
            *part = Some(result);
        }
        let majority = self.members.majority();
        let open = tally.count(Option::is_none);
        let yes = tally.count(|part| matches!(part, Some(Ok(outcome)) if agrees(outcome)));
        let failed = tally.count(|part| matches!(part, Some(Err(error)) if fails(error)));
        let waits_for_all = matches!(tally.kind, TallyKind::Inspect | TallyKind::Force | TallyKind::Close);
        let certain = if waits_for_all { open == 0 } else { yes >= majority || yes.saturating_add(open) < majority };
        if !certain {
            return;
        }
        let kind = tally.kind;
        let parts = core::mem::take(&mut tally.parts);
        let result = match kind {
            TallyKind::Close => Ok(Outcome::Closed { unreleased: unreleased(&parts, majority) }),
            _ if yes < majority && yes.saturating_add(open).saturating_add(failed) >= majority => {
                Err(self.failed(op, parts))
            }
            TallyKind::Inspect => Ok(Outcome::Inspected(self.majority_view(&parts))),
            TallyKind::Force => {
                let had = parts.iter().filter(|part| matches!(part, Some(Ok(Outcome::Revoked(1..)))));
                Ok(Outcome::Revoked(u32::from(had.count() >= majority)))
            }
            TallyKind::Verify(_) => Ok(Outcome::Verified(yes >= majority)),
            TallyKind::Extend(lease) if yes >= majority => {
                self.valid_until(lease).map(|valid_until| Outcome::Extended { valid_until }).ok_or(Error::NotHeld)
            }
            TallyKind::Extend(_) => Err(parts.into_iter().flatten().find_map(lost).unwrap_or(Error::NotHeld)),
            TallyKind::Release => Ok(Outcome::Released(released(&parts, yes >= majority))),
        };
        if let TallyKind::Extend(lease) | TallyKind::Verify(lease) = kind
            && let Some(lease) = self.cx.leases.get_mut(&lease)
        {
            lease.pending.retain(|pending| *pending != op);
        }
        self.cx.complete(op, result);
    }

    fn failed(&self, op: OpId, parts: Vec<Option<Result<Outcome, Error>>>) -> Error {
        let votes = parts
            .into_iter()
            .zip(&self.members.list)
            .map(|(part, member)| Vote { server: member.server.clone(), answer: part.map(|part| part.map(|_| ())) });
        let votes = votes.collect();
        denied(votes, waited(&self.cx, op), &self.members)
    }
}

const fn agrees(outcome: &Outcome) -> bool {
    !matches!(
        outcome,
        Outcome::Verified(false) | Outcome::Released(ReleaseOutcome::AlreadyExpired | ReleaseOutcome::NotOwner)
    )
}

/// Whether the error says nothing about the lease.
const fn fails(error: &Error) -> bool {
    !matches!(error, Error::NotHeld | Error::Lost(_))
}

fn lost(part: Result<Outcome, Error>) -> Option<Error> {
    part.err().filter(|error| matches!(error, Error::Lost(_)))
}

fn released(parts: &[Option<Result<Outcome, Error>>], by_majority: bool) -> ReleaseOutcome {
    let taken = parts.iter().any(|part| matches!(part, Some(Ok(Outcome::Released(ReleaseOutcome::NotOwner)))));
    match by_majority {
        true => ReleaseOutcome::Released,
        false if taken => ReleaseOutcome::NotOwner,
        false => ReleaseOutcome::AlreadyExpired,
    }
}

/// How many leases a majority of the servers may still have.
fn unreleased(parts: &[Option<Result<Outcome, Error>>], majority: usize) -> u32 {
    let left = parts.iter().map(|part| match part {
        Some(Ok(Outcome::Closed { unreleased })) => *unreleased,
        _ => 0,
    });
    let mut left: Vec<u32> = left.collect();
    left.sort_unstable_by(|one, other| other.cmp(one));
    left.get(majority.saturating_sub(1)).copied().unwrap_or(0)
}
