//! Three clients, their users, one server, and what must hold.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_core::{
    AcquireOptions, ClientId, Command, CommandId, Config, Engine, Error, Failure, Grant, Input, Instant, LeaseId,
    LeaseToken, NodeId, OpId, Outcome, Output, Wait,
};
use leasehold_harness::{Agenda, Rng};
use leasehold_model::{Engine as Scripts, ModelServer};

const CLIENTS: usize = 3;
const USERS: usize = 2;
const NODE: NodeId = NodeId(0);
/// After this time there are no more faults, and users only give back what they hold.
const BUSY_US: u64 = 30_000_000;
/// Longer than any wait, lease and burial.
const END_US: u64 = BUSY_US + 200_000_000;
const START_US: u64 = 1_700_000_000_000_000;
/// How far the counter may be ahead of the clock: a millisecond, and a fence for each grant of that millisecond.
const MOST_AHEAD: u64 = 1_024 + 64;

enum Event {
    Arrives { client: usize, life: u32, id: CommandId, command: Command },
    Reply { client: usize, life: u32, id: CommandId, result: Result<leasehold_core::Reply, Failure> },
    Message { client: usize, life: u32, payload: Vec<u8> },
    Subscribed { client: usize, life: u32, channel: String },
    Wake { client: usize, life: u32 },
    Step { client: usize, life: u32, user: usize },
    Crash,
}

#[derive(Clone, Copy, PartialEq)]
enum Doing {
    Nothing,
    /// Waits for a call. With a token, the call adopts.
    Asking(u64, Option<LeaseToken>),
    Holding(LeaseId),
}

struct Client {
    engine: Engine,
    life: u32,
    channel: Option<String>,
    /// When it is woken next.
    wakes: Option<u64>,
    users: [Doing; USERS],
}

/// A lease that a client believes to hold.
struct Held {
    ttl_us: u64,
    exported: Option<LeaseToken>,
    /// When another client was granted it.
    adopted_at: Option<u64>,
}

pub(crate) struct World {
    seed: u64,
    rng: Rng,
    now: u64,
    server: ModelServer,
    agenda: Agenda<Event>,
    clients: Vec<Client>,
    held: BTreeMap<(usize, u32, LeaseId), Held>,
    /// Tokens that were passed on and nobody has taken yet.
    passed_on: Vec<LeaseToken>,
    /// Tokens that some call has tried to adopt.
    wanted: BTreeSet<String>,
    /// The lease whose token a user has just asked for.
    exporting: Option<LeaseId>,
    greatest: u64,
    last_op: u64,
    lives: u32,
    adopted: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut server = ModelServer::new();
        server.run_scripts_in(Scripts::Rust);
        let mut world = Self {
            seed,
            rng: Rng::new(seed),
            now: 0,
            server,
            agenda: Agenda::default(),
            clients: Vec::new(),
            held: BTreeMap::new(),
            passed_on: Vec::new(),
            wanted: BTreeSet::new(),
            exporting: None,
            greatest: 0,
            last_op: 0,
            lives: 0,
            adopted: 0,
        };
        for place in 0..CLIENTS {
            let client = world.client();
            world.clients.push(client);
            world.begin(place);
        }
        for _ in 0..world.rng.below(3) {
            let at = world.rng.below(BUSY_US);
            world.agenda.push(at, Event::Crash);
        }
        world
    }

    /// Plays the run. Returns how many leases were adopted.
    pub(crate) fn run(mut self) -> u64 {
        while let Some((at, event)) = self.agenda.pop() {
            if at > END_US {
                break;
            }
            self.now = at;
            self.happen(event);
            self.holders_are_apart();
        }
        for client in &self.clients {
            assert!(client.users.iter().all(|user| *user == Doing::Nothing), "seed {}: a user still waits", self.seed);
            assert!(client.engine.is_idle(), "seed {}: a client has something left", self.seed);
        }
        assert!(self.held.is_empty(), "seed {}: a lease never ended", self.seed);
        self.adopted
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrives { client, life, id, command } => self.arrives(client, life, id, &command),
            Event::Reply { client, life, id, result } => self.tell(client, life, Input::Reply { id, result }),
            Event::Message { client, life, payload } => {
                let Some(channel) = self.clients[client].channel.clone() else { return };
                self.tell(client, life, Input::Message { node: NODE, channel: &channel, payload: &payload });
            }
            Event::Subscribed { client, life, channel } => {
                if self.clients[client].life == life {
                    self.clients[client].channel = Some(channel.clone());
                    self.tell(client, life, Input::Subscribed { node: NODE, channel: &channel });
                }
            }
            Event::Wake { client, life } if self.clients[client].wakes == Some(self.now) => {
                self.clients[client].wakes = None;
                self.tell(client, life, Input::Wake);
            }
            Event::Wake { .. } => {}
            Event::Step { client, life, user } if self.clients[client].life == life => self.step(client, user),
            Event::Step { .. } => {}
            Event::Crash => {
                let place = self.rng.below(CLIENTS as u64) as usize;
                let life = self.clients[place].life;
                self.held.retain(|(client, of, _), _| (*client, *of) != (place, life));
                self.clients[place] = self.client();
                self.begin(place);
            }
        }
    }
}

