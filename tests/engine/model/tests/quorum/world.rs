//! Clients and servers on one virtual clock. A command takes half a millisecond each way; a server may be slow, dead or refuse.

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, ClientId, Command, CommandId, Config, Engine, Error, Failure, Grant, Input, Instant, LeaseId,
    NodeId, OpId, Outcome, Reply, Wait,
};
use leasehold_harness::{Client, Rng, Transcript, World};
use leasehold_model::ModelServer;

pub(crate) const NAME: &str = "invoice:42";
/// A millisecond, in the engine's unit.
pub(crate) const MS: u64 = 1_000;
const EPOCH: u64 = 1_800_000_000_000_000;

/// The state of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Health {
    Well,
    /// Its answers are this many microseconds late.
    Slow(u64),
    /// It receives commands, but its answers are lost.
    Mute,
    /// It can't be reached, and the driver knows.
    Dead,
    /// It refuses every command.
    Refusing(&'static str),
}

/// A quorum whose servers do what the test says, without random faults.
pub(crate) struct ScriptedQuorum {
    world: World<Event>,
    pub(crate) servers: Vec<(ModelServer, Health)>,
    /// How far each server's clock is ahead.
    pub(crate) ahead: Vec<u64>,
    pub(crate) clients: Vec<Client>,
    places: Vec<Place>,
    /// How many commands were sent.
    pub(crate) sent: u64,
    /// The first server refuses subscriptions.
    pub(crate) silent: bool,
}

/// Where a client is.
struct Place {
    /// The servers that it can't reach.
    cut: Vec<usize>,
    /// The servers in the order in which it lists them.
    order: Vec<usize>,
    /// Its channel on the first server, once it has subscribed.
    channel: Option<String>,
}

enum Event {
    Arrive { client: usize, server: usize, id: CommandId, command: Command },
    Reply { client: usize, id: CommandId, result: Result<Reply, Failure> },
    Subscribed { client: usize, channel: String },
    Message { server: usize, channel: String, payload: Vec<u8> },
}

pub(crate) fn options(ttl: u64, wait: Wait) -> AcquireOptions {
    AcquireOptions { ttl: Duration::from_millis(ttl), wait, ..AcquireOptions::default() }
}

impl ScriptedQuorum {
    pub(crate) fn new(servers: usize, clients: usize) -> Self {
        Self::listed(servers, vec![(0..servers).collect(); clients])
    }

    /// Each client lists the servers in its own order.
    pub(crate) fn listed(servers: usize, orders: Vec<Vec<usize>>) -> Self {
        let names: Vec<String> = (0..servers).map(|number| format!("s{number}")).collect();
        let client = |(number, order): (u8, &Vec<usize>)| {
            let listed: Vec<&str> = order.iter().map(|server| names[*server].as_str()).collect();
            Client::of(Engine::quorum(ClientId::from_random([number; 16]), Config::default(), &listed).unwrap())
        };
        Self {
            world: World::new(Rng::new(0), Transcript::default()),
            servers: (0..servers).map(|_| (ModelServer::new(), Health::Well)).collect(),
            ahead: vec![0; servers],
            clients: (1..).zip(&orders).map(client).collect(),
            places: orders.into_iter().map(|order| Place { cut: Vec::new(), order, channel: None }).collect(),
            sent: 0,
            silent: false,
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.world.now
    }

    pub(crate) fn set(&mut self, servers: impl IntoIterator<Item = usize>, health: Health) {
        for server in servers {
            self.servers[server].1 = health;
            if server == 0 && health == Health::Dead {
                self.break_subscriptions();
            }
        }
    }

    /// The first server restarts without its data and its scripts.
    pub(crate) fn restart_empty(&mut self) {
        self.wipe(0);
        self.servers[0].0.script_flush();
        self.break_subscriptions();
    }

    fn break_subscriptions(&mut self) {
        for client in 0..self.clients.len() {
            if let Some(channel) = self.places[client].channel.take() {
                let cause = Failure::Interrupted("the connection closed".into());
                self.tell(client, Input::Unsubscribed { node: NodeId(0), channel: &channel, cause });
            }
        }
    }

    /// From now on, the client's commands don't reach these servers.
    pub(crate) fn cut(&mut self, client: usize, servers: impl IntoIterator<Item = usize>) {
        self.places[client].cut.extend(servers);
    }

    /// The server forgets everything.
    pub(crate) fn wipe(&mut self, server: usize) {
        self.servers[server].0.flush_all();
    }

    pub(crate) fn has_ended(&self, client: usize, op: OpId) -> bool {
        self.clients[client].result_of(op).is_some()
    }

    /// Another program writes the lock's key on a server, without a TTL.
    pub(crate) fn write(&mut self, server: usize) {
        let now = self.clock(server);
        let words: [&[u8]; 3] = [b"SET", NAME.as_bytes(), b"somebody"];
        self.servers[server].0.execute(now, &words).reply.unwrap();
    }

    /// For how many milliseconds the lock's key on a server lasts.
    pub(crate) fn ttl(&self, server: usize) -> u64 {
        let (now, model) = (self.clock(server), &self.servers[server].0);
        model.expires(now, NAME).map_or(0, |expires| expires.saturating_sub(now) / MS)
    }

    /// A user's call at this moment.
    pub(crate) fn call<'a>(&mut self, client: usize, input: impl FnOnce(OpId) -> Input<'a>) -> OpId {
        let op = self.clients[client].next_op();
        self.tell(client, input(op));
        op
    }

