//! Channels: each client's own channel, and those of the reentrant locks. The servers count the listeners of the
//! latter. In a cluster, a message reaches the listeners of all nodes, but each node counts only its own.

use leasehold_core::Failure;

use crate::client::{Client, Delivery};
use crate::faults::Fault;
use crate::wire::{Life, life_of};
use crate::world::{ClusterRun, Event};

/// The beginning of a client's own channel.
pub(crate) const OWN: &str = "leasehold:";

/// A channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// A client's own channel.
    Own,
    /// A reentrant lock's channel. If locks share it, as `a` and `{a}` do, the index of the first one.
    Lock(usize),
}

/// A client that listens on the channel of a reentrant lock.
struct Listener {
    /// None for a client of another library.
    life: Option<Life>,
    /// The node of the cluster that its subscription is at.
    node: Option<usize>,
}

/// The channel on which the releases of a reentrant lock are published, by Redisson's rule.
pub(crate) fn channel_of(name: &str) -> String {
    let tagged = if name.contains('{') { name.to_string() } else { format!("{{{name}}}") };
    format!("redisson_lock__channel:{tagged}")
}

impl Client {
    fn is_on(&mut self, topic: Topic) -> &mut bool {
        match topic {
            Topic::Own => &mut self.subscribed,
            Topic::Lock(name) => &mut self.listens[name],
        }
    }

    /// Ends all its subscriptions, and returns their topics.
    pub(crate) fn take_topics(&mut self) -> Vec<Topic> {
        let locks = (0..self.listens.len()).map(Topic::Lock);
        std::iter::once(Topic::Own).chain(locks).filter(|topic| std::mem::take(self.is_on(*topic))).collect()
    }
}

