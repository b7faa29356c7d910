//! The clients, the server, and what goes wrong.

use leasehold_core::{Command, CommandId, Failure, Input, OpId, Outcome, Output, Reply, Scalar};
use leasehold_harness::{Clock, Micros, Rng, Transcript, World};
use leasehold_model::ModelServer;

use super::client::{Client, NAME, campaign, options};
use super::watch::{SLACK, Times, Watch};
use crate::invariants::{Verdict, broken};
use crate::process::{self, Delivery, gone};
use crate::world::Counts;

const CLIENTS: usize = 5;
/// How long faults strike, and how long the run goes on without them.
const BUSY: Micros = 40_000_000;
const RESTING: Micros = 20_000_000;
const CHECK_EVERY: Micros = 20_000;
/// A little less than the response timeout, as clocks differ.
const PATIENCE: Micros = 1_900_000;
/// Roughly the microseconds from 1970 to the beginning of a run.
const EPOCH: u64 = 1_800_000_000_000_000;

/// What users do.
enum Step {
    /// The user of a leader does something.
    Lead {
        client: usize,
        life: u64,
    },
    Start {
        client: usize,
    },
}

type Event = process::Event<Step>;

/// The settings of a run. Times are in µs unless the name says ms.
struct Mix {
    ttl_ms: u64,
    claim_ms: u64,
    drift_ppm: u64,
    trip: (u64, u64),
    /// Between two faults. None strikes if the run is calm, except that clients die.
    gap: Micros,
    calm: bool,
    /// Of a million messages, how many are lost while messages are lost, and how many come twice or late.
    late: u32,
    term: (u64, u64),
}

/// Whether this command asks who leads.
fn is_question(words: &[&[u8]]) -> bool {
    let leader = leasehold_lua::election::LEADER;
    words.iter().any(|word| [leader.sha1, leader.source].map(str::as_bytes).contains(word))
}

/// How long the leader goes on, if this answers the question who leads.
fn left_by(result: &Result<Reply, Failure>) -> Option<Micros> {
    let Ok(Reply::List(list)) = result else { return None };
    let [_, Scalar::Int(left), Scalar::Text(said)] = list.as_slice() else { return None };
    u64::try_from(*left).ok().filter(|_| !said.is_empty()).map(|left| left * 1_000)
}

/// One run of an election.
pub struct ElectionRun<'a> {
    world: World<Event>,
    mix: Mix,
    server: &'a mut ModelServer,
    server_clock: Clock,
    clients: Vec<Client>,
    lives: u64,
    /// Until when no command reaches the server, and until when its messages are lost.
    outage: Micros,
    mute: Micros,
    watch: Watch,
    counts: Counts,
}

impl Mix {
    fn draw(rng: &mut Rng) -> Self {
        let calm = rng.once_in(3);
        let claim_ms = rng.spread((300, 3_000));
        Self {
            ttl_ms: rng.spread((claim_ms.max(600), 6_000)),
            claim_ms,
            drift_ppm: *rng.pick(&[0, 500, 3_000]),
            trip: (50, if calm { rng.spread((200, 8_000)) } else { rng.spread((200, 60_000)) }),
            gap: rng.spread((300_000, 6_000_000)),
            calm,
            late: if calm { 0 } else { *rng.pick(&[0, 20_000, 200_000]) },
            term: (50_000, rng.spread((500_000, 20_000_000))),
        }
    }

    const fn times(&self) -> Times {
        Times { ttl: self.ttl_ms * 1_000, claim: self.claim_ms * 1_000, trips: 4 * self.trip.1 }
    }
}

