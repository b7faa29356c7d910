//! A run of clients and the primaries of a cluster, with the network between them, on virtual time. One seed makes all of
//! it.

use std::collections::VecDeque;
use std::rc::Rc;

use leasehold_core::{Command, CommandId, OpId, Output};
use leasehold_harness::{Micros, Rng, Transcript, World};
use leasehold_model::ModelServer;

use crate::adopting::PassedOn;
use crate::channels::Topic;
use crate::client::{Client, Delivery};
use crate::coverage::{Coverage, State};
use crate::faults::Fault;
use crate::foreign::{ForeignStep, Foreigner};
use crate::injected_bugs::InjectedBugs;
use crate::invariants::Verdict;
use crate::mix::Mix;
use crate::servers::{Server, Servers};
use crate::theme::Theme;
use crate::watch::Watch;
use crate::wire::Life;

/// The fewest script calls of a run.
pub const LEAST_CALLS: u64 = 300;
/// The fewest faults of a run.
pub const LEAST_FAULTS: u64 = 5;

/// How often the whole world is checked.
const CHECK_EVERY: Micros = 100_000;
/// The longest run, in true time.
const LONGEST_RUN: Micros = 1_800_000_000;

/// A scheduled event.
pub(crate) enum Event {
    /// A command reaches its server.
    Arrive(Arrival),
    /// Something reaches a client.
    Deliver { client: usize, life: Life, what: Delivery },
    /// A subscription reaches its server.
    Subscribe { client: usize, life: Life, topic: Topic },
    /// The end of a subscription reaches its server.
    Unsubscribe { client: usize, life: Life, topic: Topic },
    /// A client's timer fires.
    Wake { client: usize, life: Life, number: u32 },
    /// A user's next step.
    Step { client: usize, life: Life, user: usize, number: u32 },
    /// A client's process resumes.
    Resume { client: usize, life: Life },
    /// Another client takes the place of one that is gone.
    Start { client: usize },
    /// A foreign client's next step.
    Foreign { foreigner: usize, step: ForeignStep },
    /// A user gives a call up, which may have ended.
    Cancel { client: usize, life: Life, op: OpId },
    /// The next fault.
    Strike,
    /// The key of a name vanishes.
    Vanish { name: usize },
    /// A fault that was kept for a rare state of this client.
    Ambush { client: usize },
    /// A client dies after one of its users has passed a lease on.
    Death { client: usize, life: Life },
    /// A check of everything.
    Check,
}

/// A command on its way.
#[derive(Clone)]
pub(crate) struct Arrival {
    pub(crate) client: usize,
    pub(crate) life: Life,
    pub(crate) server: usize,
    /// The lock that it is about, or the first of several.
    pub(crate) name: usize,
    pub(crate) id: CommandId,
    pub(crate) command: Rc<Command>,
    /// How often its answer is delivered: never, once or twice.
    pub(crate) answers: u32,
    /// Whether it is a release.
    pub(crate) releases: bool,
    /// Whether it is a batch with releases and other entries.
    pub(crate) mixed: bool,
    /// How long the answer takes.
    pub(crate) back: Micros,
}

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Users come and go, and faults strike.
    Busy,
    /// Users finish what they have begun. In a liveness run, no fault strikes any more.
    Ending { since: Micros },
    /// All users are idle. Commands under way arrive.
    Resting { since: Micros, until: Micros },
}

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Script calls that a server ran.
    pub calls: u64,
    /// Faults that struck.
    pub faults: u64,
    /// Leases granted to users.
    pub grants: u64,
    /// How many of these were granted inside a client.
    pub local: u64,
    /// Leases that were lost.
    pub losses: u64,
    /// Virtual time.
    pub micros: u64,
}

impl Counts {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.faults += other.faults;
        self.grants += other.grants;
        self.local += other.local;
        self.losses += other.losses;
        self.micros += other.micros;
    }
}

