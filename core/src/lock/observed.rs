//! Those who observe an election, and what they know.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::event::{Leader, Output};
use crate::ids::Caller;
use crate::session::{Context, Slot};
use crate::time::Instant;

/// Those who observe an election.
#[derive(Clone, Hash)]
pub(crate) struct Observed {
    pub(super) observers: Vec<Caller>,
    /// The last term that is known to have begun: its fence, and whether it is over. None until the first answer.
    pub(super) known: Option<(u64, bool)>,
    /// What the leader tells, and how long it had led when that was learned. None while nobody leads.
    pub(super) leader: Option<(String, Duration)>,
    /// When that was learned.
    pub(super) learned: Instant,
    /// The longest time that the leader was seen to have left. So each TTL has one question, whenever the leader renews.
    pub(super) ttl: Duration,
    pub(super) failures: u32,
    pub(super) timer: Slot,
}

impl Observed {
    fn leader(&self, now: Instant) -> Option<Leader> {
        let (fence, _) = self.known?;
        let (value, led) = self.leader.clone()?;
        Some(Leader { value, fence, led: led.saturating_add(now.since(self.learned)) })
    }

    /// Another client leads, or nobody.
    pub(super) fn change(&self, cx: &mut Context) {
        for op in self.observers.iter().copied() {
            self.tell(cx, op);
        }
    }

    pub(super) fn tell(&self, cx: &mut Context, op: Caller) {
        if let Caller::User(op) = op {
            cx.outputs.push_back(Output::Leader { op, leader: self.leader(cx.now) });
        }
    }
}

/// The beginning and the end of the channel of an election's observers.
const CHANNEL: [&str; 2] = ["leasehold:", ":leader"];

/// The key of the election that a channel is for.
pub(crate) fn observed_key(channel: &str) -> Option<&str> {
    let inner = channel.strip_prefix(CHANNEL[0])?.strip_suffix(CHANNEL[1])?;
    inner.strip_prefix(':').or_else(|| inner.strip_prefix('{')?.strip_suffix('}'))
}
