//! Who holds a lock by the majority's word, and taking it from whoever does.

use alloc::vec::Vec;

use crate::error::Error;
use crate::event::Input;
use crate::event::{Holder, Inspection, OpId, Outcome};
use crate::quorum::Quorum;
use crate::quorum::tally::Kind;

impl Quorum {
    pub(crate) fn inspect(&mut self, op: OpId, name: &str) {
        if self.cx.closed {
            return self.cx.answer(op, Err(Error::Closed));
        }
        self.ask_all(op, Kind::Inspect, |op| Input::Inspect { op, name });
    }

    /// Every server takes the lock from its holder.
    pub(crate) fn force(&mut self, op: OpId, name: &str) {
        if self.cx.closed {
            return self.cx.answer(op, Err(Error::Closed));
        }
        self.ask_all(op, Kind::Force, |op| Input::ForceRelease { op, name });
    }

    /// A holder is whom a majority names; it is told with the token and the time of the first that does. Nobody queues.
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

/// What a client's tokens have in common on all servers: all but the end of its id, and the counter.
fn owner(holder: &Holder) -> &str {
    if holder.foreign { &holder.token } else { holder.token.get(..32).unwrap_or(&holder.token) }
}
