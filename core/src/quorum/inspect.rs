//! Reading the holder that a majority reports, and taking a lock by force.

use alloc::vec::Vec;

use super::Quorum;
use crate::error::Error;
use crate::event::{Holder, Input, Inspection, Outcome};
use crate::ids::OpId;
use crate::session::TallyKind;

impl Quorum {
    pub(crate) fn inspect(&mut self, op: OpId, name: &str) {
        if self.cx.closed {
            return self.cx.answer(op, Err(Error::Closed));
        }
        self.ask_all(op, TallyKind::Inspect, |op| Input::Inspect { op, name });
    }

    /// Takes the lock from its holder on every server.
    pub(crate) fn force(&mut self, op: OpId, name: &str) {
        if self.cx.closed {
            return self.cx.answer(op, Err(Error::Closed));
        }
        self.ask_all(op, TallyKind::Force, |op| Input::ForceRelease { op, name });
    }

    /// A holder counts if a majority reports it. Its token and remaining time are from the first server that
    /// does. There are no queues.
    pub(crate) fn majority_view(&self, parts: &[Option<Result<Outcome, Error>>]) -> Inspection {
        let seen: Vec<&Inspection> = parts
            .iter()
            .filter_map(|part| if let Some(Ok(Outcome::Inspected(seen))) = part { Some(seen) } else { None })
            .collect();
        let by_majority = |holder: &Holder| {
            let same = seen.iter().filter(|seen| seen.holders.iter().any(|other| owner(other) == owner(holder)));
            same.count() >= self.members.majority()
        };
        let holders = seen.iter().find_map(|seen| seen.holders.iter().find(|holder| by_majority(holder)));
        Inspection {
            holders: holders.cloned().into_iter().collect(),
            waiters: Vec::new(),
            last_fence: seen.iter().filter_map(|seen| seen.last_fence).max(),
        }
    }
}

/// The part of a token that is the same on all servers: the client's id without its last 16 bits, and without the counter.
fn owner(holder: &Holder) -> &str {
    if holder.foreign { &holder.token } else { holder.token.get(..32).unwrap_or(&holder.token) }
}
