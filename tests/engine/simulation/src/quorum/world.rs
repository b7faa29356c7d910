//! A run of clients and the servers of a quorum, on virtual time. One seed makes all of it.

use leasehold_core::{Input, NodeId, Output};
use leasehold_harness::{Micros, Rng, Transcript, World};
use leasehold_model::ModelServer;

use crate::channels::Topic;
use crate::client::Delivery;
use crate::invariants::keys::Keys;
use crate::invariants::{Verdict, broken};
use crate::kinds::LockKind;
use crate::quorum::client::{Client, Doing, UserCall, Wanted};
use crate::quorum::users::text;
use crate::quorum::watch::Watch;
use crate::servers::Server;
use crate::wire::Life;
use crate::world::{Counts, Event, LEAST_CALLS, LEAST_FAULTS, Phase};

const CHECK_EVERY: Micros = 50_000;
const LONGEST_RUN: Micros = 300_000_000;
/// If nothing goes wrong, a caller of several names is served within this time, however busy each name is.
pub(crate) const STARVED: Micros = 5_000_000;

/// The settings of a run. Chances are in millionths. Times are in µs unless the name says ms.
#[derive(Debug)]
pub(crate) struct Mix {
    pub(crate) servers: usize,
    pub(crate) clients: usize,
    pub(crate) names: usize,
    pub(crate) users: (u64, u64),
    /// Whether servers forget when they restart.
    pub(crate) losing: bool,
    pub(crate) chance: u32,
    pub(crate) gap: Micros,
    pub(crate) trip: (u64, u64),
    pub(crate) slow: (u64, u64),
    pub(crate) outage: (u64, u64),
    pub(crate) claim_ms: (u64, u64),
    pub(crate) ttl_ms: (u64, u64),
    pub(crate) hold: (u64, u64),
    pub(crate) think: (u64, u64),
    /// How many acquires are those of readers.
    pub(crate) shared: u32,
    /// For each name of a single server: the limit of a semaphore, or 0 for a lock, and how often users read a lock.
    pub(crate) limits: Vec<u32>,
    pub(crate) readers: u32,
    pub(crate) manner: Manner,
}

/// What is special about a run of a quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Nothing.
    Plain,
    /// Holders move the ends of their leases.
    Keeping,
    /// Users hold several names as one lease, and some move its end.
    Names,
    /// Most users read.
    Readers,
    /// Each client has many callers for one name and hands it over locally, and servers are often away for a moment.
    Hot,
    /// One server instead of a quorum, and users hold several names as one lease: mutexes, readers, writers and permits. Single
    /// keys vanish, and replicas without the last writes take over.
    Multi,
    /// The same, and holders move the ends of their leases.
    MultiKeeping,
    /// Users want one name each, so much that no name is ever free, and one user of each client wants all of them.
    MultiBusy,
}

impl Mix {
    fn draw(rng: &mut Rng, manner: Manner) -> Self {
        let ttl = rng.spread((200, 5_000));
        let mix = Self {
            servers: *rng.pick(&[3, 3, 3, 5, 5, 7]),
            clients: rng.range((2, 4)) as usize,
            names: rng.range((1, 2)) as usize,
            users: (1, rng.range((1, 3))),
            losing: rng.chance(400_000),
            chance: *rng.pick(&[0, 3_000, 30_000, 100_000]),
            gap: rng.spread((100_000, 2_000_000)),
            trip: (50, rng.spread((100, 10_000))),
            slow: (5_000, rng.spread((20_000, 2_000_000))),
            outage: (10_000, rng.spread((200_000, 8_000_000))),
            claim_ms: (300, 3_000),
            ttl_ms: (ttl, ttl * 2),
            hold: (0, rng.spread((1_000, 3_000_000))),
            think: (0, rng.spread((1_000, 300_000))),
            shared: 0,
            limits: Vec::new(),
            readers: 0,
            manner,
        };
        if manner == Manner::MultiBusy {
            let (names, ttl_ms) = (3, (1_000, 3_000));
            let limits = vec![rng.below(2) as u32; names];
            return Self {
                servers: 1,
                clients: 2,
                names,
                users: (4, 4),
                losing: false,
                chance: 0,
                gap: LONGEST_RUN,
                trip: (50, 500),
                claim_ms: (200, 1_000),
                ttl_ms,
                hold: (5_000, 20_000),
                think: (0, 2_000),
                limits,
                ..mix
            };
        }
        if matches!(manner, Manner::Multi | Manner::MultiKeeping) {
            // In many runs nothing goes wrong but that clients crash and keys vanish. Then no lease expires needlessly.
            let chance = if rng.chance(300_000) { 0 } else { rng.spread((1_000, 100_000)) as u32 };
            let names = rng.range((3, 6)) as usize;
            let limits = (0..names).map(|_| *rng.pick(&[0, 0, 1, 2, 5])).collect();
            return Self {
                servers: 1,
                clients: rng.range((1, 4)) as usize,
                names,
                limits,
                readers: *rng.pick(&[0, 200_000, 600_000]),
                users: (1, 4),
                losing: false,
                chance,
                gap: rng.spread((300_000, 4_000_000)),
                trip: (50, 2_000),
                claim_ms: (200, 1_000),
                ttl_ms: (100, 3_000),
                hold: (200, rng.spread((2_000, 500_000))),
                think: (200, rng.spread((2_000, 500_000))),
                ..mix
            };
        }
        let names = if manner == Manner::Names { rng.range((2, 4)) as usize } else { mix.names };
        let mix = Self { names, limits: vec![0; names], ..mix };
        if manner == Manner::Names {
            return mix;
        }
        if manner == Manner::Readers {
            let mix = Self { users: (1, rng.range((2, 6))), shared: rng.range((300_000, 900_000)) as u32, ..mix };
            // With long calm times, in which no reader may pass a writer.
            if !rng.chance(100_000) {
                return mix;
            }
            return Self { chance: 0, gap: 3_000_000, outage: (10_000, 500_000), ..mix };
        }
        if manner != Manner::Hot {
            return mix;
        }
        Self {
            servers: 3,
            clients: 2,
            names: 1,
            users: (3, 6),
            gap: rng.spread((20_000, 200_000)),
            outage: (5_000, 200_000),
            ttl_ms: (5_000, 10_000),
            hold: (0, 5_000),
            think: (0, 2_000),
            ..mix
        }
    }

