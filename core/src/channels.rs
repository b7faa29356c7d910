//! Messages: grants and notices on the client's channel, and releases on the channel of a reentrant lock.

use crate::context::Context;
use crate::message::Message;
use crate::node::Node;
use crate::options::Family;
use crate::reentrant;
use crate::request::Request;
use crate::subscription::{Channel, Subscription};

impl Node {
    pub(crate) fn message(&mut self, channel: &str, payload: &[u8]) {
        if reentrant::keys_of(channel).is_some() {
            // A holder has released it.
            return self.ask_on(channel);
        }
        match Message::read(payload) {
            Some(Message::Grant(grant)) => {
                if self.cx.client != grant.client {
                    return;
                }
                let lock = self.resources.find(Family::Lock, grant.key);
                for id in lock.into_iter().chain(self.lanes(grant.key)) {
                    self.with(id, |resource, cx| resource.grant_received(cx, &grant));
                }
            }
            Some(Message::Revoked { client, token, key }) if self.cx.client == client => {
                let lock = [Family::Lock, Family::Reentrant].map(|family| self.resources.find(family, key));
                for id in lock.into_iter().flatten().chain(self.lanes(key)) {
                    self.with(id, |resource, cx| {
                        resource.revoked(cx, token);
                    });
                }
            }
            Some(Message::Wanted { key }) => {
                let lock = self.resources.find(Family::Lock, key);
                for id in lock.into_iter().chain(self.lanes(key)) {
                    self.with(id, |resource, cx| {
                        if let Some(tenure) = &mut resource.tenure {
                            tenure.heard(cx, id, Some(1));
                        }
                        resource.settle(cx, None);
                    });
                }
            }
            Some(Message::Revoked { .. }) | None => {}
        }
    }

    /// A subscription changed. Waiters ask again, to join the queue or to find out what they missed.
    pub(crate) fn subscription(&mut self, channel: &str, change: impl Fn(&mut Subscription, &mut Context, Channel)) {
        let Some(keys) = reentrant::keys_of(channel) else {
            self.cx.with_own(|own, cx, _| change(own, cx, Channel::Own));
            return self.ask_for_all(|_| true);
        };
        for key in keys {
            let Some(id) = self.resources.find(Family::Reentrant, key) else { continue };
            self.with(id, |resource, cx| change(&mut resource.subscription, cx, Channel::Of(id)));
        }
        self.ask_on(channel);
    }

    /// The waiters for a reentrant lock ask again.
    fn ask_on(&mut self, channel: &str) {
        for key in reentrant::keys_of(channel).into_iter().flatten() {
            let Some(id) = self.resources.find(Family::Reentrant, key) else { continue };
            self.with(id, |resource, cx| {
                if resource.request.as_ref().is_some_and(|request| request.waits && request.is_known_busy()) {
                    resource.heartbeat_due(cx);
                }
            });
        }
    }

    /// The subscription to the client's channel changed. Waiters ask again, to join the queue or to find a
    /// grant whose message was lost.
    pub(crate) fn ask_for_all(&mut self, which: impl Fn(&Request) -> bool) {
        for id in self.resources.ids() {
            self.with(id, |resource, cx| {
                // A reentrant lock has its own channel.
                let own = resource.name.family != Family::Reentrant;
                if own && resource.request.as_ref().is_some_and(|request| request.waits && which(request)) {
                    resource.heartbeat_due(cx);
                }
            });
        }
    }
}