/// One run: engines with locks of every kind on servers that are the primaries of a cluster.
pub struct ClusterRun<'a> {
    pub(crate) world: World<Event>,
    pub(crate) mix: Mix,
    pub(crate) bugs: InjectedBugs,
    pub(crate) phase: Phase,
    pub(crate) servers: Servers<'a>,
    pub(crate) clients: Vec<Client>,
    pub(crate) foreigners: Vec<Foreigner>,
    pub(crate) lives: Life,
    /// Which client can't reach which server, and until when.
    pub(crate) cuts: Vec<(usize, usize, Micros)>,
    /// The rare state in which the next fault strikes.
    pub(crate) ambush: Option<State>,
    /// Tokens of leases that other clients may adopt, the newest last.
    pub(crate) passed_on: Vec<PassedOn>,
    /// Since when nothing has gone wrong, or until when something will.
    pub(crate) calm_since: Micros,
    pub(crate) watch: Watch,
    pub(crate) coverage: Coverage,
    pub(crate) counts: Counts,
    pub(crate) spare_outputs: VecDeque<Output>,
    /// How many results of a once were brought. Each is another number.
    pub(crate) results: u64,
}

impl<'a> ClusterRun<'a> {
    /// The run of a seed. It needs a model server for each server that the mix may have.
    pub fn new(
        seed: u64,
        theme: Option<Theme>,
        bugs: InjectedBugs,
        models: &'a mut [ModelServer],
        transcript: Transcript,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let mix = Mix::draw(&mut rng, theme);
        let servers = Servers::new(&mut rng, &mix, models);
        let mut run = Self {
            world: World::new(rng, transcript),
            bugs,
            phase: Phase::Busy,
            clients: Vec::new(),
            foreigners: Vec::new(),
            lives: 0,
            cuts: Vec::new(),
            ambush: None,
            passed_on: Vec::new(),
            calm_since: 0,
            watch: Watch::new(&servers.names, mix.clients, &mix),
            coverage: Coverage::default(),
            counts: Counts::default(),
            spare_outputs: VecDeque::new(),
            results: 0,
            servers,
            mix,
        };
        run.begin();
        run
    }

    fn begin(&mut self) {
        let summary = format!("{:?}", self.mix);
        self.note_line("mix", format_args!("{summary}"));
        for place in 0..self.mix.clients {
            self.start_client(place);
        }
        for foreigner in 0..self.mix.foreigners {
            let foreigner_ = Foreigner::new(&mut self.world.rng, foreigner, &self.mix);
            self.foreigners.push(foreigner_);
            let at = self.world.rng.below(200_000);
            self.world.agenda.push(at, Event::Foreign { foreigner, step: ForeignStep::Ask });
        }
        let first = self.world.rng.spread((10_000, self.mix.gap * 2));
        self.world.agenda.push(first, Event::Strike);
        self.world.agenda.push(CHECK_EVERY, Event::Check);
    }

    /// Runs until the end, or until an invariant is broken.
    pub fn run(&mut self) -> Verdict {
        while let Some(at) = self.world.agenda.next_at() {
            if let Phase::Resting { until, .. } = self.phase
                && at > until
            {
                self.world.now = until;
                return self.last_check();
            }
            let Some(event) = self.world.advance() else { break };
            self.counts.micros = at;
            self.handle(event);
            self.watch.verdict()?;
            self.advance_phase()?;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive(arrival) => self.arrive(arrival),
            Event::Deliver { client, life, what } => self.deliver(client, life, what),
            Event::Subscribe { client, life, topic } => self.subscribe_arrives(client, life, topic),
            Event::Unsubscribe { client, life, topic } => self.unsubscribe_arrives(client, life, topic),
            Event::Wake { client, life, number } => self.wake(client, life, number),
            Event::Step { client, life, user, number } => self.step(client, life, user, number),
            Event::Resume { client, life } => self.resume(client, life),
            Event::Start { client } => {
                if self.phase == Phase::Busy {
                    self.start_client(client);
                }
            }
            Event::Foreign { foreigner, step } => self.foreign(foreigner, step),
            Event::Strike => self.strike(),
            Event::Ambush { client } => self.strike_now(Some(client)),
            Event::Death { client, life } => self.die(client, life),
            Event::Cancel { .. } | Event::Vanish { .. } => {}
            Event::Check => {
                self.watch.now = self.world.now;
                self.check_all();
                if !matches!(self.phase, Phase::Resting { .. }) {
                    self.world.after(CHECK_EVERY, Event::Check);
                }
            }
        }
    }

