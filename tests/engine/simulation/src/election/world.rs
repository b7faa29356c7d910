//! The clients, the server, and what goes wrong.

use leasehold_core::{Command, CommandId, Failure, Input, NodeId, OpId, Outcome, Output, Reply, Scalar};
use leasehold_harness::{Clock, Micros, Rng, Transcript, World};
use leasehold_model::ModelServer;

use super::client::{Client, Delivery, NAME, campaign, options};
use super::watch::{SLACK, Times, Watch};
use crate::invariants::{Verdict, broken};
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

enum Event {
    Arrive {
        client: usize,
        life: u64,
        id: CommandId,
        command: Command,
    },
    Deliver {
        client: usize,
        life: u64,
        what: Delivery,
    },
    Subscribe {
        client: usize,
        life: u64,
        channel: String,
    },
    Wake {
        client: usize,
        life: u64,
        number: u32,
    },
    /// The user of a leader does something.
    Step {
        client: usize,
        life: u64,
    },
    Resume {
        client: usize,
        life: u64,
    },
    Start {
        client: usize,
    },
    Strike,
    Check,
}

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
        let now = self.world.now;
        for place in 0..self.clients.len() {
            let op = self.clients[place].next_op();
            let it = &mut self.clients[place];
            if it.closes {
                continue;
            }
            let ends: Vec<OpId> = it.campaign.iter().chain(&it.observes).copied().collect();
            it.closes = true;
            let Some(engine) = &mut it.engine else { continue };
            engine.handle(it.clock.instant(now), Input::Close { op });
            let outputs: Vec<Output> = std::iter::from_fn(|| engine.poll_output()).collect();
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
            let op = self.clients[place].next_op();
            self.clients[place].observes = Some(op);
            self.tell(place, Input::Observe { op, name: NAME });
        }
        self.campaign(place);
    }

    fn campaign(&mut self, place: usize) {
        let it = &mut self.clients[place];
        if it.engine.is_none() || it.closes {
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
                let it = &mut self.clients[client];
                if it.life == life && it.wake.1 == number && it.is_awake() {
                    it.wake.0 = None;
                    self.tell(client, Input::Wake);
                }
            }
            Event::Step { client, life } => self.step(client, life),
            Event::Resume { client, life } => self.resume(client, life),
            Event::Start { client } => self.start(client),
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
            if self.clients[client].life == life {
                self.clients[client].questions.reasons += 1;
            }
            // The connection breaks, or nothing is heard of the command.
            if self.world.rng.once_in(2) {
                let failure = Failure::Interrupted("the server is gone".into());
                self.send(client, life, Delivery::Reply(id, Err(failure)));
            }
            return;
        }
        let words: Vec<&[u8]> = command.words().collect();
        if is_question(&words) && self.clients[client].life == life {
            self.clients[client].questions.asked += 1;
        }
        let server_now = self.server_clock.reads(now);
        let before = self.fields();
        self.watch.server_has(now, &before);
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
            if self.clients[client].life == life {
                self.clients[client].questions.reasons += 1;
            }
            let failure = Failure::Interrupted("reset".into());
            return self.send(client, life, Delivery::Reply(id, Err(failure)));
        }
        self.send(client, life, Delivery::Reply(id, executed.reply.map_err(Failure::Refused)));
    }

    fn publish(&mut self, channel: &str, payload: &[u8]) {
        for place in 0..self.clients.len() {
            if !self.clients[place].listens.contains(channel) || self.world.now < self.mute {
                continue;
            }
            let life = self.clients[place].life;
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
        if self.clients[client].life != life {
            return;
        }
        if self.world.now < self.outage {
            let failure = Failure::Interrupted("the server is gone".into());
            return self.send(client, life, Delivery::Unsubscribed(channel, failure));
        }
        self.clients[client].listens.insert(channel.clone());
        self.clients[client].questions.reasons += 1;
        self.send(client, life, Delivery::Subscribed(channel));
    }

    fn deliver(&mut self, client: usize, life: u64, what: Delivery) {
        let now = self.world.now;
        let it = &mut self.clients[client];
        if it.life != life || it.engine.is_none() {
            return;
        }
        if !it.is_awake() {
            return it.inbox.push(what);
        }
        if now < it.slow.0 && self.world.rng.once_in(2) {
            let late = self.world.rng.below(it.slow.1);
            return self.world.after(late, Event::Deliver { client, life, what });
        }
        let node = NodeId(0);
        match what {
            Delivery::Reply(id, result) => {
                let asked = it.questions.open.remove(&id);
                // An answer that is overdue doesn't count.
                let left = left_by(&result).filter(|_| asked.is_some_and(|asked| now < asked + PATIENCE));
                it.heard.1 = it.heard.1.max(left.unwrap_or(0));
                // The client first sees what was due before the answer came: the end of an earlier question, perhaps.
                self.tell(client, Input::Reply { id, result });
                if left.is_some() {
                    self.clients[client].heard.0 = now;
                }
            }
            Delivery::Message(channel, payload) => {
                let words = str::from_utf8(&payload).unwrap_or_default();
                let left: Option<Micros> =
                    words.strip_prefix("leader ").and_then(|it| it.split(' ').nth(2)?.parse().ok());
                it.heard.1 = it.heard.1.max(left.unwrap_or(0) * 1_000);
                self.tell(client, Input::Message { node, channel: &channel, payload: &payload });
            }
            // It broke while the server's answer was on its way.
            Delivery::Subscribed(channel) if !it.listens.contains(&channel) => {}
            Delivery::Subscribed(channel) => self.tell(client, Input::Subscribed { node, channel: &channel }),
            Delivery::Unsubscribed(channel, cause) => {
                it.questions.deaf = true;
                self.tell(client, Input::Unsubscribed { node, channel: &channel, cause });
            }
        }
    }

    fn resume(&mut self, client: usize, life: u64) {
        let it = &mut self.clients[client];
        if it.life != life || it.engine.is_none() {
            return;
        }
        (it.asleep_until, it.wake.0, it.woke) = (None, None, self.world.now);
        let (now, inbox) = (it.clock.instant(self.world.now), std::mem::take(&mut it.inbox));
        if let Some(engine) = &mut it.engine {
            engine.catch_up(now);
        }
        self.watch.disturb(self.world.now);
        self.tell(client, Input::Wake);
        for what in inbox {
            self.deliver(client, life, what);
        }
    }

    /// Passes an input to an engine, and carries its outputs out.
    fn tell(&mut self, place: usize, input: Input<'_>) {
        let now = self.world.now;
        let it = &mut self.clients[place];
        let at = it.clock.instant(now);
        let Some(engine) = &mut it.engine else { return };
        if self.world.transcript.is_written() {
            self.world.transcript.line(now, &it.value, format_args!("<- {input:?}"));
        }
        engine.handle(at, input);
        let outputs: Vec<Output> = std::iter::from_fn(|| engine.poll_output()).collect();
        for output in outputs {
            self.carry_out(place, output);
        }
        self.schedule_wake(place);
    }

    fn schedule_wake(&mut self, place: usize) {
        let (now, mix_slow) = (self.world.now, self.clients[place].slow);
        let it = &mut self.clients[place];
        let Some((due, _)) = it.engine.as_ref().and_then(leasehold_core::Engine::poll_timeout) else { return };
        if it.wake.0.is_some_and(|set| set <= due) {
            return;
        }
        let number = it.wake.1.wrapping_add(1);
        it.wake = (Some(due), number);
        let late = if now < mix_slow.0 { self.world.rng.below(mix_slow.1) } else { 0 };
        let at = it.clock.when(due.as_micros()).max(now) + late;
        self.world.agenda.push(at, Event::Wake { client: place, life: it.life, number });
    }

    fn carry_out(&mut self, place: usize, output: Output) {
        let (now, life) = (self.world.now, self.clients[place].life);
        if self.world.transcript.is_written() {
            let value = self.clients[place].value.clone();
            self.world.transcript.line(now, value, format_args!("-> {output:?}"));
        }
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
            Output::Unsubscribe { channel, .. } => _ = self.clients[place].listens.remove(&channel),
            Output::Completed { op, result } => {
                if self.clients[place].campaign == Some(op) {
                    self.clients[place].campaign = None;
                    match result {
                        Ok(Outcome::Acquired(grant)) => {
                            self.counts.grants += 1;
                            self.clients[place].term = Some(grant.lease);
                            self.watch.begins(&self.clients[place], grant.fence);
                            let after = self.world.rng.spread(self.mix.term);
                            self.world.after(after, Event::Step { client: place, life });
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
                    let op = self.clients[place].next_op();
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
        if it.life != life || !it.is_awake() {
            return;
        }
        let Some(lease) = it.term else { return };
        let op = self.clients[place].next_op();
        match self.world.rng.below(10) {
            0..=5 => {
                let others = self.clients.iter().enumerate().filter(|(other, client)| {
                    *other != place
                        && client.is_awake()
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
                self.world.after(after, Event::Step { client: place, life });
            }
        }
    }

    /// A client is gone. Another one takes its place.
    fn leave(&mut self, place: usize) {
        let it = &mut self.clients[place];
        (it.engine, it.term, it.campaign) = (None, None, None);
        it.listens.clear();
        self.watch.dies(self.world.now);
        let after = self.world.rng.spread((10_000, 3_000_000));
        self.world.after(after, Event::Start { client: place });
    }

    fn strike(&mut self) {
        let now = self.world.now;
        if now > BUSY {
            return;
        }
        self.counts.faults += 1;
        let place = self.world.rng.below(CLIENTS as u64) as usize;
        let life = self.clients[place].life;
        let times = self.mix.times();
        let what = if self.mix.calm { 0 } else { self.world.rng.below(7) };
        if self.world.transcript.is_written() {
            self.world.transcript.line(now, "!", format_args!("fault {what} at {}", self.clients[place].value));
        }
        match what {
            // SIGKILL.
            0 => {
                if self.clients[place].engine.is_some() {
                    self.leave(place);
                }
            }
            // SIGSTOP.
            1 | 2 if self.clients[place].is_awake() => {
                let until = now + self.world.rng.spread((50_000, 3 * times.ttl));
                self.clients[place].asleep_until = Some(until);
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
                for channel in std::mem::take(&mut self.clients[place].listens) {
                    let failure = Failure::Interrupted("reset".into());
                    self.send(place, life, Delivery::Unsubscribed(channel, failure));
                }
            }
        }
        let gap = self.world.rng.spread((self.mix.gap / 4, self.mix.gap * 2));
        self.world.after(gap, Event::Strike);
    }
}
