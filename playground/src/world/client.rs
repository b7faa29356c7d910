//! A client: a process with an engine, and what its application believes.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_core::{
    AcquireOptions, ClientId, CommandId, Config, Engine, Failure, Input, LeaseId, LossReason, NodeId, OpId, Outcome,
    Output, Reply, Wait,
};

use super::network::Event;
use super::{LOCK, TTL, Who, World};
use crate::timeline::{CaptionId, Row, SpanId, Symbol, grouped};

const NODE: NodeId = NodeId(0);

/// A process.
#[derive(Default)]
pub(super) struct Client {
    /// None while it is not running.
    pub(super) engine: Option<Engine>,
    pub(super) belief: Belief,
    pub(super) paused: bool,
    pub(super) cut: bool,
    /// The network loses the next reply on its way to this client.
    pub(super) loses_reply: bool,
    /// A paused process stands still between its last check and its write. The write leaves with this fence.
    pub(super) write_on_resume: Option<u64>,
    /// What arrived while the process was paused.
    pub(super) inbox: Vec<Delivery>,
    /// The number of its connection. What arrives on an older one is dropped.
    pub(super) link: u64,
    pub(super) channels: BTreeSet<String>,
    /// The commands without an answer, with their words on the timeline.
    pub(super) in_flight: BTreeMap<CommandId, CaptionId>,
    /// When the last packet of each direction arrives: packets of a connection don't overtake each other.
    pub(super) last_arrivals: [u64; 2],
    operations: u64,
    wake_at: Option<u64>,
    look_at: Option<u64>,
    lock_bar: Option<(SpanId, Bar)>,
    condition_bar: Option<(SpanId, &'static str)>,
}

/// What the application believes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Belief {
    #[default]
    Idle,
    Waits {
        op: OpId,
    },
    Holds {
        lease: LeaseId,
        fence: u64,
    },
}

/// What its bar shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bar {
    Waits,
    Holds(u64),
    /// The lease is over, and the application doesn't know it yet.
    Expired(u64),
}

/// What reaches a client.
pub(super) enum Delivery {
    Reply(CommandId, Result<Reply, Failure>),
    Message { channel: String, payload: Vec<u8> },
    Subscribed(String),
    Unsubscribed(String, Failure),
}

/// The process.
impl World {
    /// A process starts with a new engine.
    pub(super) fn start(&mut self, who: Who) {
        self.started += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.rng.draw().to_be_bytes());
        id[8..].copy_from_slice(&self.started.to_be_bytes());
        let id = ClientId::from_random(id);
        self.server.introduce(who, &id.to_string());
        let link = self.new_link();
        let client = self.client_mut(who);
        // The page shows each of a lock's own scripts. This configuration is valid, so there is always an engine.
        client.engine = Engine::new(id, Config { batches: false, ..Config::default() }).ok();
        client.link = link;
    }

    /// The process is gone, with everything that it knows.
    pub(super) fn kill(&mut self, who: Who) {
        self.forget_channels(who);
        let link = self.new_link();
        let client = self.client_mut(who);
        *client = Client {
            cut: client.cut,
            link,
            lock_bar: client.lock_bar,
            condition_bar: client.condition_bar,
            last_arrivals: client.last_arrivals,
            ..Client::default()
        };
    }

    /// A paused process goes on. Its application was between its last check and its write, so the write comes first.
    pub(super) fn resume(&mut self, who: Who) {
        let client = self.client_mut(who);
        client.paused = false;
        let (write, inbox) = (client.write_on_resume.take(), std::mem::take(&mut client.inbox));
        if let Some(fence) = write {
            self.send_write(who, fence);
        }
        for delivery in inbox {
            self.deliver(who, delivery);
        }
        self.feed(who, Input::Wake);
    }

    /// Something reaches the process.
    pub(super) fn deliver(&mut self, who: Who, delivery: Delivery) {
        let client = self.client_mut(who);
        if client.paused {
            return client.inbox.push(delivery);
        }
        match delivery {
            Delivery::Reply(id, result) => {
                if let Some(caption) = client.in_flight.remove(&id) {
                    let status = result.as_ref().map_or("interrupted", super::server::status);
                    let words = format!(": {status}");
                    self.timeline.extend(caption, &words);
                }
                self.feed(who, Input::Reply { id, result });
            }
            Delivery::Message { channel, payload } => {
                self.feed(who, Input::Message { node: NODE, channel: &channel, payload: &payload });
            }
            Delivery::Subscribed(channel) => self.feed(who, Input::Subscribed { node: NODE, channel: &channel }),
            Delivery::Unsubscribed(channel, cause) => {
                self.feed(who, Input::Unsubscribed { node: NODE, channel: &channel, cause });
            }
        }
    }

    /// The engine's timer. An old one is ignored.
    pub(super) fn wake(&mut self, who: Who, at: u64) {
        let client = self.client_mut(who);
        if client.wake_at != Some(at) {
            return;
        }
        client.wake_at = None;
        if !client.paused {
            self.feed(who, Input::Wake);
        }
    }

    pub(super) fn acquire(&mut self, who: Who) {
        let op = self.new_operation(who);
        self.client_mut(who).belief = Belief::Waits { op };
        let options = AcquireOptions { ttl: TTL, wait: Wait::Forever, ..AcquireOptions::default() };
        self.feed(who, Input::Acquire { op, name: LOCK, options: &options });
    }

    /// Gives the lock back, or stops waiting for it.
    pub(super) fn release(&mut self, who: Who) {
        let op = self.new_operation(who);
        match std::mem::take(&mut self.client_mut(who).belief) {
            Belief::Idle => {}
            Belief::Waits { op } => self.feed(who, Input::Cancel { op }),
            Belief::Holds { lease, .. } => self.feed(who, Input::Release { op, lease }),
        }
    }

    fn new_operation(&mut self, who: Who) -> OpId {
        let client = self.client_mut(who);
        client.operations += 1;
        OpId(client.operations)
    }

    /// Passes one input in, and carries all outputs out.
    fn feed(&mut self, who: Who, input: Input<'_>) {
        let now = self.instant();
        let Some(engine) = &mut self.client_mut(who).engine else { return };
        engine.handle(now, input);
        while let Some(output) = self.client_mut(who).engine.as_mut().and_then(Engine::poll_output) {
            self.carry_out(who, output);
        }
        self.set_timers(who);
    }

    fn carry_out(&mut self, who: Who, output: Output) {
        match output {
            Output::Send { id, command, .. } => self.send_command(who, id, &command),
            Output::Subscribe { channel, .. } => self.send_subscribe(who, channel),
            Output::Unsubscribe { channel, .. } => self.send_unsubscribe(who, channel),
            Output::Completed { op, result } => match (self.client(who).belief, result) {
                (Belief::Waits { op: waits }, Ok(outcome)) if waits == op => self.acquired(who, &outcome),
                (Belief::Waits { op: waits }, Err(error)) if waits == op => {
                    self.client_mut(who).belief = Belief::Idle;
                    self.say(format_args!("{} gives up: {error}.", who.name()));
                }
                _ => {}
            },
            Output::Lost { lease, reason } => self.lost(who, lease, reason),
            // Nobody here observes an election or waits for replicas.
            Output::Leader { .. } | Output::SendDedicated { .. } | Output::CloseDedicated { .. } => {}
        }
    }

    fn acquired(&mut self, who: Who, outcome: &Outcome) {
        let Some(grant) = outcome.grant() else { return };
        self.client_mut(who).belief = Belief::Holds { lease: grant.lease, fence: grant.fence };
        self.say(format_args!("{} holds the lock, with fence {}.", who.name(), grouped(grant.fence)));
    }

    fn lost(&mut self, who: Who, lost: LeaseId, reason: LossReason) {
        if let Belief::Holds { lease, .. } = self.client(who).belief
            && lease == lost
        {
            self.client_mut(who).belief = Belief::Idle;
            self.mark(who, Symbol::Lost, "learns of the loss");
            self.say(format_args!("{} is notified that it lost the lock: {reason}.", who.name()));
        }
    }

    fn set_timers(&mut self, who: Who) {
        let (now, client) = (self.now, self.client(who));
        let Some(engine) = &client.engine else { return };
        let wake =
            engine.poll_timeout().map(|(at, _)| at.as_micros().max(now)).filter(|at| client.wake_at != Some(*at));
        let look = match client.belief {
            Belief::Holds { lease, .. } => engine.valid_until(lease).map(|until| until.as_micros()),
            _ => None,
        };
        let look = look.filter(|at| *at > now && client.look_at != Some(*at));
        if let Some(at) = wake {
            self.client_mut(who).wake_at = Some(at);
            self.agenda.push(at, Event::Wake { who, at });
        }
        if let Some(at) = look {
            self.client_mut(who).look_at = Some(at);
            self.agenda.push(at, Event::Look);
        }
    }
}

