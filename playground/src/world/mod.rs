//! Three clients, one lock, one server, one resource, and the network between them, on virtual time.

mod actions;
mod client;
mod network;
mod resource;
mod server;

use std::time::Duration;

use leasehold_core::Instant;
use leasehold_harness::{Agenda, Rng};

use crate::timeline::{Lane, Symbol, Timeline};
use client::{Belief, Client};
use network::Event;
use resource::Resource;
use server::LockServer;

pub use actions::Action;

/// How long the server keeps a lease unless its holder renews it.
pub(crate) const TTL: Duration = Duration::from_secs(6);
/// The name of the lock.
pub(crate) const LOCK: &str = "job";
/// How long a packet is on its way, in µs. It is slow, so that a viewer can follow it.
const LATENCY_US: (u64, u64) = (150_000, 200_000);
/// How far the replica is behind the primary, in µs.
const REPLICA_LAG_US: u64 = 1_500_000;

/// One of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// The first.
    A,
    /// The second.
    B,
    /// The third.
    C,
}

impl Who {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::A, Self::B, Self::C];

    /// Its name on the page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        }
    }

    /// Its number, and the number of its lane.
    const fn index(self) -> usize {
        self as usize
    }

    /// Its colour in the style sheet.
    const fn class(self) -> &'static str {
        match self {
            Self::A => "c0",
            Self::B => "c1",
            Self::C => "c2",
        }
    }
}

impl From<Who> for Lane {
    fn from(who: Who) -> Self {
        Self(who.index())
    }
}

const SERVER: Lane = Lane(3);
const RESOURCE: Lane = Lane(4);

/// Everything that there is.
pub struct World {
    /// Virtual time, in µs. The server's clock and the clients' clocks show the same.
    now: u64,
    agenda: Agenda<Event>,
    rng: Rng,
    clients: [Client; 3],
    server: LockServer,
    resource: Resource,
    timeline: Timeline,
    log: Vec<String>,
    /// How many clients were started. Each has its own id.
    started: u64,
    /// How many visible events have happened.
    changes: u64,
}

impl Default for World {
    fn default() -> Self {
        let mut timeline = Timeline::default();
        for who in Who::ALL {
            timeline.lane(format!("Client {}", who.name()));
        }
        timeline.lane("Server");
        timeline.lane("Resource");
        let mut world = Self {
            now: 0,
            agenda: Agenda::default(),
            rng: Rng::new(7),
            clients: std::array::from_fn(|_| Client::default()),
            server: LockServer::new(),
            resource: Resource::default(),
            timeline,
            log: Vec::new(),
            started: 0,
            changes: 0,
        };
        for who in Who::ALL {
            world.start(who);
        }
        world
    }
}

/// Time.
impl World {
    /// The virtual time, in µs.
    pub const fn now_us(&self) -> u64 {
        self.now
    }

    /// Lets time pass until a moment. It never goes back.
    pub fn advance_to(&mut self, until_us: u64) {
        while self.agenda.next_at().is_some_and(|at| at <= until_us) {
            self.happen();
        }
        self.now = self.now.max(until_us);
    }

    /// Lets time pass until the next visible event, but at most `longest`.
    pub fn step(&mut self, longest: Duration) {
        let before = self.changes;
        self.advance_until(longest, |world| world.changes != before);
    }

    /// Lets time pass until a condition holds, but at most `longest`. Returns whether it holds.
    pub fn advance_until(&mut self, longest: Duration, mut holds: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now.saturating_add(longest.as_micros() as u64);
        while !holds(self) {
            if self.agenda.next_at().is_none_or(|at| at > end) {
                self.now = self.now.max(end);
                return holds(self);
            }
            self.happen();
        }
        true
    }

    /// The next event happens.
    fn happen(&mut self) {
        let Some((at, event)) = self.agenda.pop() else { return };
        self.now = self.now.max(at);
        self.take(event);
        self.look();
    }

    fn instant(&self) -> Instant {
        Instant::from_micros(self.now)
    }
}