    /// How often holders move the ends of their leases.
    pub(crate) const fn keeps(&self) -> u32 {
        match self.manner {
            Manner::Keeping | Manner::MultiKeeping => 400_000,
            Manner::Names => 100_000,
            Manner::Plain | Manner::Hot | Manner::Readers | Manner::Multi | Manner::MultiBusy => 0,
        }
    }

    /// Whether users hold several names as one lease.
    pub(crate) const fn is_of_several(&self) -> bool {
        matches!(self.manner, Manner::Names | Manner::Multi | Manner::MultiKeeping | Manner::MultiBusy)
    }

    /// Whether clients have one server, and no quorum.
    pub(crate) const fn is_single(&self) -> bool {
        self.servers == 1
    }

    /// The fewest script calls of a run.
    const fn least_calls(&self) -> u64 {
        if self.is_single() { 4 * LEAST_CALLS } else { LEAST_CALLS }
    }

    /// How long users may take to finish once faults have stopped.
    const fn patience(&self) -> Micros {
        if self.is_single() { 70_000_000 } else { 120_000_000 }
    }

    /// How soon a holder must be notified that its servers have forgotten its lease: the longest TTL, also of an extension.
    pub(crate) const fn told_within(&self) -> Micros {
        self.ttl_ms.1 * 1_000 + 5_000_000
    }
}

/// A server of such a run.
fn server(rng: &mut Rng, losing: bool) -> Server {
    // If fences can be forgotten, clocks must differ by less than a restart takes.
    let (skew, drift) = if losing { (20_000, 50) } else { (10_000_000, 5_000) };
    Server::new(rng, skew, drift)
}

/// One run: engines with locks over several independent servers, or with leases of several names on one.
pub struct QuorumRun<'a> {
    pub(crate) world: World<Event>,
    pub(crate) mix: Mix,
    pub(crate) phase: Phase,
    pub(crate) servers: Vec<Server>,
    pub(crate) models: &'a mut [ModelServer],
    pub(crate) clients: Vec<Client>,
    lives: Life,
    /// Which client can't reach which server, and until when.
    pub(crate) cuts: Vec<(usize, usize, Micros)>,
    pub(crate) watch: Watch,
    pub(crate) keys: Keys,
    pub(crate) counts: Counts,
    /// When the last fault was over.
    pub(crate) calm_since: Micros,
}

impl<'a> QuorumRun<'a> {
    /// The most servers that a run has.
    pub const SERVERS: usize = 7;

