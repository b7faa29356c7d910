//! What the small worlds of an election and of a rate have in common: a client's process, and what happens to it.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_core::{
    ClientId, Command, CommandId, Config, Engine, Failure, Input, Instant, NodeId, OpId, Output, Reply,
};
use leasehold_harness::{Clock, Micros, Rng, World};

/// What reaches a client.
pub(crate) enum Delivery {
    Reply(CommandId, Result<Reply, Failure>),
    Message(String, Vec<u8>),
    Subscribed(String),
    Unsubscribed(String, Failure),
}

/// A scheduled event, or one of the world's own.
pub(crate) enum Event<E> {
    /// A command reaches the server.
    Arrive {
        client: usize,
        life: u64,
        id: CommandId,
        command: Command,
    },
    /// Something reaches a client.
    Deliver {
        client: usize,
        life: u64,
        what: Delivery,
    },
    /// A subscription reaches the server.
    Subscribe {
        client: usize,
        life: u64,
        channel: String,
    },
    /// A client's timer fires.
    Wake {
        client: usize,
        life: u64,
        number: u32,
    },
    /// A client's process goes on.
    Resume {
        client: usize,
        life: u64,
    },
    /// The next fault.
    Strike,
    /// A check of everything.
    Check,
    Own(E),
}

/// A process with an engine.
pub(crate) struct Process {
    /// Its number, unique in the run. A crash ends its life, and another client takes its place.
    pub(crate) life: u64,
    /// The client's id, the beginning of its tokens.
    pub(crate) id: String,
    /// None after a crash or a close.
    pub(crate) engine: Option<Engine>,
    pub(crate) clock: Clock,
    /// Whether it stands still.
    pub(crate) asleep: bool,
    /// What arrived while it stood still.
    inbox: Vec<Delivery>,
    /// The channels on which the server sends it messages.
    pub(crate) listens: BTreeSet<String>,
    wake: (Option<Instant>, u32),
    last_op: u64,
}

impl Process {
    /// A new process with this claim window. Its clock is drawn after its id.
    pub(crate) fn start(rng: &mut Rng, life: u64, claim_ms: u64, clock: impl FnOnce(&mut Rng) -> Clock) -> Self {
        let mut id = [0; 16];
        id.iter_mut().for_each(|byte| *byte = rng.below(256) as u8);
        let id = ClientId::from_random(id);
        let config = Config { claim_window: Duration::from_millis(claim_ms), ..Config::default() };
        Self {
            life,
            id: id.to_string(),
            engine: Some(Engine::new(id, config).expect("valid options")),
            clock: clock(rng),
            asleep: false,
            inbox: Vec::new(),
            listens: BTreeSet::new(),
            wake: (None, 0),
            last_op: 0,
        }
    }

    pub(crate) fn is_awake(&self) -> bool {
        self.engine.is_some() && !self.asleep
    }

    pub(crate) fn next_op(&mut self) -> OpId {
        self.last_op += 1;
        OpId(self.last_op)
    }

    /// Passes an input in. Returns what comes out.
    pub(crate) fn tell<E>(&mut self, world: &mut World<E>, input: Input<'_>) -> Vec<Output> {
        let Some(engine) = &mut self.engine else { return Vec::new() };
        if world.transcript.is_written() {
            world.transcript.line(world.now, &self.id, format_args!("<- {input:?}"));
        }
        engine.handle(self.clock.instant(world.now), input);
        let outputs: Vec<Output> = std::iter::from_fn(|| engine.poll_output()).collect();
        if world.transcript.is_written() {
            for output in &outputs {
                world.transcript.line(world.now, &self.id, format_args!("-> {output:?}"));
            }
        }
        outputs
    }

    /// What has reached it, if it can take that now.
    pub(crate) fn receive(&mut self, life: u64, what: Delivery) -> Option<Delivery> {
        if self.life != life || self.engine.is_none() {
            return None;
        }
        if self.asleep {
            self.inbox.push(what);
            return None;
        }
        Some(what)
    }

    /// Passes in what it has received.
    pub(crate) fn deliver<E>(&mut self, world: &mut World<E>, what: Delivery) -> Vec<Output> {
        let node = NodeId(0);
        match what {
            Delivery::Reply(id, result) => self.tell(world, Input::Reply { id, result }),
            Delivery::Message(channel, payload) => {
                self.tell(world, Input::Message { node, channel: &channel, payload: &payload })
            }
            // It broke while the server's answer was on its way.
            Delivery::Subscribed(channel) if !self.listens.contains(&channel) => Vec::new(),
            Delivery::Subscribed(channel) => self.tell(world, Input::Subscribed { node, channel: &channel }),
            Delivery::Unsubscribed(channel, cause) => {
                self.tell(world, Input::Unsubscribed { node, channel: &channel, cause })
            }
        }
    }

    /// Goes on after a pause. Returns what arrived in it. None if the process is gone.
    pub(crate) fn resume(&mut self, now: Micros, life: u64) -> Option<Vec<Delivery>> {
        let engine = self.engine.as_mut().filter(|_| self.life == life)?;
        engine.catch_up(self.clock.instant(now));
        (self.asleep, self.wake.0) = (false, None);
        Some(std::mem::take(&mut self.inbox))
    }

    /// Whether this timer is the one that is set, and the process runs.
    pub(crate) fn wakes(&mut self, life: u64, number: u32) -> bool {
        let fires = self.life == life && self.wake.1 == number && self.is_awake();
        if fires {
            self.wake.0 = None;
        }
        fires
    }

    /// The timer that must be set: when, and its number. None if the one that is set comes first.
    pub(crate) fn next_wake(&mut self, now: Micros) -> Option<(Micros, u32)> {
        let (due, _) = self.engine.as_ref()?.poll_timeout()?;
        if self.wake.0.is_some_and(|set| set <= due) {
            return None;
        }
        self.wake = (Some(due), self.wake.1.wrapping_add(1));
        Some((self.clock.when(due.as_micros()).max(now), self.wake.1))
    }
}

/// Why a command or a subscription gets no answer while the server is away.
pub(crate) fn gone() -> Failure {
    Failure::Interrupted("the server is gone".into())
}
