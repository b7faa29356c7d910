//! The clients, the server, and what goes wrong.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_core::{
    AcquireOptions, Command, CommandId, Error, Failure, Input, Kind, OpId, Outcome, Output, Reply, Scalar, Wait,
};
use leasehold_harness::{Clock, Micros, Rng, Transcript, World};
use leasehold_model::ModelServer;

use super::watch::{Seen, Watch};
use crate::invariants::{Verdict, broken};
use crate::process::{self, Delivery, Process, gone};
use crate::world::Counts;

const NAME: &str = "api";
const CLIENTS: usize = 4;
/// How long faults strike and callers come, and how long the run goes on.
const BUSY: Micros = 15_000_000;
const RESTING: Micros = 5_000_000;
const LOOK_EVERY: Micros = 5_000;
/// Roughly the microseconds from 1970 to the beginning of a run.
const EPOCH: u64 = 1_800_000_000_000_000;

/// What users do.
enum Step {
    Call { client: usize, life: u64 },
    Cancel { client: usize, life: u64, op: OpId },
}

type Event = process::Event<Step>;

/// The settings of a run. Times are in µs unless the name says ms.
struct Mix {
    limit: u64,
    per_ms: u64,
    claim_ms: u64,
    trip: (u64, u64),
    think: (u64, u64),
    /// Without faults, nobody waits for longer than needed.
    calm: bool,
    /// Of a million replies and messages, how many are lost, come twice or late.
    faulty: u32,
    gap: Micros,
}

struct Client {
    process: Process,
    open: BTreeSet<OpId>,
}

/// One run of a rate.
pub struct RateRun<'a> {
    world: World<Event>,
    mix: Mix,
    server: &'a mut ModelServer,
    server_clock: Clock,
    clients: Vec<Client>,
    lives: u64,
    outage: Micros,
    watch: Watch,
    counts: Counts,
}

impl Mix {
    fn draw(rng: &mut Rng) -> Self {
        let calm = rng.once_in(3);
        let per_ms = rng.spread((10, 3_000));
        Self {
            limit: 1 + rng.below(5),
            per_ms,
            claim_ms: rng.spread((300, 3_000)),
            trip: (50, rng.spread((200, if calm { 4_000 } else { 60_000 }))),
            think: (1_000, rng.spread((20_000, 1_000 * (per_ms + 400)))),
            calm,
            faulty: if calm { 0 } else { *rng.pick(&[0, 30_000, 200_000]) },
            gap: rng.spread((200_000, 3_000_000)),
        }
    }
}

impl<'a> RateRun<'a> {
    /// The run of a seed on a model server, which it resets.
    pub fn new(seed: u64, server: &'a mut ModelServer, transcript: Transcript) -> Self {
        let mut rng = Rng::new(seed);
        let mix = Mix::draw(&mut rng);
        server.reset();
        let server_clock = Clock::new(EPOCH + rng.below(1_000_000_000), 0);
        let (world, clients) = (World::new(rng, transcript), Vec::new());
        let (watch, counts) = (Watch::default(), Counts::default());
        Self { world, mix, server, server_clock, clients, lives: 0, outage: 0, watch, counts }
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
        self.world.after(self.mix.gap, Event::Strike);
        self.world.after(LOOK_EVERY, Event::Check);
        while let Some(event) = self.world.advance() {
            self.counts.micros = self.world.now;
            if self.world.now > BUSY + RESTING {
                break;
            }
            self.handle(event);
            if let Some(verdict) = self.watch.verdict.take() {
                return verdict;
            }
        }
        self.end()
    }

    /// A close ends all calls, and finds nothing that is held.
    fn end(&mut self) -> Verdict {
        for it in &mut self.clients {
            let op = it.process.next_op();
            for output in it.process.tell(&mut self.world, Input::Close { op }) {
                if let Output::Completed { op, result } = output {
                    it.open.remove(&op);
                    if let Ok(Outcome::Closed { lost, .. }) = result
                        && lost > 0
                    {
                        return broken("rate-held", format!("{lost} leases were held: {}", it.process.id));
                    }
                }
            }
            if !it.open.is_empty() {
                return broken("call-stays", format!("{:?} of {} go on after a close", it.open, it.process.id));
            }
        }
        Ok(())
    }