    /// The run of a seed, on these model servers.
    pub fn new(seed: u64, manner: Manner, models: &'a mut [ModelServer], transcript: Transcript) -> Self {
        let mut rng = Rng::new(seed);
        rng.draw();
        let mix = Mix::draw(&mut rng, manner);
        let models = &mut models[..mix.servers];
        models.iter_mut().for_each(ModelServer::reset);
        let servers = (0..mix.servers).map(|_| server(&mut rng, mix.losing)).collect();
        let names: Vec<String> = (0..mix.names).map(text).collect();
        let kind = |limit: &u32| if *limit > 0 { LockKind::Semaphore } else { LockKind::Lock };
        let keys = Keys::of(names.iter().map(String::as_str).zip(mix.limits.iter().map(kind)), false);
        let mut run = Self {
            world: World::new(rng, transcript),
            phase: Phase::Busy,
            servers,
            models,
            clients: Vec::new(),
            lives: 0,
            cuts: Vec::new(),
            watch: Watch::new(&mix),
            keys,
            counts: Counts::default(),
            calm_since: 0,
            mix,
        };
        run.begin();
        run
    }

    fn begin(&mut self) {
        let summary = format!("{:?}", self.mix);
        self.world.transcript.line(0, "mix", format_args!("{summary}"));
        for client in 0..self.mix.clients {
            self.start(client);
        }
        self.world.agenda.push(self.mix.gap, Event::Strike);
        self.world.agenda.push(CHECK_EVERY, Event::Check);
    }

    fn start(&mut self, place: usize) {
        self.lives += 1;
        let client = Client::start(&mut self.world.rng, &self.mix, self.lives);
        let users = client.users.len();
        if place < self.clients.len() {
            self.clients[place] = client;
        } else {
            self.clients.push(client);
        }
        for user in 0..users {
            let after = self.world.rng.range(self.mix.think);
            self.next_step(place, user, after);
        }
    }

    /// What happened in the run.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The transcript, if it was written.
    pub fn into_transcript(self) -> Vec<String> {
        self.world.transcript.into_lines()
    }

    /// Runs until the end, or until an invariant is broken.
    ///
    /// # Errors
    /// The promise that was broken.
    pub fn run(&mut self) -> Verdict {
        while let Some(event) = self.world.advance() {
            let at = self.world.now;
            self.counts.micros = at;
            self.handle(event);
            self.watch.verdict()?;
            match self.phase {
                Phase::Resting { until, .. } if at > until => return self.last_check(),
                _ => self.advance_phase()?,
            }
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive(arrival) => self.arrive(arrival),
            Event::Deliver { client, life, what } => self.deliver(client, life, what),
            Event::Subscribe { client, life, .. } => self.subscribe(client, life),
            Event::Wake { client, life, number } => {
                let it = &mut self.clients[client];
                if it.life == life && it.wake.1 == number && it.is_awake() {
                    it.wake.0 = None;
                    self.tell_engine(client, Input::Wake);
                }
            }
            Event::Step { client, life, user, number } => self.step(client, life, user, number),
            Event::Cancel { client, life, op } => {
                if self.clients[client].life == life && self.clients[client].is_awake() {
                    self.tell_engine(client, Input::Cancel { op });
                }
            }
            Event::Resume { client, life } => self.resume(client, life),
            Event::Start { client } => {
                if self.phase == Phase::Busy {
                    self.start(client);
                }
            }
            Event::Strike => self.strike(),
            Event::Vanish { name } => self.vanish(name),
            Event::Unsubscribe { .. } | Event::Foreign { .. } | Event::Ambush { .. } | Event::Death { .. } => {}
            Event::Check => {
                self.check_all();
                self.world.after(CHECK_EVERY, Event::Check);
            }
        }
    }

    fn deliver(&mut self, client: usize, life: Life, what: Delivery) {
        let it = &mut self.clients[client];
        if it.life != life || it.engine.is_none() {
            return;
        }
        if !it.is_awake() {
            return it.inbox.push(what);
        }
        let (node, channel) = (NodeId(0), it.channel());
        match what {
            Delivery::Reply(id, result) => {
                let (at, timeout) = (it.clock.instant(self.world.now), it.config.node_timeout);
                it.attempts.answered(id, at, timeout, &result);
                if result.is_ok() {
                    it.close_goes_on(it.clock.instant(self.world.now));
                }
                self.tell_engine(client, Input::Reply { id, result });
            }
            Delivery::Message(_, payload) => {
                self.tell_engine(client, Input::Message { node, channel: &channel, payload: &payload });
            }
            Delivery::Subscribed(_) => self.tell_engine(client, Input::Subscribed { node, channel: &channel }),
            Delivery::Unsubscribed(_, cause) => {
                self.tell_engine(client, Input::Unsubscribed { node, channel: &channel, cause });
            }
        }
    }

    fn resume(&mut self, client: usize, life: Life) {
        let it = &mut self.clients[client];
        if it.life != life || it.engine.is_none() {
            return;
        }
        it.asleep_until = None;
        it.wake.0 = None;
        it.tries_go_on(it.clock.instant(self.world.now), self.servers.len());
        for what in std::mem::take(&mut it.inbox) {
            self.deliver(client, life, what);
        }
        self.tell_engine(client, Input::Wake);
    }