/// What a viewer sees.
impl World {
    /// What happened when.
    pub const fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// What happened, in words. Each line begins with the time.
    pub fn log(&self) -> &[String] {
        &self.log
    }

    /// Whether a client believes that it holds the lock.
    pub fn holds(&self, who: Who) -> bool {
        matches!(self.client(who).belief, Belief::Holds { .. })
    }

    /// Whether a client is in the server's queue.
    pub fn is_queued(&self, who: Who) -> bool {
        self.server.queue().contains(&who)
    }

    /// Whether the server has given a client the lock.
    pub fn has_lock(&self, who: Who) -> bool {
        self.server.holder().is_some_and(|holder| holder.who == who)
    }

    /// The writes so far: the client, its fence, and whether the resource accepted it.
    pub fn writes(&self) -> &[(Who, u64, bool)] {
        self.resource.writes()
    }

    /// What a client believes, in words.
    pub fn client_text(&self, who: Who) -> String {
        let client = self.client(who);
        if client.engine.is_none() {
            return "It is not running.".into();
        }
        let belief = match client.belief {
            Belief::Idle => "It doesn't want the lock.".into(),
            Belief::Waits { .. } if self.is_queued(who) => "It waits in the server's queue.".into(),
            Belief::Waits { .. } => "It asks for the lock.".into(),
            Belief::Holds { lease, fence, .. } => {
                let fence = crate::timeline::grouped(fence);
                let left = client.engine.as_ref().and_then(|engine| engine.valid_until(lease));
                let left = left.map_or(0, |until| until.as_micros().saturating_sub(self.now));
                match left {
                    0 => format!("It believes that it holds the lock, with fence {fence}. Its lease has ended."),
                    left => format!("It holds the lock, with fence {fence}. The lease is valid for {}.", seconds(left)),
                }
            }
        };
        let paused = if client.paused { " It is paused." } else { "" };
        let cut = if client.cut { " Its network is cut." } else { "" };
        let write = if client.write_on_resume.is_some() { " It writes when it goes on." } else { "" };
        let lose = if client.loses_reply { " Its next reply will be lost." } else { "" };
        format!("{belief}{paused}{cut}{write}{lose}")
    }

    /// What the server has, in words.
    pub fn server_text(&self) -> String {
        let queue = self.server.queue();
        let names: Vec<&str> = queue.iter().map(|who| who.name()).collect();
        let queue = if names.is_empty() { "Nobody waits.".into() } else { format!("Queue: {}.", names.join(", ")) };
        match self.server.holder() {
            None => format!("The lock is free. {queue}"),
            Some(holder) => {
                let left = holder.ends.map_or(0, |ends| ends.saturating_sub(self.now));
                let fence = crate::timeline::grouped(holder.fence);
                format!(
                    "{} has the lock, with fence {fence} and a TTL of {}. {queue}",
                    holder.who.name(),
                    seconds(left)
                )
            }
        }
    }

    /// What the resource knows, in words.
    pub fn resource_text(&self) -> String {
        match self.resource.greatest() {
            0 => "It has seen no fence.".into(),
            fence => {
                let fence = crate::timeline::grouped(fence);
                format!("The greatest fence so far is {fence}. It refuses a write with a smaller one.")
            }
        }
    }

    fn client(&self, who: Who) -> &Client {
        &self.clients[who.index()]
    }

    fn client_mut(&mut self, who: Who) -> &mut Client {
        &mut self.clients[who.index()]
    }

    fn say(&mut self, what: impl std::fmt::Display) {
        self.changes += 1;
        self.log.push(format!("{} {what}", seconds(self.now)));
    }

    fn mark(&mut self, lane: impl Into<Lane>, symbol: Symbol, text: &str) {
        self.timeline.mark(lane.into(), self.now, symbol, text);
    }
}

/// `2.35 s`
fn seconds(us: u64) -> String {
    format!("{}.{:02} s", us / 1_000_000, us % 1_000_000 / 10_000)
}
