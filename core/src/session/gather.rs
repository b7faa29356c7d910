//! Scatter and gather: a user's call that is made to every part of a lease, and whose result is made of theirs.
//!
//! ```text
//!                .---> part 0 ---.
//! user's call ---+---> part 1 ---+---> one result
//!                '---> part 2 ---'
//! ```
//!
//! The parts are the names of a lease of several names, or the servers of a quorum. All names have to agree
//! (`client/multi`), or a majority of the servers (`quorum`).

use super::Context;
use super::op::{Gather, OpKind};
use crate::error::Error;
use crate::event::Outcome;
use crate::ids::Caller;

impl Context {
    /// Opens a user's call, given which of its parts are asked. Each part has its own time limit.
    pub(crate) fn scatter(&mut self, op: Caller, asked: impl Iterator<Item = bool>) {
        let parts = asked.map(|asked| (!asked).then_some(Err(Error::NotHeld)));
        self.open(op, OpKind::Gather(Gather(parts.collect())), None);
    }

    /// Opens a part that was not asked, if the user's call has not ended. Returns whether it did.
    #[cfg(feature = "quorum")]
    pub(crate) fn reopens(&mut self, op: Caller, part: u16) -> bool {
        let Some(OpKind::Gather(gather)) = self.ops.get_mut(&op).map(|op| &mut op.kind) else { return false };
        let Some(place) = gather.0.get_mut(usize::from(part)) else { return false };
        let was_not_asked = *place == Some(Err(Error::NotHeld));
        if was_not_asked {
            *place = None;
        }
        was_not_asked
    }

    /// Records the result of one part. None if the user's call has ended.
    pub(crate) fn gather(&mut self, op: Caller, part: u16, result: Result<Outcome, Error>) -> Option<&mut Gather> {
        let OpKind::Gather(gather) = &mut self.ops.get_mut(&op)?.kind else { return None };
        *gather.0.get_mut(usize::from(part))? = Some(result);
        Some(gather)
    }
}