/// The clients and their users.
impl World {
    fn client(&mut self) -> Client {
        self.lives += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.rng.draw().to_be_bytes());
        id[8..].copy_from_slice(&self.rng.draw().to_be_bytes());
        let config = Config { batches: self.rng.once_in(2), ..Config::default() };
        let engine = Engine::new(ClientId::from_random(id), config).unwrap();
        Client { engine, life: self.lives, channel: None, wakes: None, users: [Doing::Nothing; USERS] }
    }

    fn begin(&mut self, client: usize) {
        (0..USERS).for_each(|user| self.step_after(client, user, 1_000_000));
    }

    fn step_after(&mut self, client: usize, user: usize, most: u64) {
        let life = self.clients[client].life;
        let at = self.now + 1 + self.rng.below(most);
        self.agenda.push(at, Event::Step { client, life, user });
    }

    fn step(&mut self, client: usize, user: usize) {
        let life = self.clients[client].life;
        match self.clients[client].users[user] {
            Doing::Nothing if self.now < BUSY_US => self.ask(client, user),
            Doing::Holding(lease) => self.use_lease(client, user, lease),
            // Some lose patience.
            Doing::Asking(op, _) if self.rng.once_in(8) => self.tell(client, life, Input::Cancel { op: OpId(op) }),
            Doing::Nothing | Doing::Asking(..) => {}
        }
    }

    fn ask(&mut self, client: usize, user: usize) {
        let life = self.clients[client].life;
        self.last_op += 1;
        let op = OpId(self.last_op);
        let options = AcquireOptions {
            ttl: Duration::from_millis(self.rng.range((300, 3_000))),
            wait: Wait::For(Duration::from_secs(20)),
            linger: self.rng.once_in(4).then_some(Duration::from_millis(200)),
            renew: !self.rng.once_in(5),
            ..AcquireOptions::default()
        };
        // Some tokens are used twice, and some never.
        let token = (!self.passed_on.is_empty()).then(|| *self.rng.pick(&self.passed_on));
        if self.rng.once_in(2) {
            self.passed_on.retain(|other| Some(*other) != token);
        }
        self.clients[client].users[user] = Doing::Asking(op.0, token);
        self.step_after(client, user, 10_000_000);
        match token {
            Some(token) => {
                self.wanted.insert(token.text());
                self.tell(client, life, Input::Adopt { op, name: "job", token, options: &options });
            }
            None => self.tell(client, life, Input::Acquire { op, name: "job", options: &options }),
        }
    }

    fn use_lease(&mut self, client: usize, user: usize, lease: LeaseId) {
        let life = self.clients[client].life;
        self.last_op += 1;
        let op = OpId(self.last_op);
        match self.rng.below(7) {
            0 | 1 if self.now < BUSY_US => {
                self.exporting = Some(lease);
                self.tell(client, life, Input::Export { op, lease });
            }
            2 => self.tell(client, life, Input::StopRenewing { lease }),
            6 => self.tell(client, life, Input::Shorten { op, lease, ttl: Duration::from_millis(300) }),
            3 => self.tell(client, life, Input::Extend { op, lease, ttl: Duration::from_millis(900) }),
            _ => {
                self.held.remove(&(client, life, lease));
                self.clients[client].users[user] = Doing::Nothing;
                self.tell(client, life, Input::Release { op, lease });
            }
        }
        self.step_after(client, user, 2_000_000);
    }

    fn tell(&mut self, client: usize, life: u32, input: Input<'_>) {
        if self.clients[client].life != life {
            return;
        }
        self.clients[client].engine.handle(Instant::from_micros(self.now), input);
        while let Some(output) = self.clients[client].engine.poll_output() {
            self.take(client, life, output);
        }
        let Some((at, _)) = self.clients[client].engine.poll_timeout() else { return };
        let at = at.as_micros().max(self.now + 1);
        if self.clients[client].wakes.is_none_or(|wakes| at < wakes) {
            self.clients[client].wakes = Some(at);
            self.agenda.push(at, Event::Wake { client, life });
        }
    }

    fn take(&mut self, client: usize, life: u32, output: Output) {
        match output {
            Output::Send { id, command, .. } => self.send(client, life, id, command),
            Output::Subscribe { channel, .. } => {
                let at = self.now + self.delay();
                self.agenda.push(at, Event::Subscribed { client, life, channel });
            }
            Output::Completed { op, result } => self.ended(client, life, op.0, result),
            Output::Lost { lease, .. } => {
                self.held.remove(&(client, life, lease));
                for user in 0..USERS {
                    if self.clients[client].users[user] == Doing::Holding(lease) {
                        self.clients[client].users[user] = Doing::Nothing;
                        self.step_after(client, user, 1_000_000);
                    }
                }
            }
            _ => {}
        }
    }

    fn ended(&mut self, client: usize, life: u32, op: u64, result: Result<Outcome, Error>) {
        if let Ok(Outcome::Exported(token)) = result {
            if let Some(held) = self.exporting.and_then(|lease| self.held.get_mut(&(client, life, lease))) {
                held.exported = Some(token);
            }
            return self.passed_on.push(token);
        }
        let asking = |doing: &Doing| matches!(doing, Doing::Asking(of, _) if *of == op);
        let Some(user) = self.clients[client].users.iter().position(asking) else { return };
        let Doing::Asking(_, token) = self.clients[client].users[user] else { return };
        match result {
            Ok(Outcome::Acquired(grant)) => self.granted(client, life, user, token, grant),
            Ok(other) => panic!("seed {}: {other:?} of an acquire", self.seed),
            Err(_) => self.clients[client].users[user] = Doing::Nothing,
        }
        self.step_after(client, user, 1_000_000);
    }

    fn granted(&mut self, client: usize, life: u32, user: usize, token: Option<LeaseToken>, grant: Grant) {
        assert!(grant.fence > self.greatest, "seed {}: fence {} after {}", self.seed, grant.fence, self.greatest);
        self.greatest = grant.fence;
        self.adopted += u64::from(token.is_some());
        for held in self.held.values_mut().filter(|held| held.exported.is_some() && held.exported == token) {
            held.adopted_at = Some(self.now);
        }
        // It is renewed for at most as long as it was asked for.
        let ttl_us = 3_100_000;
        self.clients[client].users[user] = Doing::Holding(grant.lease);
        self.held.insert((client, life, grant.lease), Held { ttl_us, exported: None, adopted_at: None });
    }
}

