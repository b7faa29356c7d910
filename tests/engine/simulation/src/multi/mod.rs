//! Leases of several names, in a run of their own. The users of a [`ClusterRun`](crate::ClusterRun) want one name each.
//!
//! Engines with users that take some names in any order, one by one or together, over a network that delays, loses and
//! duplicates commands. Clients crash, and keys vanish. After a while the faults stop, and every user must finish.

mod invariants;
mod queue;
mod users;

use std::time::Duration;

use leasehold_core::{ClientId, CommandId, Config, Engine, Failure, Input, LeaseId, OpId, Outcome, Output, Reply};
use leasehold_harness::{Clock, Micros, Rng, Transcript, World};
use leasehold_model::ModelServer;

use crate::invariants::Verdict;
use crate::world::Counts;
use invariants::{End, Promises, takes_several};
use users::{Doing, User};

/// Two hash tags, and two names without one.
pub(crate) const NAMES: [&str; 6] = ["{t}a", "{t}b", "{t}c", "{u}a", "x", "y"];

/// Until when faults strike and users come.
const BUSY: Micros = 20_000_000;
/// When every user must have finished: some leases and claim windows later.
const FINISHED: Micros = 90_000_000;
/// How far the server's clock is ahead.
const SERVER_AHEAD: Micros = 1_700_000_000_000_000;

enum Event {
    Arrive { client: usize, life: u16, id: CommandId, words: Vec<Vec<u8>>, answered: bool },
    Reply { client: usize, life: u16, id: CommandId, result: Result<Reply, Failure> },
    Subscribed { client: usize, life: u16 },
    Message { client: usize, life: u16, payload: Vec<u8> },
    Wake { client: usize, life: u16 },
    Step { client: usize, life: u16, user: usize, number: u32 },
    Crash,
    Vanish(Option<usize>),
}

struct Client {
    life: u16,
    channel: String,
    engine: Engine,
    clock: Clock,
    subscribed: bool,
    users: Vec<User>,
    next_op: u64,
    wake_at: Micros,
}

/// One run: engines whose users hold several names as one lease.
pub(crate) struct MultiRun<'a> {
    world: World<Event>,
    model: &'a mut ModelServer,
    clients: Vec<Client>,
    lives: u16,
    promises: Promises,
    /// How often a command or a reply fails, in millionths.
    trouble: u32,
    keeping: bool,
    pub(crate) counts: Counts,
}

impl<'a> MultiRun<'a> {
    /// `keeping` is whether holders move the ends of their leases.
    pub(crate) fn new(seed: u64, keeping: bool, model: &'a mut ModelServer, transcript: Transcript) -> Self {
        let mut rng = Rng::new(seed ^ 0x5e7e);
        model.reset();
        let trouble = if rng.chance(300_000) { 0 } else { rng.spread((1_000, 100_000)) as u32 };
        let mut run = Self {
            world: World::new(rng, transcript),
            model,
            clients: Vec::new(),
            lives: 0,
            promises: Promises::default(),
            trouble,
            keeping,
            counts: Counts::default(),
        };
        for _ in 0..run.world.rng.range((1, 4)) {
            let client = run.new_client();
            run.clients.push(client);
            run.start(run.clients.len() - 1);
        }
        for _ in 0..run.world.rng.below(6) {
            let at = run.world.rng.below(BUSY);
            let event = if run.world.rng.chance(400_000) { Event::Crash } else { Event::Vanish(None) };
            run.world.agenda.push(at, event);
        }
        run
    }

    /// Runs to the end.
    pub(crate) fn run(&mut self) -> Verdict {
        while let Some(event) = self.world.advance_until(FINISHED) {
            self.handle(event)?;
            self.promises.overdue(self.world.now)?;
        }
        self.counts.micros = FINISHED;
        self.finished()
    }

    pub(crate) fn into_transcript(self) -> Vec<String> {
        self.world.transcript.into_lines()
    }