/// Its bars on the timeline.
impl World {
    pub(super) fn look_at_client(&mut self, who: Who) {
        let (now, client) = (self.now, self.client(who));
        let bar = match client.belief {
            Belief::Idle => None,
            Belief::Waits { .. } => Some(Bar::Waits),
            Belief::Holds { lease, fence } => {
                let until = client.engine.as_ref().and_then(|engine| engine.valid_until(lease));
                let valid = until.is_some_and(|until| until.as_micros() > now);
                Some(if valid { Bar::Holds(fence) } else { Bar::Expired(fence) })
            }
        };
        if client.lock_bar.map(|(_, bar)| bar) != bar {
            if let Some((span, _)) = client.lock_bar {
                self.timeline.end(span, now);
            }
            let span = bar.map(|bar| (self.draw_bar(who, bar), bar));
            self.client_mut(who).lock_bar = span;
        }
        let condition = condition(self.client(who));
        if self.client(who).condition_bar.map(|(_, text)| text) != condition {
            if let Some((span, _)) = self.client(who).condition_bar {
                self.timeline.end(span, now);
            }
            let bar =
                condition.map(|text| (self.timeline.begin((who.into(), Row::Condition), now, "fault", text), text));
            self.client_mut(who).condition_bar = bar;
        }
    }

    fn draw_bar(&mut self, who: Who, bar: Bar) -> SpanId {
        let (class, label) = match bar {
            Bar::Waits => ("waits", "waits".to_owned()),
            Bar::Holds(fence) => ("holds", format!("holds, fence {}", grouped(fence))),
            Bar::Expired(fence) => {
                self.say(format_args!("{}'s lease has ended, but {} doesn't know it yet.", who.name(), who.name()));
                ("expired", format!("believes that it holds, fence {}", grouped(fence)))
            }
        };
        self.timeline.begin((who.into(), Row::Lock), self.now, &format!("{class} {}", who.class()), label)
    }
}

const fn condition(client: &Client) -> Option<&'static str> {
    match (client.engine.is_some(), client.paused, client.cut) {
        (false, _, true) => Some("killed, network cut"),
        (false, _, false) => Some("killed"),
        (true, true, true) => Some("paused, network cut"),
        (true, true, false) => Some("paused"),
        (true, false, true) => Some("network cut"),
        (true, false, false) => None,
    }
}