    fn start(&mut self, place: usize) {
        self.lives += 1;
        let clock = |rng: &mut Rng| Clock::new(rng.below(1_000_000_000), rng.range((0, 2_000)) as i64 - 1_000);
        let life = self.lives;
        let process = Process::start(&mut self.world.rng, life, self.mix.claim_ms, clock);
        let client = Client { process, open: BTreeSet::new() };
        if place < self.clients.len() {
            self.clients[place] = client;
        } else {
            self.clients.push(client);
        }
        let after = self.world.rng.range(self.mix.think);
        self.world.after(after, Event::Own(Step::Call { client: place, life }));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive { client, life, id, command } => self.arrive(client, life, id, &command),
            Event::Deliver { client, life, what } => self.deliver(client, life, what),
            Event::Subscribe { client, life, channel } if self.lives_on(client, life) => {
                if self.world.now < self.outage {
                    return self.send(client, life, Delivery::Unsubscribed(channel, gone()));
                }
                self.clients[client].process.listens.insert(channel.clone());
                self.send(client, life, Delivery::Subscribed(channel));
            }
            Event::Wake { client, life, number } => {
                if self.clients[client].process.wakes(life, number) {
                    self.tell(client, Input::Wake);
                }
            }
            Event::Own(Step::Call { client, life }) if self.lives_on(client, life) => self.call(client, life),
            Event::Own(Step::Cancel { client, life, op }) if self.lives_on(client, life) => {
                if self.clients[client].process.is_awake() {
                    self.tell(client, Input::Cancel { op });
                }
            }
            Event::Resume { client, life } => {
                let Some(inbox) = self.clients[client].process.resume(self.world.now, life) else { return };
                self.tell(client, Input::Wake);
                inbox.into_iter().for_each(|what| self.deliver(client, life, what));
            }
            Event::Strike => self.strike(),
            Event::Check => {
                if self.mix.calm {
                    let seen = self.seen(("", 0));
                    self.watch.look(self.world.now, &seen, (self.mix.limit, self.mix.per_ms), self.mix.trip.1);
                }
                self.world.after(LOOK_EVERY, Event::Check);
            }
            Event::Subscribe { .. } | Event::Own(_) => {}
        }
    }

    fn lives_on(&self, client: usize, life: u64) -> bool {
        self.clients[client].process.life == life
    }

    /// A user of a client wants to start.
    fn call(&mut self, client: usize, life: u64) {
        let rng = &mut self.world.rng;
        let after = rng.range(self.mix.think);
        let (permits, limit) = (1 + rng.below(self.mix.limit) as u32, self.mix.limit as u32);
        let wait = match rng.below(6) {
            0 => Wait::No,
            1 => Wait::For(Duration::from_millis(1 + rng.below(3_000))),
            _ => Wait::Forever,
        };
        // Somebody is wrong about the rate.
        let other = rng.once_in(12);
        let per = if other { *rng.pick(&[0, self.mix.per_ms + 10]) } else { self.mix.per_ms };
        let per = (per > 0).then(|| Duration::from_millis(per));
        let gives_up = rng.once_in(5).then(|| rng.spread((1_000, 3_000_000)));
        let options =
            AcquireOptions { kind: Kind::Semaphore { permits, limit }, per, wait, ..AcquireOptions::default() };
        if self.world.now < BUSY {
            self.world.after(after, Event::Own(Step::Call { client, life }));
        }
        // Another kind would have permits of its own once these have ended, so it only tries while there are some.
        let counts = self.server.hash(self.server_clock.reads(self.world.now), "leasehold:{api}:permits");
        if self.clients[client].process.asleep || other && (counts.is_empty() || self.mix.per_ms < 1_000) {
            return;
        }
        let options = if other { AcquireOptions { wait: Wait::No, ..options } } else { options };
        let it = &mut self.clients[client];
        let op = it.process.next_op();
        it.open.insert(op);
        if let Some(after) = gives_up {
            self.world.after(after, Event::Own(Step::Cancel { client, life, op }));
        }
        self.tell(client, Input::Acquire { op, name: NAME, options: &options });
    }

    /// What the server has. The record of a caller, which wants so many permits, counts as renewed, even if the server has lost it.
    fn seen(&self, (caller, wants): (&str, u64)) -> Seen {
        let us = self.server_clock.reads(self.world.now);
        let records = self.server.hash(us, "leasehold:{api}:waiters");
        let record = |token: &str| {
            if token == caller {
                return Some(wants);
            }
            let (_, record) = records.iter().find(|(of, _)| of == token)?;
            let expiry: u64 = record.rsplit(' ').next()?.parse().ok()?;
            let permits: u64 = record.split('/').next()?.parse().ok()?;
            (expiry > us / 1_000).then_some(permits)
        };
        let queue = self.server.zset(us, "leasehold:{api}:queue");
        let waits = queue.into_iter().filter(|(_, score)| *score >= 0.0);
        let waiters = waits.filter_map(|(token, _)| record(&token).map(|permits| (token, permits))).collect();
        Seen { us, waiters }
    }

    /// A command reaches the server, or doesn't.
    fn arrive(&mut self, client: usize, life: u64, id: CommandId, command: &Command) {
        if self.world.now < self.outage {
            if self.world.rng.once_in(2) {
                self.send(client, life, Delivery::Reply(id, Err(gone())));
            }
            return;
        }
        let words: Vec<&[u8]> = command.words().collect();
        let word = |at: usize| String::from_utf8_lossy(words.get(at).copied().unwrap_or_default()).into_owned();
        let acquires = word(3) == NAME && word(10).contains('/');
        let rate = (self.mix.limit, self.mix.per_ms);
        let is_rate = word(10).ends_with(&format!("/{}/{}", rate.0, rate.1));
        let caller = word(9);
        let permits = word(10).split('/').next().and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut seen = self.seen((if acquires { &caller } else { "" }, permits));
        let is_counted = |(_, expiry): &(String, f64)| *expiry > (seen.us / 1_000) as f64;
        if acquires && !is_rate && !self.server.zset(seen.us, NAME).iter().any(is_counted) {
            // It was sent while some permits counted, and an outage lasted longer. It would begin another kind.
            return self.send(client, life, Delivery::Reply(id, Err(gone())));
        }
        if !acquires {
            // A release: its token leaves the queue first.
            seen.waiters.retain(|(token, _)| *token != caller);
        }
        self.server.set_user(client);
        let executed = self.server.execute(seen.us, &words);
        self.counts.calls += 1;
        let mut granted = Vec::new();
        for (channel, payload) in executed.published {
            let text = String::from_utf8_lossy(&payload).into_owned();
            if let ["grant", token, mode, fence, ..] = text.split(' ').collect::<Vec<_>>()[..] {
                let number = |text: &str| text.split('/').next().and_then(|text| text.parse().ok()).unwrap_or(0);
                granted.push((token.to_owned(), number(fence), number(mode)));
            }
            self.publish(&channel, &payload);
        }
        if let (true, Ok(Reply::List(list))) = (acquires, &executed.reply)
            && let [Scalar::Text(status), Scalar::Int(fence), ..] = list.as_slice()
        {
            match &**status {
                b"entered" => {
                    if !is_rate {
                        self.watch.check(broken("rate-kind", format!("{} entered beside a rate", word(10))));
                    }
                    // The waiters ahead of the caller are granted first.
                    let place = seen.waiters.iter().position(|(token, _)| *token == caller).unwrap_or(granted.len());
                    granted.insert(place.min(granted.len()), (caller.clone(), *fence as u64, permits));
                }
                b"again" => self.watch.again(&caller, *fence as u64),
                _ => {}
            }
        }
        self.watch.granted(&seen, &granted, &caller, rate);
        if self.world.rng.chance(self.mix.faulty / 4) {
            return self.send(client, life, Delivery::Reply(id, Err(gone())));
        }
        self.send(client, life, Delivery::Reply(id, executed.reply.map_err(Failure::Refused)));
    }

    fn publish(&mut self, channel: &str, payload: &[u8]) {
        for place in 0..self.clients.len() {
            if !self.clients[place].process.listens.contains(channel) || self.world.rng.chance(self.mix.faulty / 2) {
                continue;
            }
            let (life, trip) = (self.clients[place].process.life, self.world.rng.range(self.mix.trip));
            let late = if self.world.rng.chance(self.mix.faulty) { self.world.rng.below(3_000_000) } else { 0 };
            for after in [trip, trip + late].into_iter().take(if late > 0 { 2 } else { 1 }) {
                let what = Delivery::Message(channel.to_owned(), payload.to_vec());
                self.world.after(after, Event::Deliver { client: place, life, what });
            }
        }
    }

    fn send(&mut self, client: usize, life: u64, what: Delivery) {
        let trip = self.world.rng.range(self.mix.trip);
        self.world.after(trip, Event::Deliver { client, life, what });
    }

    fn deliver(&mut self, client: usize, life: u64, what: Delivery) {
        let process = &mut self.clients[client].process;
        let Some(what) = process.receive(life, what) else { return };
        let outputs = process.deliver(&mut self.world, what);
        self.carry_out(client, outputs);
    }

    fn tell(&mut self, place: usize, input: Input<'_>) {
        let outputs = self.clients[place].process.tell(&mut self.world, input);
        self.carry_out(place, outputs);
    }

    /// Carries an engine's outputs out, and sets its timer.
    fn carry_out(&mut self, place: usize, outputs: Vec<Output>) {
        outputs.into_iter().for_each(|output| self.carry_out_one(place, output));
        let process = &mut self.clients[place].process;
        if let Some((at, number)) = process.next_wake(self.world.now) {
            self.world.agenda.push(at, Event::Wake { client: place, life: process.life, number });
        }
    }

    fn carry_out_one(&mut self, place: usize, output: Output) {
        let it = &mut self.clients[place];
        let life = it.process.life;
        let trip = self.world.rng.range(self.mix.trip);
        match output {
            Output::Send { id, command, .. } => {
                self.world.after(trip, Event::Arrive { client: place, life, id, command });
            }
            Output::Subscribe { channel, .. } => {
                self.world.after(trip, Event::Subscribe { client: place, life, channel });
            }
            Output::Unsubscribe { channel, .. } => _ = it.process.listens.remove(&channel),
            Output::Completed { op, result } => {
                it.open.remove(&op);
                match result {
                    Ok(Outcome::Acquired(grant)) => {
                        self.counts.grants += 1;
                        self.watch.starts(&self.clients[place].process.id, grant.fence);
                        // The user doesn't know that there is nothing to give back.
                        if self.world.rng.once_in(4) {
                            let (op, lease) = (self.clients[place].process.next_op(), grant.lease);
                            self.tell(place, Input::Release { op, lease });
                        }
                    }
                    Ok(Outcome::Released(_))
                    | Err(Error::Busy { .. } | Error::Cancelled | Error::Unreachable { .. } | Error::WrongKind(_)) => {}
                    other => self.watch.check(broken("rate-call", format!("a call ended: {other:?}"))),
                }
            }
            Output::Lost { lease, reason } => {
                self.watch.check(broken("rate-held", format!("{lease:?} was lost: {reason:?}")));
            }
            Output::Leader { .. } | Output::SendDedicated { .. } | Output::CloseDedicated { .. } => {}
        }
    }

    fn strike(&mut self) {
        let now = self.world.now;
        if now > BUSY || self.mix.calm {
            return;
        }
        self.counts.faults += 1;
        self.watch.disturb();
        let place = self.world.rng.below(CLIENTS as u64) as usize;
        let life = self.clients[place].process.life;
        match self.world.rng.below(4) {
            // SIGKILL.
            0 => self.start(place),
            // SIGSTOP.
            1 if self.clients[place].process.is_awake() => {
                self.clients[place].process.asleep = true;
                let after = self.world.rng.spread((20_000, 5_000_000));
                self.world.after(after, Event::Resume { client: place, life });
            }
            2 => {
                self.outage = now + self.world.rng.spread((20_000, 3_000_000));
                if self.world.rng.once_in(2) {
                    self.server.script_flush();
                }
            }
            _ => {
                for channel in std::mem::take(&mut self.clients[place].process.listens) {
                    self.send(place, life, Delivery::Unsubscribed(channel, gone()));
                }
            }
        }
        let gap = self.world.rng.spread((self.mix.gap / 4, self.mix.gap * 2));
        self.world.after(gap, Event::Strike);
    }
}