impl ClusterRun<'_> {
    /// A channel's topic. None if no client of the run has such a channel.
    fn topic(&self, channel: &str) -> Option<Topic> {
        if channel.starts_with(OWN) {
            return Some(Topic::Own);
        }
        self.servers.channels.iter().position(|known| known == channel).map(Topic::Lock)
    }

    /// A script or a foreign client publishes a message.
    pub(crate) fn publish(&mut self, channel: &str, payload: &[u8]) {
        match self.topic(channel) {
            Some(Topic::Own) => {
                let life = channel.strip_prefix(OWN).and_then(life_of);
                let of = |client: &Client| Some(client.life) == life && client.subscribed;
                if let Some(client) = self.clients.iter().position(of) {
                    self.send_message(client, Topic::Own, payload);
                }
            }
            Some(topic @ Topic::Lock(name)) => {
                for client in 0..self.clients.len() {
                    if self.clients[client].listens[name] {
                        self.send_message(client, topic, payload);
                    }
                }
            }
            None => {}
        }
    }

    /// A message is sent to a subscriber.
    fn send_message(&mut self, client: usize, topic: Topic, payload: &[u8]) {
        let mut after = self.world.rng.range(self.mix.trip);
        if self.strikes(Fault::MessageLost, client) {
            return;
        }
        if self.strikes(Fault::MessageLate, client) {
            after += self.world.rng.spread((1_000, 10_000_000));
            self.calm_since = self.calm_since.max(self.world.now + after);
        }
        let life = self.clients[client].life;
        let message = || Delivery::Message(topic, payload.to_vec());
        if self.strikes(Fault::MessageTwice, client) {
            let again = after + self.world.rng.spread((1, 5_000_000));
            self.world.after(again, Event::Deliver { client, life, what: message() });
        }
        self.world.after(after, Event::Deliver { client, life, what: message() });
        if self.strikes(Fault::SubscriptionBreaks, client) {
            self.break_subscription(client);
        }
    }

    /// The client gets no more messages, and finds out some time later. All its channels share one connection.
    pub(crate) fn break_subscription(&mut self, client: usize) {
        let it = &mut self.clients[client];
        let (life, ended) = (it.life, it.take_topics());
        if ended.is_empty() {
            return;
        }
        let after = self.world.rng.spread((100, 3_000_000));
        self.calm_since = self.calm_since.max(self.world.now + after);
        for topic in ended {
            let what = Delivery::Unsubscribed(topic, Failure::Interrupted("connection reset".into()));
            self.world.after(after, Event::Deliver { client, life, what });
        }
        self.count_listeners();
    }

    /// An engine subscribes.
    pub(crate) fn subscribe(&mut self, client: usize, channel: &str) {
        let Some(topic) = self.topic(channel) else {
            return self.watch.check(crate::invariants::broken("words", format!("c{client} subscribes to {channel}")));
        };
        let it = &mut self.clients[client];
        let life = it.life;
        if topic == Topic::Own {
            // Without an answer, it may go on after its timeout.
            it.hears_since = it.hears_since.or(Some(it.clock.instant(self.world.now) + it.config.response_timeout));
        }
        let after = self.world.rng.range(self.mix.trip);
        let failure = if self.clients[client].mute {
            Some(Failure::Unsupported("no messages on this host".into()))
        } else if self.strikes(Fault::SubscriptionBreaks, client) {
            Some(Failure::Interrupted("connection reset".into()))
        } else {
            None
        };
        match failure {
            Some(failure) => {
                let what = Delivery::Unsubscribed(topic, failure);
                self.world.after(after, Event::Deliver { client, life, what });
            }
            None => {
                let at = self.in_order(client, after);
                self.world.agenda.push(at, Event::Subscribe { client, life, topic });
            }
        }
    }

    /// An engine unsubscribes. Messages go on until its server knows.
    pub(crate) fn unsubscribe(&mut self, client: usize, channel: &str) {
        let mut after = self.world.rng.range(self.mix.trip);
        if self.strikes(Fault::Slow, client) {
            after += self.world.rng.range(self.mix.slow);
        }
        let life = self.clients[client].life;
        let at = self.in_order(client, after);
        if let Some(topic) = self.topic(channel) {
            self.world.agenda.push(at, Event::Unsubscribe { client, life, topic });
        }
    }

    /// When a change of a client's subscriptions reaches its server. Changes keep their order.
    fn in_order(&mut self, client: usize, after: u64) -> u64 {
        let last = &mut self.clients[client].last_change;
        *last = (self.world.now + after).max(*last);
        *last
    }

    /// The end of a subscription reaches its server.
    pub(crate) fn unsubscribe_arrives(&mut self, client: usize, life: Life, topic: Topic) {
        let it = &mut self.clients[client];
        *it.is_on(topic) &= it.life != life;
        self.count_listeners();
    }

    /// A subscription reaches its server.
    pub(crate) fn subscribe_arrives(&mut self, client: usize, life: Life, topic: Topic) {
        let down = self.servers.list[0].suffers(Fault::ServerCrash, self.world.now);
        let it = &mut self.clients[client];
        if it.life != life || it.engine.is_none() {
            return;
        }
        *it.is_on(topic) = !down;
        let what = if down {
            Delivery::Unsubscribed(topic, Failure::Unavailable("connection refused".into()))
        } else {
            Delivery::Subscribed(topic)
        };
        let after = self.world.rng.range(self.mix.trip);
        self.world.after(after, Event::Deliver { client, life, what });
        self.count_listeners();
    }

    /// Tells the servers how many clients listen for each reentrant lock, including those of other libraries.
    pub(crate) fn count_listeners(&mut self) {
        for name in 0..self.servers.channels.len() {
            if self.servers.channels[name].is_empty() {
                continue;
            }
            let listeners = self.listeners(name);
            let channel = &self.servers.channels[name];
            for (node, model) in self.servers.models.iter_mut().enumerate() {
                let here = listeners.iter().filter(|listener| listener.node.is_none_or(|other| other == node));
                model.set_listeners(channel, here.count() as u64);
            }
        }
    }

    /// Everybody who listens on the channel of a reentrant lock.
    fn listeners(&self, name: usize) -> Vec<Listener> {
        // One more than there are servers, because a cluster has nodes without any of the run's names.
        let nodes = self.mix.servers + 1;
        let listener = |life, number: usize| Listener { life, node: self.mix.cluster.then_some(number % nodes) };
        let ours = self.clients.iter().filter(|client| client.listens[name]);
        let ours = ours.map(|client| listener(Some(client.life), client.life.into()));
        let topic = Some(Topic::Lock(name));
        let others =
            self.foreigners.iter().enumerate().filter(|(_, it)| it.listens && self.servers.topics[it.name] == topic);
        ours.chain(others.map(|(number, _)| listener(None, number))).collect()
    }

    /// Whether other clients than this one listen for a reentrant lock, and whether it listens itself.
    pub(crate) fn listen_for(&self, name: usize, life: Life) -> (bool, bool) {
        let Some(Topic::Lock(topic)) = self.servers.topics[name] else { return (false, false) };
        let listeners = self.listeners(topic);
        let is_own = |listener: &Listener| listener.life == Some(life);
        (listeners.iter().any(|listener| !is_own(listener)), listeners.iter().any(is_own))
    }
}