    fn new_client(&mut self) -> Client {
        self.lives += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.world.rng.draw().to_be_bytes());
        id[8..].copy_from_slice(&u64::from(self.lives).to_be_bytes());
        let id = ClientId::from_random(id);
        let config = Config {
            claim_window: Duration::from_millis(self.world.rng.range((200, 1_000))),
            response_timeout: Duration::from_millis(self.world.rng.range((100, 500))),
            local_handoffs: self.world.rng.below(4) as u32,
            batches: self.lives.is_multiple_of(2),
            ..Config::default()
        };
        let engine = Engine::new(id, config).expect("the options are within their bounds");
        let users = (0..self.world.rng.range((1, 4))).map(|_| User::default()).collect();
        let clock = Clock::new(1 << 40, self.world.rng.range((0, 8_000)) as i64 - 4_000);
        Client {
            life: self.lives,
            channel: format!("leasehold:{id}"),
            engine,
            clock,
            subscribed: false,
            users,
            next_op: 0,
            wake_at: 0,
        }
    }

    fn start(&mut self, client: usize) {
        for user in 0..self.clients[client].users.len() {
            let after = self.world.rng.below(100_000);
            self.schedule(client, user, after);
        }
    }

    fn handle(&mut self, event: Event) -> Verdict {
        match event {
            Event::Arrive { client, life, id, words, answered } => self.arrive((client, life), id, &words, answered),
            Event::Reply { client, life, id, result } if self.lives_on(client, life) => {
                self.feed(client, Input::Reply { id, result })
            }
            Event::Subscribed { client, life } if self.lives_on(client, life) => {
                self.clients[client].subscribed = true;
                let channel = self.clients[client].channel.clone();
                self.feed(client, Input::Subscribed { node: Default::default(), channel: &channel })
            }
            Event::Message { client, life, payload } if self.lives_on(client, life) => {
                let channel = self.clients[client].channel.clone();
                self.feed(client, Input::Message { node: Default::default(), channel: &channel, payload: &payload })
            }
            Event::Wake { client, life } if self.lives_on(client, life) => self.feed(client, Input::Wake),
            Event::Step { client, life, user, number } if self.lives_on(client, life) => {
                self.step(client, user, number)
            }
            Event::Crash => {
                let client = self.world.rng.below(self.clients.len() as u64) as usize;
                let client = self.first_of_several().map_or(client, |(client, name, dies)| {
                    self.world.agenda.push(dies, Event::Vanish(Some(name)));
                    client
                });
                self.world.transcript.line(self.world.now, format!("c{client}"), format_args!("crashes"));
                self.promises.forget(self.clients[client].life);
                self.clients[client] = self.new_client();
                self.start(client);
                Ok(())
            }
            Event::Vanish(name) => {
                // The key of this name, or of a random one.
                let name = name.unwrap_or_else(|| self.world.rng.below(NAMES.len() as u64) as usize);
                self.world.transcript.line(self.world.now, "s", format_args!("forgets {}", NAMES[name]));
                let value = self.model.get(self.world.now + SERVER_AHEAD, NAMES[name]);
                self.model.execute(self.world.now + SERVER_AHEAD, &[b"DEL", NAMES[name].as_bytes()]);
                self.promises.vanished(self.world.now, name, value.as_deref());
                self.hurry();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A client that is the first of several waiters for a name, and when it counts as dead if it falls silent now. If the
    /// lock becomes free then, the queue has a dead waiter before a live one, until the latter asks.
    fn first_of_several(&self) -> Option<(usize, usize, Micros)> {
        NAMES.iter().enumerate().find_map(|(name, text)| {
            let waiters = queue::waiters(self.model, self.world.now + SERVER_AHEAD, text);
            let [first, second, ..] = waiters.as_slice() else { return None };
            let is_of = |client: &Client, token: &str| {
                client.channel.strip_prefix("leasehold:").is_some_and(|uuid| token.starts_with(uuid))
            };
            let client = self.clients.iter().position(|client| is_of(client, &first.token))?;
            let dies = (first.alive_until_ms * 1_000).saturating_sub(SERVER_AHEAD);
            (!is_of(&self.clients[client], &second.token)).then_some((client, name, dies.max(self.world.now) + 1))
        })
    }

    /// Users that think ask now, before a waiter does.
    fn hurry(&mut self) {
        for client in 0..self.clients.len() {
            for user in 0..self.clients[client].users.len() {
                if self.clients[client].users[user].doing == Doing::Thinking {
                    let after = self.world.rng.below(20_000);
                    self.schedule(client, user, after);
                }
            }
        }
    }

    fn lives_on(&self, client: usize, life: u16) -> bool {
        self.clients[client].life == life
    }

    /// Whether something fails now.
    fn fails(&mut self) -> bool {
        self.world.now < BUSY && self.world.rng.chance(self.trouble)
    }

    fn trip(&mut self) -> Micros {
        if self.fails() { self.world.rng.spread((5_000, 2_000_000)) } else { self.world.rng.range((50, 2_000)) }
    }

    /// Tells an engine what happened, and carries out its outputs.
    fn feed(&mut self, client: usize, input: Input<'_>) -> Verdict {
        let it = &mut self.clients[client];
        let (life, now) = (it.life, it.clock.instant(self.world.now));
        self.world.transcript.line(self.world.now, format!("c{client}"), format_args!("<- {input:?}"));
        it.engine.handle(now, input);
        while let Some(output) = self.clients[client].engine.poll_output() {
            self.world.transcript.line(self.world.now, format!("c{client}"), format_args!("-> {output:?}"));
            match output {
                Output::Send { id, command, .. } => {
                    let words: Vec<Vec<u8>> = command.words().map(<[u8]>::to_vec).collect();
                    self.send((client, life), id, words);
                }
                Output::Subscribe { .. } => {
                    let at = self.world.now + self.trip();
                    self.world.agenda.push(at, Event::Subscribed { client, life });
                }
                Output::Unsubscribe { .. } => self.clients[client].subscribed = false,
                Output::Completed { op, result } => self.completed(client, op, result)?,
                Output::Lost { lease, reason } => {
                    self.counts.losses += 1;
                    self.promises.lost(life, lease, reason, (self.world.now, now), self.trouble > 0)?;
                    self.user_lost(client, lease);
                }
                // No simulated user waits for replicas.
                Output::SendDedicated { .. } | Output::CloseDedicated { .. } => {}
            }
        }
        let it = &self.clients[client];
        self.promises.ends(life, now, |lease| it.engine.valid_until(lease))?;
        if let Some((at, _)) = it.engine.poll_timeout() {
            let at = it.clock.when(at.as_micros()).max(self.world.now + 1);
            // A wake-up that is too early is allowed, but there should not be more and more of them.
            if it.wake_at <= self.world.now || at < it.wake_at {
                self.clients[client].wake_at = at;
                self.world.agenda.push(at, Event::Wake { client, life });
            }
        }
        Ok(())
    }

    fn completed(&mut self, client: usize, op: OpId, result: Result<Outcome, leasehold_core::Error>) -> Verdict {
        let life = self.clients[client].life;
        let doubtful = self.promises.ended(life, op, self.world.now)?;
        let granted = match &result {
            Ok(Outcome::Acquired(grant)) => Some((grant.lease, vec![grant.fence])),
            Ok(Outcome::AcquiredAll { lease, fences, .. }) => Some((*lease, fences.clone())),
            _ => None,
        };
        if let Some((lease, fences)) = granted {
            self.counts.grants += 1;
            let (names, options) = self.wanted(client, op);
            let certain: Vec<usize> = names.iter().copied().filter(|name| !doubtful.contains(name)).collect();
            self.exclusive(client, &certain)?;
            let at = self.clients[client].clock.instant(self.world.now);
            let end = End::of(&options, self.world.now, at);
            self.promises.granted((life, lease), &names, &fences, &doubtful, end)?;
        }
        self.user_answered(client, op, &result);
        Ok(())
    }

    fn send(&mut self, (client, life): (usize, u16), id: CommandId, words: Vec<Vec<u8>>) {
        if self.fails() {
            // It never arrives, and the client may or may not be told.
            if self.world.rng.chance(500_000) {
                let at = self.world.now + self.trip();
                let result = Err(Failure::Interrupted("reset".into()));
                self.world.agenda.push(at, Event::Reply { client, life, id, result });
            }
            return;
        }
        if self.fails() {
            let at = self.world.now + self.world.rng.spread((1_000, 3_000_000));
            self.world.agenda.push(at, Event::Arrive { client, life, id, words: words.clone(), answered: false });
        }
        let (at, answered) = (self.world.now + self.trip(), !self.fails());
        self.world.agenda.push(at, Event::Arrive { client, life, id, words, answered });
    }

    /// A command reaches the server.
    fn arrive(&mut self, (client, life): (usize, u16), id: CommandId, words: &[Vec<u8>], answered: bool) -> Verdict {
        self.counts.calls += 1;
        let server_us = self.world.now + SERVER_AHEAD;
        let borrowed: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let wanted = if takes_several(words) { queue::wanted(self.model, server_us) } else { Vec::new() };
        let executed = self.model.execute(server_us, &borrowed);
        self.promises.in_turn(words, &executed.reply, &wanted)?;
        let all_names = || NAMES.iter().map(|name| self.model.get(server_us, name)).collect::<Vec<_>>();
        self.promises.executed(self.world.now, words, &executed.reply, all_names)?;
        self.world.transcript.line(self.world.now, "s", format_args!("c{client} {id:?}: {:?}", executed.reply));
        for (channel, payload) in executed.published {
            let listener = self.clients.iter().position(|it| it.subscribed && it.channel == channel);
            let Some(listener) = listener.filter(|_| !self.fails()) else { continue };
            let (at, life) = (self.world.now + self.trip(), self.clients[listener].life);
            self.world.agenda.push(at, Event::Message { client: listener, life, payload });
        }
        if answered {
            let (at, result) = (self.world.now + self.trip(), executed.reply.map_err(Failure::Refused));
            self.world.agenda.push(at, Event::Reply { client, life, id, result });
        }
        Ok(())
    }

    /// When a client's lease ends, in true time, if it is still valid.
    fn valid_until(&self, life: u16, lease: LeaseId) -> Option<Micros> {
        let client = self.clients.iter().find(|client| client.life == life)?;
        let until = client.clock.when(client.engine.valid_until(lease)?.as_micros());
        (until > self.world.now).then_some(until)
    }
}