    pub(crate) fn acquire(&mut self, client: usize, ttl: u64, wait: Wait) -> OpId {
        let options = options(ttl, wait);
        self.call(client, |op| Input::Acquire { op, name: NAME, options: &options })
    }

    /// Acquires, and lets time pass until the call has ended.
    pub(crate) fn acquired(&mut self, client: usize, ttl: u64) -> Grant {
        let op = self.acquire(client, ttl, Wait::Forever);
        self.granted(client, op)
    }

    /// Lets time pass until this call to acquire has ended.
    pub(crate) fn granted(&mut self, client: usize, op: OpId) -> Grant {
        match self.result(client, op) {
            Ok(Outcome::Acquired(grant)) => grant,
            other => panic!("not acquired: {other:?}"),
        }
    }

    /// Loads the scripts on every server, and takes a first lock, so that later commands take one round trip. Ends at a
    /// whole second.
    pub(crate) fn warm(&mut self) {
        for server in 0..self.servers.len() {
            let now = self.clock(server);
            for script in leasehold_lua::ALL {
                // It fails without its keys.
                let _ = self.servers[server].0.execute(now, &[b"EVAL", script.source.as_bytes(), b"0"]);
            }
        }
        let grant = self.acquired(0, 10_000);
        self.settle();
        self.release(0, grant.lease).unwrap();
        self.pass(1_000 * MS - self.world.now);
    }

    pub(crate) fn tried(&mut self, client: usize, ttl: u64) -> Result<Outcome, Error> {
        let op = self.acquire(client, ttl, Wait::No);
        self.result(client, op)
    }

    pub(crate) fn release(&mut self, client: usize, lease: LeaseId) -> Result<Outcome, Error> {
        let op = self.call(client, |op| Input::Release { op, lease });
        self.result(client, op)
    }

    /// Lets time pass until a call has ended.
    pub(crate) fn result(&mut self, client: usize, op: OpId) -> Result<Outcome, Error> {
        for _ in 0..100_000 {
            if let Some(result) = self.clients[client].result_of(op) {
                return result.clone();
            }
            self.step(u64::MAX);
        }
        panic!("{op:?} never ends");
    }

    pub(crate) fn pass(&mut self, micros: u64) {
        let until = self.world.now + micros;
        while self.step(until) {}
        self.world.now = until;
    }

    /// Lets time pass without any event: no client wakes up, and nothing arrives.
    pub(crate) fn sleep(&mut self, micros: u64) {
        self.world.now += micros;
    }

    /// Handles every event that is under way.
    pub(crate) fn settle(&mut self) {
        self.pass(500 * MS);
    }

    pub(crate) fn valid_until(&self, client: usize, lease: LeaseId) -> Option<u64> {
        self.clients[client].engine.valid_until(lease).map(Instant::as_micros)
    }

