//! What the server and the clock do.

use leasehold_core::{CommandId, Failure, Input, Instant, NodeId, OpId, Reply};

use super::{EPOCH_US, Sent, World, number};
use crate::backing::script_of;
use crate::names::NAMES;
use crate::script::{Words, scalar};

impl World {
    /// The oldest command gets this reply.
    pub(super) fn reply(&mut self, result: Result<Reply, Failure>) {
        if let Some(sent) = self.sent.pop_front() {
            self.reply_to(&sent, result);
        }
    }

    /// `other N WORDS`: the command in place N gets a reply, before older ones.
    pub(super) fn other_reply(&mut self, mut words: Words<'_>) {
        let place = number(&mut words).and_then(|place| usize::try_from(place).ok());
        if let Some(sent) = place.and_then(|place| self.sent.remove(place)) {
            self.reply_to(&sent, Ok(Reply::List(words.map(scalar).collect())));
        }
    }

    /// `reply ID WORDS`: the command with this number gets a reply, also one that had an answer, and one that never was.
    pub(super) fn any_reply(&mut self, mut words: Words<'_>) {
        let id = CommandId(number(&mut words).unwrap_or_default());
        let result = Ok(Reply::List(words.map(scalar).collect()));
        match self.sent.iter().position(|sent| sent.id == id).and_then(|place| self.sent.remove(place)) {
            Some(sent) => self.reply_to(&sent, result),
            None => self.input(Input::Reply { id, result }),
        }
    }

    fn reply_to(&mut self, sent: &Sent, result: Result<Reply, Failure>) {
        if let Ok(reply) = &result {
            let words: Vec<&[u8]> = sent.command.words().collect();
            let names: Vec<_> = NAMES.into_iter().filter(|name| words.contains(&name.as_bytes())).collect();
            self.backing.replied(&names, sent.at, &sent.command, reply);
        }
        let now = Instant::from_micros(self.now);
        let of_labels = self.labels.as_mut().is_some_and(|labels| labels.takes(now, sent.id, &result, &self.engine));
        if of_labels {
            return self.settle();
        }
        self.input(Input::Reply { id: sent.id, result });
    }

    /// The server in memory answers the oldest commands.
    pub(super) fn serve(&mut self, most: u64) {
        for _ in 0..most.min(10_000) {
            let Some(sent) = self.sent.pop_front() else { return };
            let now = self.server_time();
            let Some(server) = self.servers.get_mut(usize::from(sent.node.0)) else { continue };
            let words: Vec<&[u8]> = sent.command.words().collect();
            let executed = server.execute(now, &words).expect("time goes on");
            self.reply_to(&sent, executed.reply.map_err(Failure::Refused));
            let own = format!("leasehold:{}", self.client);
            for message in executed.published.iter().filter(|message| message.channel == own.as_bytes()) {
                self.message(&own, &message.payload);
            }
        }
    }

    /// Another client sends a command.
    pub(super) fn other_client(&mut self, words: &[&str]) {
        let now = self.server_time();
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        if let Some(server) = self.servers.first_mut() {
            let _ = server.execute(now, &words).expect("time goes on").reply;
        }
    }

    /// The engine has its own response timeout. The labels rely on the driver's.
    pub(super) fn nobody_answers(&mut self) {
        let sent = std::mem::take(&mut self.sent);
        for sent in sent.iter().filter(|sent| script_of(&sent.command).is_empty()) {
            self.reply_to(sent, Err(Failure::TimedOut));
        }
    }

    pub(super) fn dedicated_reply(&mut self, result: Result<Reply, Failure>) {
        if let Some((op, _)) = self.dedicated.pop_first() {
            self.input(Input::DedicatedReply { op: OpId(op), result });
        }
    }

    pub(super) fn subscribed(&mut self) {
        for channel in self.channels.clone() {
            self.event(Input::Subscribed { node: NodeId(0), channel: &channel });
        }
    }

    pub(super) fn pass(&mut self, ms: u64) {
        self.now += ms * 1_000;
        self.input(Input::Wake);
    }

    pub(super) fn until_something_is_due(&mut self) {
        let at = self.due().unwrap_or_default();
        // A wait of days is no reason to let the clock run.
        self.now = self.now.max(at.min(self.now + 100_000_000));
        self.input(Input::Wake);
    }

    pub(super) fn due(&self) -> Option<u64> {
        let engine = self.engine.poll_timeout().map(|(at, _)| at);
        let labels = self.labels.as_ref().and_then(|labels| labels.poll_timeout(self.uses_locks()));
        engine.into_iter().chain(labels).min().map(Instant::as_micros)
    }

    pub(super) fn uses_locks(&self) -> bool {
        !self.leases.is_empty() || !self.ops.is_empty()
    }

    pub(super) fn server_time(&self) -> u64 {
        EPOCH_US + self.now
    }
}