    fn advance_phase(&mut self) -> Verdict {
        match self.phase {
            Phase::Busy => {
                // No fault strikes in a run that is only crowded.
                let struck = self.counts.faults >= LEAST_FAULTS || self.mix.is_crowded();
                let seen = self.counts.calls >= LEAST_CALLS && struck;
                if (seen && self.world.now > 2_000_000) || self.world.now > LONGEST_RUN {
                    self.end_business();
                }
                Ok(())
            }
            Phase::Ending { since } => {
                let finished =
                    self.clients.iter().all(Client::is_finished) && self.foreigners.iter().all(Foreigner::is_finished);
                let passed = self.world.now - since.max(self.calm_since.min(self.world.now));
                if finished || (!self.mix.liveness && self.world.now - since > 20_000_000) {
                    self.rest();
                } else if self.mix.liveness && passed > self.patience() {
                    return self.unfinished();
                }
                Ok(())
            }
            Phase::Resting { .. } => Ok(()),
        }
    }

    /// Users begin nothing new. In a liveness run, everything is also repaired.
    fn end_business(&mut self) {
        let liveness = self.mix.liveness;
        self.note_line("----", format_args!("users begin nothing new; liveness {liveness}"));
        self.phase = Phase::Ending { since: self.world.now };
        if self.mix.liveness {
            self.repair_everything();
        }
        for client in 0..self.clients.len() {
            self.finish_idle_users(client);
        }
    }

    fn rest(&mut self) {
        let longest = self.watch.longest;
        let until = self.world.now + 62_000_000 + (longest.ttl_ms + longest.claim_ms + longest.behind_ms) * 1_010;
        self.note_line("----", format_args!("rest until {} s", until / 1_000_000));
        self.phase = Phase::Resting { since: self.world.now, until };
        if !self.mix.liveness {
            for client in 0..self.clients.len() {
                self.drop_client(client);
            }
        }
    }

    pub(crate) fn note_line(&mut self, who: &str, what: std::fmt::Arguments<'_>) {
        self.world.transcript.line(self.world.now, who, what);
    }

    /// Notes that a fault struck a client, or all of them, and in which states they were.
    pub(crate) fn note(&mut self, fault: Fault, client: Option<usize>) {
        self.counts.faults += 1;
        let struck = match client {
            Some(client) => client..client + 1,
            None => 0..self.clients.len(),
        };
        for client in struck.clone() {
            let it = &self.clients[client];
            if it.engine.is_some() {
                let states = it.states(self.world.now, &self.mix.kinds, |name| self.watch.leases.has(it.life, name));
                self.coverage.note(fault, states);
            }
        }
        if self.world.transcript.is_written() {
            let who = client.map_or("all".to_string(), |client| format!("c{client}"));
            self.world.transcript.line(self.world.now, who, format_args!("!! {fault:?}"));
        }
    }

    /// Something keeps a client from working with its servers until then.
    pub(crate) fn trouble(&mut self, client: usize, until: Micros) {
        let client = &mut self.clients[client];
        client.trouble_until = client.trouble_until.max(until);
        self.calm_since = self.calm_since.max(until);
    }

    /// Which faults were seen in which states.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// What happened in the run.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The transcript, if one was written.
    pub fn into_transcript(self) -> Vec<String> {
        self.world.transcript.into_lines()
    }

    pub(crate) fn server(&mut self, server: usize) -> &mut Server {
        &mut self.servers.list[server]
    }
}
