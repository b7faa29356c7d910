//! Messages: grants and notices on the client's channel, and releases on the channel of a reentrant lock.

use alloc::vec::Vec;

use super::Client;
use crate::ids::{Channel, LockId, Token};
use crate::lock::{Claim, LockState, keys_of, observed_key};
use crate::options::Family;
use crate::session::{Context, Subscription};
use crate::time::Duration;
use crate::wire::Message;

impl Client {
    pub(super) fn message(&mut self, channel: &str, payload: &[u8]) {
        if let Some(key) = observed_key(channel) {
            return self.leader_published(key, payload);
        }
        if keys_of(channel).is_some() {
            // A holder has released it.
            return self.ask_on(channel);
        }
        match Message::read(payload) {
            Some(Message::Grant(grant)) => {
                if self.cx.client != grant.client {
                    return;
                }
                for id in self.machines(Family::ALL, grant.key) {
                    self.with(id, |lock, cx| lock.grant_received(cx, &grant));
                }
            }
            Some(Message::Revoked { client, token, key }) if self.cx.client == client => self.revoked(token, key),
            Some(Message::Wanted { key }) => {
                for id in self.machines(&[Family::Lock], key) {
                    self.with(id, |lock, cx| {
                        if let Some(hold) = &mut lock.hold {
                            hold.note_waiting(cx, id, Some(1));
                        }
                        lock.settle(cx, None);
                    });
                }
            }
            Some(Message::Tried { key }) => {
                if let Some(id) = self.locks.find(Family::Lock, key) {
                    self.with(id, LockState::tried);
                }
            }
            Some(Message::Done { key }) => {
                if let Some(id) = self.locks.find(Family::Once, key) {
                    self.with(id, |lock, cx| {
                        if lock.claim.as_ref().is_some_and(|claim| claim.waits) {
                            lock.heartbeat_due(cx);
                        }
                    });
                }
            }
            Some(Message::Next { token, left, key }) => {
                for id in self.lanes(key) {
                    self.with(id, |lock, cx| {
                        if let Some(claim) = lock.claim.as_mut().filter(|claim| claim.token == token) {
                            claim.send_when_free(cx, id, Some(left));
                        }
                    });
                }
            }
            Some(Message::Revoked { .. }) | None => {}
        }
    }

    /// The machines of a name in these families, and its lanes.
    #[inline(never)]
    fn machines(&self, families: &[Family], key: &str) -> Vec<LockId> {
        let mut machines = Vec::new();
        for family in families {
            machines.extend(self.locks.find(*family, key));
        }
        machines.extend(self.lanes(key));
        machines
    }

    /// The server has taken the lock from a token of this client.
    fn revoked(&mut self, token: Token, key: &str) {
        let mut machines = self.machines(Family::ALL, key);
        let adopted = self.locks.iter().filter(|lock| lock.adopts.is_some() && &*lock.name.key == key);
        machines.extend(adopted.map(|lock| lock.id));
        for id in machines {
            self.with(id, |lock, cx| lock.revoked(cx, token));
        }
    }

    /// An answer to a token that may adopt a lease. If the lease was one of this client, the server publishes nothing.
    #[inline(never)]
    pub(super) fn adopted(&mut self, by: LockId, token: Token) {
        let Some(lock) = self.locks.get(by).filter(|lock| lock.wants_to_ask(token)) else { return };
        if let Some(old) = lock.adopts.filter(|old| old.client.text() == self.cx.client) {
            let key = lock.name.key.clone();
            self.revoked(old.token, &key);
        }
    }

    /// A subscription changed. Waiters ask again, to join the queue or to find out what they missed.
    pub(crate) fn subscription(&mut self, channel: &str, change: &dyn Fn(&mut Subscription, &mut Context, Channel)) {
        if let Some(key) = observed_key(channel) {
            let Some(id) = self.locks.find(Family::Election, key) else { return };
            return self.with(id, |lock, cx| {
                change(&mut lock.subscription, cx, Channel::Of(id));
                lock.observes_anew(cx);
            });
        }
        let Some(keys) = keys_of(channel) else {
            self.cx.with_own(|own, cx, _| change(own, cx, Channel::Own));
            return self.ask_for_all(&|_| true);
        };
        for key in keys {
            let Some(id) = self.locks.find(Family::Reentrant, key) else { continue };
            self.with(id, |lock, cx| change(&mut lock.subscription, cx, Channel::Of(id)));
        }
        self.ask_on(channel);
    }

    /// The waiters for a reentrant lock ask again.
    fn ask_on(&mut self, channel: &str) {
        for key in keys_of(channel).into_iter().flatten() {
            let Some(id) = self.locks.find(Family::Reentrant, key) else { continue };
            self.with(id, |lock, cx| {
                if lock.claim.as_ref().is_some_and(|claim| claim.waits && claim.is_known_busy()) {
                    lock.heartbeat_due(cx);
                }
            });
        }
    }

    /// The subscription to the client's channel changed. Waiters ask again, to join the queue or to find a
    /// grant whose message was lost. Holders whose lease may have been adopted find out whether it was.
    pub(super) fn ask_for_all(&mut self, which: &dyn Fn(&Claim) -> bool) {
        for id in self.locks.ids() {
            self.with(id, |lock, cx| {
                // A reentrant lock has its own channel.
                let own = lock.name.family != Family::Reentrant;
                if own && lock.claim.as_ref().is_some_and(|claim| claim.waits && which(claim)) {
                    lock.heartbeat_due(cx);
                }
                if lock.hold.as_ref().is_some_and(|hold| hold.tainted) {
                    // Less than any lease has left, so this sets nothing.
                    lock.renew_to(cx, Duration::from_millis(1));
                }
            });
        }
    }
}
