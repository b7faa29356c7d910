//! The network: packets with delays, cuts, and connections that break.

use leasehold_core::{Command, CommandId, Failure};

use super::client::Delivery;
use super::{LATENCY_US, RESOURCE, SERVER, Who, World};
use crate::timeline::{ArrowId, Lane};

/// What will happen.
pub(super) enum Event {
    /// A command reaches the server.
    Command { from: Who, link: u64, id: CommandId, words: Vec<Vec<u8>>, arrow: ArrowId },
    /// A subscription reaches the server, or its end.
    Subscribe { from: Who, link: u64, channel: String, on: bool, arrow: ArrowId },
    /// Something reaches a client.
    Delivery { to: Who, link: u64, what: Delivery, arrow: ArrowId },
    /// A write reaches the resource.
    Write { from: Who, fence: u64, arrow: ArrowId },
    /// An engine's timer.
    Wake { who: Who, at: u64 },
    /// A TTL ends, so the timeline may change.
    Look,
}

/// The directions of a connection.
const UP: usize = 0;
const DOWN: usize = 1;

impl World {
    pub(super) fn take(&mut self, event: Event) {
        match event {
            Event::Command { from, link, id, words, arrow } => {
                if self.client(from).cut {
                    return self.lose(arrow);
                }
                self.changes += 1;
                self.run_command(from, link, id, &words);
            }
            Event::Subscribe { from, link, channel, on, arrow } => {
                if self.client(from).cut || self.client(from).link != link {
                    return self.lose(arrow);
                }
                self.set_subscription(from, channel, on);
            }
            Event::Delivery { to, link, what, arrow } => {
                let client = self.client(to);
                if client.cut || client.link != link {
                    return self.lose(arrow);
                }
                self.changes += 1;
                self.deliver(to, what);
            }
            Event::Write { from, fence, arrow } => {
                if self.client(from).cut {
                    return self.lose(arrow);
                }
                self.write(from, fence);
            }
            Event::Wake { who, at } => self.wake(who, at),
            Event::Look => {}
        }
    }

    /// Looks at everything that the timeline shows.
    pub(super) fn look(&mut self) {
        self.look_at_server();
        for who in Who::ALL {
            self.look_at_client(who);
        }
    }

    pub(super) fn send_command(&mut self, who: Who, id: CommandId, command: &Command) {
        let words: Vec<Vec<u8>> = command.words().map(<[u8]>::to_vec).collect();
        let label = super::server::script_name(&words);
        let caption = self.timeline.caption(who.into(), self.now, label);
        let arrives = self.arrival(who, UP);
        let arrow = self.draw(who, SERVER, arrives, "command", label);
        let client = self.client_mut(who);
        client.in_flight.insert(id, caption);
        let link = client.link;
        self.agenda.push(arrives, Event::Command { from: who, link, id, words, arrow });
    }

    pub(super) fn send_subscribe(&mut self, who: Who, channel: String) {
        self.send_subscription(who, channel, true);
    }

    pub(super) fn send_unsubscribe(&mut self, who: Who, channel: String) {
        self.send_subscription(who, channel, false);
    }

    fn send_subscription(&mut self, who: Who, channel: String, on: bool) {
        let (at, link) = (self.arrival(who, UP), self.client(who).link);
        let arrow = self.draw(who, SERVER, at, "command", if on { "subscribe" } else { "unsubscribe" });
        self.agenda.push(at, Event::Subscribe { from: who, link, channel, on, arrow });
    }

    pub(super) fn send_write(&mut self, who: Who, fence: u64) {
        let at = self.arrival(who, UP);
        let arrow =
            self.draw(who, RESOURCE, at, "write", &format!("write with fence {}", crate::timeline::grouped(fence)));
        self.agenda.push(at, Event::Write { from: who, fence, arrow });
    }

    /// Something leaves the server for a client.
    pub(super) fn send_to_client(&mut self, to: Who, link: u64, what: Delivery, class: &'static str, label: &str) {
        let at = self.arrival(to, DOWN);
        let arrow = self.timeline.send((SERVER, to.into()), (self.now, at), class, label);
        let is_reply = matches!(what, Delivery::Reply(..));
        if is_reply && std::mem::take(&mut self.client_mut(to).loses_reply) {
            self.say(format_args!("The network loses the reply to {}.", to.name()));
            return self.lose(arrow);
        }
        self.agenda.push(at, Event::Delivery { to, link, what, arrow });
    }

    /// The connection breaks, and the client notices it at once. What was on its way to the client is gone.
    pub(super) fn break_connection(&mut self, who: Who, why: &str) {
        self.forget_channels(who);
        let link = self.new_link();
        let client = self.client_mut(who);
        client.link = link;
        let channels = std::mem::take(&mut client.channels);
        let commands: Vec<CommandId> = client.in_flight.keys().copied().collect();
        for channel in channels {
            self.deliver(who, Delivery::Unsubscribed(channel, Failure::Interrupted(why.into())));
        }
        for id in commands {
            self.deliver(who, Delivery::Reply(id, Err(Failure::Interrupted(why.into()))));
        }
    }

    pub(super) fn new_link(&mut self) -> u64 {
        self.rng.draw()
    }

    fn draw(&mut self, from: Who, to: Lane, arrives: u64, class: &'static str, label: &str) -> ArrowId {
        self.timeline.send((from.into(), to), (self.now, arrives), class, label)
    }

    fn lose(&mut self, arrow: ArrowId) {
        self.changes += 1;
        self.timeline.lose(arrow);
    }

    /// When a packet arrives that leaves now. It doesn't overtake the one before.
    fn arrival(&mut self, who: Who, direction: usize) -> u64 {
        let at = self.now + self.rng.range(LATENCY_US);
        let last = &mut self.client_mut(who).last_arrivals[direction];
        *last = at.max(*last + 1_000);
        *last
    }
}
