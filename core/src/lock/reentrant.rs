//! The special parts of a reentrant lock: an owner that takes it again, and the lock's channel.
//!
//! On the server it is Redisson's `RLock`, whose clients have no queue. A client that releases the lock publishes a
//! message on the lock's channel, and all waiters ask again. The message is only a hint, so a waiter also asks from
//! time to time, and when the holder's lease should have ended.

use alloc::string::String;
use alloc::vec::Vec;

use super::LockState;
use crate::event::{Grant, Outcome};
use crate::ids::{Caller, Channel, LeaseId};
use crate::options::{Family, Kind, Wait};
use crate::session::Context;
use crate::time::Duration;
use crate::wire::Name;

impl LockState {
    /// The lease by which this owner holds the reentrant lock.
    pub(crate) fn owned(&self, cx: &Context, kind: Kind) -> Option<LeaseId> {
        if !matches!(kind, Kind::Reentrant(_)) {
            return None;
        }
        let holders = &self.hold.as_ref()?.holders;
        holders.iter().copied().find(|id| cx.leases.get(id).is_some_and(|lease| lease.kind == kind))
    }

    /// Adds one hold to the owner's lease.
    pub(crate) fn hold_again(&self, cx: &mut Context, op: Caller, id: LeaseId) {
        let Some(until) = self.hold.as_ref().map(|hold| hold.validity.until) else { return };
        let Some(lease) = cx.leases.get_mut(&id) else { return };
        lease.holds = lease.holds.saturating_add(1);
        let valid_until = lease.ends.map_or(until, |ends| ends.at.min(until));
        let grant = Grant { lease: id, mode: lease.mode, fence: lease.fence, valid_until, local: true };
        cx.answer(op, Ok(Outcome::Acquired(grant)));
    }

    /// Serves further calls of the owner that now holds the lock. Otherwise they would wait for themselves.
    pub(super) fn reenter(&mut self, cx: &mut Context, kind: Kind, id: LeaseId) {
        if !matches!(kind, Kind::Reentrant(_)) {
            return;
        }
        let same: Vec<_> =
            self.queue.iter().filter(|(op, other)| other.kind == kind && cx.ops.contains_key(op)).collect();
        for (op, options) in same {
            cx.close_op(op);
            self.queue.ended(options.wait == Wait::No, &cx.ops);
            self.hold_again(cx, op, id);
        }
    }

    /// Another client holds the lock, perhaps for `left`. Asks again when a message arrives on its channel, and periodically.
    pub(super) fn listen(&mut self, cx: &mut Context, left: Option<Duration>) {
        let (id, channel) = (self.id, channel(&self.name));
        let Some(claim) = self.claim.as_mut().filter(|claim| claim.waits) else { return };
        self.subscription.want(cx, Channel::Of(id), &channel);
        if self.subscription.is_polling() {
            claim.poll(cx, id);
        }
        claim.send_when_free(cx, id, left);
    }

    /// No caller waits for the lock any more.
    pub(super) fn stop_listening(&mut self, cx: &mut Context) {
        if self.name.family == Family::Reentrant {
            self.subscription.unsubscribe(cx, Channel::Of(self.id), &channel(&self.name));
        }
    }

    /// The timer of the channel's subscription fired.
    pub(crate) fn subscription_due(&mut self, cx: &mut Context) {
        if self.subscription.due(cx, Channel::Of(self.id), &channel(&self.name)) {
            self.ask_who_leads(cx);
        }
    }
}

/// The beginning of the channel's name.
const PREFIX: &str = "redisson_lock__channel:";

/// The lock's channel, or that of an election's observers.
pub(super) fn channel(name: &Name) -> String {
    let key = &*name.key;
    if name.family == Family::Election {
        return [name.side(), "leader"].concat();
    }
    if key.contains('{') { [PREFIX, key].concat() } else { [PREFIX, "{", key, "}"].concat() }
}

/// The keys of the locks that a channel can belong to.
pub(crate) fn keys_of(channel: &str) -> Option<[&str; 2]> {
    let whole = channel.strip_prefix(PREFIX)?;
    let inner = whole.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(whole);
    Some([whole, inner])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_leads_to_its_lock() {
        let channel = |key: &str| channel(&Name::new(key.into(), Family::Reentrant));
        for key in ["job", "{job}", "a{b}c", "x{y}"] {
            assert!(keys_of(&channel(key)).unwrap().contains(&key), "{key}");
        }
        assert_eq!(channel("job"), channel("{job}"));
        assert_eq!(keys_of("leasehold:0-1"), None);
    }
}