    pub(crate) fn is_idle(&self, client: usize) -> bool {
        self.clients[client].engine.is_idle()
    }

    /// The value of the lock's key on a server.
    pub(crate) fn holder(&self, server: usize) -> Option<String> {
        self.servers[server].0.get(self.clock(server), NAME)
    }

    pub(crate) fn last_fence(&self, server: usize) -> u64 {
        self.servers[server]
            .0
            .get(self.clock(server), "leasehold:fence:quorum")
            .map_or(0, |fence| fence.parse().unwrap())
    }

    /// How many servers have a holder of the lock.
    pub(crate) fn held(&self) -> usize {
        (0..self.servers.len()).filter(|server| self.holder(*server).is_some()).count()
    }

    fn clock(&self, server: usize) -> u64 {
        EPOCH + self.world.now + self.ahead[server]
    }

    fn step(&mut self, until: u64) -> bool {
        let wake = self.clients.iter().enumerate();
        let wake = wake.filter_map(|(client, it)| Some((it.engine.poll_timeout()?.0.as_micros(), client))).min();
        let first = wake.map_or(until, |(at, _)| at.min(until));
        if self.world.agenda.next_at().is_some_and(|at| at <= first) {
            if let Some(event) = self.world.advance() {
                self.happen(event);
            }
            return true;
        }
        let Some((at, client)) = wake.filter(|(at, _)| *at <= until) else { return false };
        self.world.now = self.world.now.max(at);
        self.tell(client, Input::Wake);
        true
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive { client, server, id, command } => {
                let now = self.clock(server);
                let (model, health) = &mut self.servers[server];
                let health = if self.places[client].cut.contains(&server) { Health::Dead } else { *health };
                let result = match health {
                    Health::Dead => Err(Failure::Unavailable("connection refused".into())),
                    Health::Refusing(text) => Err(Failure::Refused(text.into())),
                    Health::Well | Health::Slow(_) | Health::Mute => {
                        let words: Vec<&[u8]> = command.words().collect();
                        let executed = model.execute(now, &words);
                        for (channel, payload) in executed.published.into_iter().filter(|_| health != Health::Mute) {
                            self.world.after(MS / 2, Event::Message { server, channel, payload });
                        }
                        executed.reply.map_err(Failure::Refused)
                    }
                };
                if health != Health::Mute {
                    self.world.after(MS / 2, Event::Reply { client, id, result });
                }
            }
            Event::Reply { client, id, result } => self.tell(client, Input::Reply { id, result }),
            Event::Subscribed { client, channel } => {
                let (node, subscribed) = (NodeId(0), channel.as_str());
                if self.silent {
                    let cause =
                        Failure::Refused("NOPERM this user has no permissions to access one of the channels".into());
                    self.tell(client, Input::Unsubscribed { node, channel: subscribed, cause });
                } else if self.servers[self.places[client].order[0]].1 == Health::Well {
                    self.tell(client, Input::Subscribed { node, channel: subscribed });
                    self.places[client].channel = Some(channel);
                } else {
                    let cause = Failure::Unavailable("connection refused".into());
                    self.tell(client, Input::Unsubscribed { node, channel: subscribed, cause });
                }
            }
            Event::Message { server, channel, payload } => {
                let hears = |place: &Place| place.order[0] == server && place.channel.as_ref() == Some(&channel);
                if let Some(client) = self.places.iter().position(hears) {
                    self.tell(client, Input::Message { node: NodeId(0), channel: &channel, payload: &payload });
                }
            }
        }
    }

    pub(crate) fn tell(&mut self, client: usize, input: Input<'_>) {
        let it = &mut self.clients[client];
        it.now = self.world.now;
        it.feed(input);
        for (id, command) in std::mem::take(&mut it.unanswered) {
            let server = self.places[client].order[usize::from(it.node_of(id).0)];
            let slow = if let (_, Health::Slow(by)) = self.servers[server] { by } else { 0 };
            self.sent += 1;
            self.world.after(MS / 2 + slow, Event::Arrive { client, server, id, command });
        }
        for channel in it.channels.drain(..) {
            self.world.after(MS, Event::Subscribed { client, channel });
        }
    }
}