    pub(crate) fn tell_engine(&mut self, client: usize, input: Input<'_>) {
        let it = &mut self.clients[client];
        let at = it.clock.instant(self.world.now);
        let Some(engine) = &mut it.engine else { return };
        engine.handle(at, input);
        let outputs: Vec<Output> = std::iter::from_fn(|| engine.poll_output()).collect();
        for output in outputs {
            match output {
                Output::Send { id, node, command } => self.send(client, usize::from(node.0), id, command),
                Output::Completed { op, result } => self.completed(client, op, result),
                Output::Lost { lease, reason } => self.lost(client, lease, reason),
                Output::Subscribe { .. } => {
                    let (life, after) = (self.clients[client].life, self.world.rng.range(self.mix.trip));
                    self.world.after(after, Event::Subscribe { client, life, topic: Topic::Own });
                }
                Output::Unsubscribe { .. } => self.clients[client].subscribed = false,
                Output::Leader { .. } | Output::SendDedicated { .. } | Output::CloseDedicated { .. } => {}
            }
        }
        self.update(client);
    }

    /// Updates what a client takes to be valid, and when it wants to be woken.
    fn update(&mut self, client: usize) {
        let it = &mut self.clients[client];
        let at = it.clock.instant(self.world.now);
        let Some(engine) = &it.engine else { return };
        let (life, clock) = (it.life, it.clock);
        let mut verdict = Ok(());
        for belief in self.watch.beliefs.iter_mut().filter(|belief| belief.life == life) {
            match engine.valid_until(belief.lease) {
                Some(until) if belief.end().is_some_and(|ends| until > ends) => {
                    let detail = format!(
                        "c{client} has {:?} until {until:?}, and was to have it until {:?}",
                        belief.lease,
                        belief.end()
                    );
                    verdict = broken("max-hold", detail);
                }
                Some(until) if until > at => belief.until = clock.when(until.as_micros()),
                until => {
                    let detail = format!("c{client} has {:?}, valid until {until:?}, at {at:?}", belief.lease);
                    verdict = broken("loss-late", detail);
                }
            }
        }
        let wanted = engine.poll_timeout().map(|(at, _)| at);
        if it.wake.0 != wanted {
            it.wake = (wanted, it.wake.1 + 1);
            let number = it.wake.1;
            if let Some(wanted) = wanted {
                let when = clock.when(wanted.as_micros()).max(self.world.now);
                self.world.agenda.push(when, Event::Wake { client, life, number });
            }
        }
        self.watch.check(verdict);
    }

    fn advance_phase(&mut self) -> Verdict {
        match self.phase {
            Phase::Busy => {
                let seen = self.counts.calls >= self.mix.least_calls() && self.counts.faults >= LEAST_FAULTS;
                let longest = if self.mix.manner == Manner::MultiBusy { STARVED + 1_000_000 } else { LONGEST_RUN };
                if (seen && self.world.now > 3_000_000) || self.world.now > longest {
                    self.phase = Phase::Ending { since: self.world.now };
                    self.cuts.clear();
                    for client in 0..self.clients.len() {
                        if (self.world.now + client as u64).is_multiple_of(3) {
                            self.drain(client);
                        }
                    }
                }
            }
            Phase::Ending { since } => {
                if self.clients.iter().all(|it| it.engine.is_none() || it.is_finished()) {
                    // Some clients close. The others have nothing left to do. The release of a given-up token is
                    // retried for 20 claim windows.
                    for client in 0..self.clients.len() {
                        if self.clients[client].is_awake() && self.world.rng.chance(300_000) {
                            self.call(client, 0, &[Wanted::exclusive(0)], UserCall::Close);
                        }
                    }
                    let since = self.world.now;
                    self.phase = Phase::Resting { since, until: since + 130_000_000 };
                } else if self.world.now - since > self.mix.patience() {
                    return broken(
                        "unfinished",
                        format!("somebody still waits or holds, although faults ended at {since}"),
                    );
                }
            }
            Phase::Resting { .. } => {}
        }
        Ok(())
    }

    pub(crate) fn closed(&mut self, client: usize) {
        let life = self.clients[client].life;
        if self.watch.beliefs.iter().any(|belief| belief.life == life) {
            self.watch.check(broken("answer", format!("c{client} closed, but something is held")));
        }
        self.clients[client].users.iter_mut().for_each(|user| user.doing = Doing::Nothing);
    }

    pub(crate) fn note(&mut self, client: usize, what: std::fmt::Arguments<'_>) {
        self.world.transcript.line(self.world.now, format_args!("c{client}"), what);
    }
}
