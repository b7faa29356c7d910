//! Those who observe an election, and what they know.

use alloc::vec::Vec;

use crate::event::{Leader, Output};
use crate::ids::Caller;
use crate::session::{Context, Slot};
use crate::time::{Duration, Instant};

/// Those who observe an election.
#[derive(Clone, Hash)]
pub(crate) struct Observed {
    pub(super) observers: Vec<Caller>,
    /// Whether the server has said who leads.
    pub(super) known: bool,
    /// Who leads, and how long it had led when that was learned. None if nobody does, or if the server has been silent for too long.
    pub(super) leader: Option<Leader>,
    /// The last term that was ever told, in the order of their fences, and whether it is over.
    pub(super) last: (u64, bool),
    /// When the server last said who leads.
    pub(super) learned: Instant,
    /// The longest time that the leader was seen to have left. So each TTL has one question, whenever the leader renews.
    pub(super) ttl: Duration,
    /// The longest time that any leader had left: their TTL. A new leader may have only a claim window at first.
    pub(super) longest: Duration,
    pub(super) failures: u32,
    pub(super) timer: Slot,
}

impl Observed {
    /// Another client leads, or nobody.
    pub(super) fn change(&self, cx: &mut Context) {
        for op in self.observers.iter().copied() {
            self.tell(cx, op);
        }
    }

    pub(super) fn tell(&self, cx: &mut Context, op: Caller) {
        if let Caller::User(op) = op {
            let mut leader = self.leader.clone();
            if let Some(leader) = &mut leader {
                leader.led = leader.led.saturating_add(cx.now.since(self.learned));
            }
            cx.outputs.push_back(Output::Leader { op, leader });
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