/// The network and the server.
impl World {
    fn delay(&mut self) -> u64 {
        self.rng.spread((100, 30_000))
    }

    fn faulty(&mut self) -> bool {
        self.now < BUSY_US && self.rng.chance(30_000)
    }

    fn send(&mut self, client: usize, life: u32, id: CommandId, command: Command) {
        if self.faulty() {
            // A copy that comes late, perhaps alone.
            let at = self.now + self.rng.below(5_000_000);
            self.agenda.push(at, Event::Arrives { client, life: 0, id, command: command.clone() });
            if self.rng.once_in(2) {
                return;
            }
        }
        let at = self.now + self.delay();
        self.agenda.push(at, Event::Arrives { client, life, id, command });
    }

    fn arrives(&mut self, client: usize, life: u32, id: CommandId, command: &Command) {
        let words: Vec<&[u8]> = command.words().collect();
        let executed = self.server.execute(START_US + self.now, &words);
        let counter = self.server.get(START_US + self.now, "leasehold:fence");
        let counter: u64 = counter.map_or(0, |text| text.parse().unwrap());
        let ahead = counter.saturating_sub(START_US + self.now);
        assert!(ahead < MOST_AHEAD, "seed {}: the counter is {ahead} µs ahead of the clock", self.seed);
        for (channel, payload) in executed.published {
            let Some(to) = self.clients.iter().position(|client| client.channel.as_ref() == Some(&channel)) else {
                continue;
            };
            if !self.faulty() {
                let (at, life) = (self.now + self.delay(), self.clients[to].life);
                self.agenda.push(at, Event::Message { client: to, life, payload });
            }
        }
        if !self.faulty() {
            let at = self.now + self.delay();
            let result = executed.reply.map_err(Failure::Refused);
            self.agenda.push(at, Event::Reply { client, life, id, result });
        }
    }
}

/// What must hold.
impl World {
    fn holders_are_apart(&mut self) {
        let now = self.now;
        let mut valid = 0;
        for ((client, life, lease), held) in &self.held {
            let client = &self.clients[*client];
            if client.life != *life || client.engine.valid_until(*lease).is_none_or(|until| until.as_micros() <= now) {
                continue;
            }
            match held.adopted_at {
                Some(at) => {
                    assert!(now < at + held.ttl_us, "seed {}: a lease outlives its adoption at {at} by far", self.seed);
                }
                // Its adopter may not know yet that it is one.
                None if held.exported.is_some_and(|token| self.wanted.contains(&token.text())) => {}
                None => valid += 1,
            }
        }
        assert!(valid <= 1, "seed {}: {valid} clients hold the lock at {now}", self.seed);
    }
}
