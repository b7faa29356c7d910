//! What changes about a hold.

use crate::error::Error;
use crate::event::Outcome;
use crate::ids::{Caller, LeaseId, Token};
use crate::options::Mode;
use crate::session::{Context, InFlight, Slot};
use crate::time::Duration;

/// What changes about a hold: one thing at a time, until the server has answered.
#[derive(Clone, Hash, Default)]
pub(crate) enum Change {
    #[default]
    None,
    /// A renewal with this TTL, which the holders don't need: the next local caller waits for it, or it asks whether the
    /// server still has the lease.
    Renewal(Duration),
    /// An upgrade without a convert, which waits for a fence.
    Upgrade {
        op: Caller,
        lease: LeaseId,
    },
    Convert(Converting),
}

/// A convert that has not been answered.
#[derive(Clone, Hash)]
pub(crate) struct Converting {
    /// The call that waits for it.
    pub(crate) op: Option<Caller>,
    /// None while the lease is being detached: it has ended here.
    pub(super) lease: Option<LeaseId>,
    pub(crate) new: Token,
    pub(super) to: Mode,
    /// Whether it only makes the lease end earlier.
    pub(super) shortens: bool,
    /// Whether the old token leaves a tombstone: a command of it was unanswered when one of the copies was sent.
    pub(super) tombstone: bool,
    /// Whether its lease has ended meanwhile and the lock stays taken, so that a close waits for the answer.
    pub(super) is_left: bool,
    /// The release of that lease, which waits for the answer, too.
    pub(super) leaver: Option<Caller>,
    pub(crate) in_flight: InFlight,
    pub(crate) failures: u32,
    pub(crate) timer: Slot,
}

impl Converting {
    pub(super) fn new(cx: &mut Context, op: Option<Caller>, lease: Option<LeaseId>, to: Mode) -> Self {
        let new = cx.new_token();
        Self {
            op,
            lease,
            new,
            to,
            shortens: false,
            tombstone: false,
            is_left: false,
            leaver: None,
            in_flight: InFlight::default(),
            failures: 0,
            timer: None,
        }
    }

    /// The release that waits for it, if that has not ended. The caller of this function goes on with it.
    pub(super) fn take_leaver(&mut self, cx: &mut Context) -> Option<Caller> {
        self.leaver.take().filter(|op| cx.close_op(*op))
    }

    /// Ends the call that waits for it.
    pub(super) fn complete(&self, cx: &mut Context, result: Result<Outcome, Error>) {
        if let Some(op) = self.op {
            cx.complete(op, result);
        }
    }
}