impl<'a> ElectionRun<'a> {
    /// The run of a seed on a model server, which it resets.
    pub fn new(seed: u64, server: &'a mut ModelServer, transcript: Transcript) -> Self {
        let mut rng = Rng::new(seed);
        let mix = Mix::draw(&mut rng);
        server.reset();
        let drift = rng.range((0, 2 * mix.drift_ppm)) as i64 - mix.drift_ppm as i64;
        let server_clock = Clock::new(EPOCH + rng.below(1_000_000_000), drift);
        let world = World::new(rng, transcript);
        let (clients, watch, counts) = (Vec::new(), Watch::default(), Counts::default());
        Self { world, mix, server, server_clock, clients, lives: 0, outage: 0, mute: 0, watch, counts }
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
        for client in 0..CLIENTS {
            self.start(client);
        }
        let gap = self.mix.gap;
        self.world.after(gap, Event::Strike);
        self.world.after(CHECK_EVERY, Event::Check);
        while let Some(event) = self.world.advance() {
            self.counts.micros = self.world.now;
            if self.world.now > BUSY + RESTING {
                return self.end();
            }
            self.handle(event);
            self.watch.look(self.world.now, &self.clients, self.mix.times());
            if let Some(verdict) = self.watch.verdict.take() {
                return verdict;
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Verdict {
        for it in &mut self.clients {
            if it.closes || it.process.engine.is_none() {
                continue;
            }
            let ends: Vec<OpId> = it.campaign.iter().chain(&it.observes).copied().collect();
            it.closes = true;
            let op = it.process.next_op();
            let outputs = it.process.tell(&mut self.world, Input::Close { op });
            let ended = |op: &OpId| {
                outputs.iter().any(|output| matches!(output, Output::Completed { op: ended, .. } if ended == op))
            };
            if let Some(op) = ends.iter().find(|op| !ended(op)) {
                return broken("call-stays", format!("{op:?} of {} goes on after a close", it.value));
            }
        }
        Ok(())
    }

    fn start(&mut self, place: usize) {
        self.lives += 1;
        let Mix { claim_ms, drift_ppm, .. } = self.mix;
        let client = Client::start(&mut self.world.rng, self.lives, claim_ms, drift_ppm, self.world.now);
        if place < self.clients.len() {
            self.clients[place] = client;
        } else {
            self.clients.push(client);
        }
        if !self.world.rng.once_in(4) {
            let op = self.clients[place].process.next_op();
            self.clients[place].observes = Some(op);
            self.tell(place, Input::Observe { op, name: NAME });
        }
        self.campaign(place);
    }

    fn campaign(&mut self, place: usize) {
        let it = &mut self.clients[place];
        if it.process.engine.is_none() || it.closes {
            return;
        }
        let (op, value, options) = (it.campaigns(), it.value.clone(), options(self.mix.ttl_ms));
        self.watch.wanted_since.get_or_insert(self.world.now);
        self.tell(place, campaign(op, &value, &options));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive { client, life, id, command } => self.arrive(client, life, id, &command),
            Event::Deliver { client, life, what } => self.deliver(client, life, what),
            Event::Subscribe { client, life, channel } => self.subscribe(client, life, channel),
            Event::Wake { client, life, number } => {
                if self.clients[client].process.wakes(life, number) {
                    self.tell(client, Input::Wake);
                }
            }
            Event::Own(Step::Lead { client, life }) => self.step(client, life),
            Event::Own(Step::Start { client }) => self.start(client),
            Event::Resume { client, life } => self.resume(client, life),
            Event::Strike => self.strike(),
            Event::Check => {
                let (now, fields) = (self.world.now, self.fields());
                self.watch.server_has(now, &fields);
                self.watch.observers(now, &self.clients, self.mix.times());
                self.world.after(CHECK_EVERY, Event::Check);
            }
        }
    }

    fn fields(&mut self) -> Vec<(String, String)> {
        self.server.hash(self.server_clock.reads(self.world.now), NAME)
    }

    /// A command reaches the server, or doesn't.
    fn arrive(&mut self, client: usize, life: u64, id: CommandId, command: &Command) {
        let now = self.world.now;
        if now < self.outage {
            if self.clients[client].process.life == life {
                self.clients[client].questions.reasons += 1;
            }
            // The connection breaks, or nothing is heard of the command.
            if self.world.rng.once_in(2) {
                self.send(client, life, Delivery::Reply(id, Err(gone())));
            }
            return;
        }
        let words: Vec<&[u8]> = command.words().collect();
        if is_question(&words) && self.clients[client].process.life == life {
            self.clients[client].questions.asked += 1;
        }
        let server_now = self.server_clock.reads(now);
        let before = self.fields();
        self.watch.server_has(now, &before);
        self.server.set_user(client);
        let executed = self.server.execute(server_now, &words);
        let after = self.fields();
        self.watch.server_has(now, &after);
        self.counts.calls += 1;
        for (channel, payload) in executed.published {
            self.publish(&channel, &payload);
        }
        if self.world.rng.chance(if self.mix.calm { 0 } else { self.mix.late / 4 }) {
            // The reply is lost.
            self.watch.disturb(now);
            if self.clients[client].process.life == life {
                self.clients[client].questions.reasons += 1;
            }
            return self.send(client, life, Delivery::Reply(id, Err(gone())));
        }
        self.send(client, life, Delivery::Reply(id, executed.reply.map_err(Failure::Refused)));
    }

    fn publish(&mut self, channel: &str, payload: &[u8]) {
        for place in 0..self.clients.len() {
            if !self.clients[place].process.listens.contains(channel) || self.world.now < self.mute {
                continue;
            }
            let life = self.clients[place].process.life;
            let copies = if self.world.rng.chance(self.mix.late) { 2 } else { 1 };
            for copy in 0..copies {
                let what = Delivery::Message(channel.to_owned(), payload.to_vec());
                let late = if copy > 0 { self.world.rng.spread((1_000, 5_000_000)) } else { 0 };
                self.clients[place].questions.reasons += copy;
                let trip = self.world.rng.range(self.mix.trip);
                self.world.after(trip + late, Event::Deliver { client: place, life, what });
            }
        }
    }

    fn send(&mut self, client: usize, life: u64, what: Delivery) {
        let trip = self.world.rng.range(self.mix.trip);
        self.world.after(trip, Event::Deliver { client, life, what });
    }

    fn subscribe(&mut self, client: usize, life: u64, channel: String) {
        if self.clients[client].process.life != life {
            return;
        }
        if self.world.now < self.outage {
            return self.send(client, life, Delivery::Unsubscribed(channel, gone()));
        }
        self.clients[client].process.listens.insert(channel.clone());
        self.clients[client].questions.reasons += 1;
        self.send(client, life, Delivery::Subscribed(channel));
    }

    fn deliver(&mut self, client: usize, life: u64, what: Delivery) {
        let now = self.world.now;
        let it = &mut self.clients[client];
        let Some(what) = it.process.receive(life, what) else { return };
        if now < it.slow.0 && self.world.rng.once_in(2) {
            let late = self.world.rng.below(it.slow.1);
            return self.world.after(late, Event::Deliver { client, life, what });
        }
        let mut answers = false;
        match &what {
            Delivery::Reply(id, result) => {
                let asked = it.questions.open.remove(id);
                // An answer that is overdue doesn't count.
                let left = left_by(result).filter(|_| asked.is_some_and(|asked| now < asked + PATIENCE));
                it.heard.1 = it.heard.1.max(left.unwrap_or(0));
                answers = left.is_some();
            }
            Delivery::Message(_, payload) => {
                let words = str::from_utf8(payload).unwrap_or_default();
                let left: Option<Micros> =
                    words.strip_prefix("leader ").and_then(|it| it.split(' ').nth(2)?.parse().ok());
                it.heard.1 = it.heard.1.max(left.unwrap_or(0) * 1_000);
            }
            Delivery::Subscribed(_) => {}
            Delivery::Unsubscribed(..) => it.questions.deaf = true,
        }
        let outputs = it.process.deliver(&mut self.world, what);
        self.carry_out(client, outputs);
        if answers {
            // The client first saw what was due before the answer came: the end of an earlier question, perhaps.
            self.clients[client].heard.0 = now;
        }
    }

    fn resume(&mut self, client: usize, life: u64) {
        let it = &mut self.clients[client];
        let Some(inbox) = it.process.resume(self.world.now, life) else { return };
        it.woke = self.world.now;
        self.watch.disturb(self.world.now);
        self.tell(client, Input::Wake);
        for what in inbox {
            self.deliver(client, life, what);
        }
    }

    fn tell(&mut self, place: usize, input: Input<'_>) {
        let outputs = self.clients[place].process.tell(&mut self.world, input);
        self.carry_out(place, outputs);
    }

    /// Carries an engine's outputs out, and sets its timer.
    fn carry_out(&mut self, place: usize, outputs: Vec<Output>) {
        outputs.into_iter().for_each(|output| self.carry_out_one(place, output));
        let (now, Client { process, slow, .. }) = (self.world.now, &mut self.clients[place]);
        if let Some((at, number)) = process.next_wake(now) {
            let late = if now < slow.0 { self.world.rng.below(slow.1) } else { 0 };
            self.world.agenda.push(at + late, Event::Wake { client: place, life: process.life, number });
        }
    }

    fn carry_out_one(&mut self, place: usize, output: Output) {
        let (now, life) = (self.world.now, self.clients[place].process.life);
        let trip = self.world.rng.range(self.mix.trip);
        match output {
            Output::Send { id, command, .. } => {
                if is_question(&command.words().collect::<Vec<_>>()) {
                    self.clients[place].questions.open.insert(id, now);
                }
                self.world.after(trip, Event::Arrive { client: place, life, id, command });
            }
            Output::Subscribe { channel, .. } => {
                self.world.after(trip, Event::Subscribe { client: place, life, channel });
            }
            Output::Unsubscribe { channel, .. } => _ = self.clients[place].process.listens.remove(&channel),
            Output::Completed { op, result } => {
                if self.clients[place].campaign == Some(op) {
                    self.clients[place].campaign = None;
                    match result {
                        Ok(Outcome::Acquired(grant)) => {
                            self.counts.grants += 1;
                            self.clients[place].term = Some(grant.lease);
                            self.watch.begins(&self.clients[place], grant.fence);
                            let after = self.world.rng.spread(self.mix.term);
                            self.world.after(after, Event::Own(Step::Lead { client: place, life }));
                        }
                        Err(leasehold_core::Error::Closed) if self.clients[place].closes => {}
                        other => self.watch.check(broken("campaign-ends", format!("a campaign ended: {other:?}"))),
                    }
                } else if matches!(result, Ok(Outcome::Closed { .. })) {
                    self.leave(place);
                }
            }
            Output::Lost { lease, .. } => {
                self.counts.losses += 1;
                if self.clients[place].term == Some(lease) {
                    self.clients[place].term = None;
                    // The user releases what was lost, and campaigns again.
                    let op = self.clients[place].process.next_op();
                    self.tell(place, Input::Release { op, lease });
                    self.campaign(place);
                }
            }
            Output::Leader { leader, .. } => {
                let (next, value) = match &leader {
                    Some(leader) => ((leader.fence, false), leader.value.as_str()),
                    None => ((self.clients[place].told.map_or(0, |(fence, _)| fence), true), ""),
                };
                self.clients[place].questions.reasons += 1;
                let ((heard, longest), claim) = (self.clients[place].heard, self.mix.times().claim);
                let silent = next.1 && now + SLACK > heard + longest + claim;
                self.watch.told(&self.clients[place], next, value, silent);
                let it = &mut self.clients[place];
                if !next.1 && it.told.is_none_or(|told| told.0 != next.0) {
                    it.heard.0 = now;
                }
                (it.told, it.doubts) = (Some(next), silent);
            }
            Output::SendDedicated { .. } | Output::CloseDedicated { .. } => {}
        }
    }

    /// The user of a leader resigns, or closes the client, or goes on.
    fn step(&mut self, place: usize, life: u64) {
        let it = &self.clients[place];
        if it.process.life != life || !it.process.is_awake() {
            return;
        }
        let Some(lease) = it.term else { return };
        let op = self.clients[place].process.next_op();
        match self.world.rng.below(10) {
            0..=5 => {
                let others = self.clients.iter().enumerate().filter(|(other, client)| {
                    *other != place
                        && client.process.is_awake()
                        && client.campaign.is_some()
                        && client.questions.since + 2_000_000 < self.world.now
                });
                let followed = others.count() + 1 == CLIENTS;
                if self.clients[place].leads(self.world.now) {
                    self.watch.resigns(self.world.now, followed, self.mix.times());
                }
                self.clients[place].term = None;
                self.tell(place, Input::Release { op, lease });
                self.campaign(place);
            }
            // SIGTERM.
            6..=7 => {
                (self.clients[place].closes, self.clients[place].term) = (true, None);
                self.tell(place, Input::Close { op });
            }
            _ => {
                let after = self.world.rng.spread(self.mix.term);
                self.world.after(after, Event::Own(Step::Lead { client: place, life }));
            }
        }
    }

    /// A client is gone. Another one takes its place.
    fn leave(&mut self, place: usize) {
        let it = &mut self.clients[place];
        (it.process.engine, it.term, it.campaign) = (None, None, None);
        it.process.listens.clear();
        self.watch.dies(self.world.now);
        let after = self.world.rng.spread((10_000, 3_000_000));
        self.world.after(after, Event::Own(Step::Start { client: place }));
    }

    fn strike(&mut self) {
        let now = self.world.now;
        if now > BUSY {
            return;
        }
        self.counts.faults += 1;
        let place = self.world.rng.below(CLIENTS as u64) as usize;
        let life = self.clients[place].process.life;
        let times = self.mix.times();
        let what = if self.mix.calm { 0 } else { self.world.rng.below(7) };
        if self.world.transcript.is_written() {
            self.world.transcript.line(now, "!", format_args!("fault {what} at {}", self.clients[place].value));
        }
        match what {
            // SIGKILL.
            0 => {
                if self.clients[place].process.engine.is_some() {
                    self.leave(place);
                }
            }
            // SIGSTOP.
            1 | 2 if self.clients[place].process.is_awake() => {
                let until = now + self.world.rng.spread((50_000, 3 * times.ttl));
                self.clients[place].process.asleep = true;
                self.watch.disturb(until);
                self.world.agenda.push(until, Event::Resume { client: place, life });
            }
            // A blocked event loop.
            3 => {
                let (until, late) =
                    (now + self.world.rng.spread((200_000, 5_000_000)), self.world.rng.spread((5_000, times.ttl)));
                self.clients[place].slow = (until, late);
                self.watch.disturb(until + late);
            }
            4 => {
                self.outage = now + self.world.rng.spread((50_000, 2 * times.ttl));
                self.watch.disturb(self.outage);
                if self.world.rng.once_in(2) {
                    self.server.script_flush();
                }
            }
            5 => {
                self.mute = now + self.world.rng.spread((50_000, 2 * times.ttl));
                self.watch.disturb(self.mute + times.ttl);
                self.watch.mute = self.mute;
            }
            _ => {
                self.watch.disturb(now + times.claim);
                for channel in std::mem::take(&mut self.clients[place].process.listens) {
                    self.send(place, life, Delivery::Unsubscribed(channel, gone()));
                }
            }
        }
        let gap = self.world.rng.spread((self.mix.gap / 4, self.mix.gap * 2));
        self.world.after(gap, Event::Strike);
    }
}
