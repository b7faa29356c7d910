//! Leases of several names, in a separate world. The users of the other [`World`](crate::World) want one name each.
//!
//! Engines with users that take some names in any order, one by one or together, over a network that delays, loses and
//! duplicates commands. Clients crash, and keys vanish. After a while the faults stop, and every user must finish.

mod promises;
mod users;

use std::time::Duration;

use leasehold_core::{CallId, ClientId, Config, Engine, Failure, Input, LeaseId, OpId, Outcome, Output, Reply};
use leasehold_model::ModelServer;

use crate::agenda::Agenda;
use crate::clock::{Clock, Micros};
use crate::invariants::Verdict;
use crate::rng::Rng;
use crate::tampering::Tampering;
use crate::transcript::Transcript;
use crate::world::Counts;
use promises::Promises;
use users::User;

/// Two hash tags, and two names without one.
pub(crate) const NAMES: [&str; 6] = ["{t}a", "{t}b", "{t}c", "{u}a", "x", "y"];

/// Until when faults strike and users come.
const BUSY: Micros = 20_000_000;
/// When every user must have finished: some leases and claim windows later.
const FINISHED: Micros = 90_000_000;
/// How far the server's clock is ahead.
const SERVER_AHEAD: Micros = 1_700_000_000_000_000;

enum Event {
    Arrive { client: usize, life: u16, call: CallId, words: Vec<Vec<u8>>, answered: bool },
    Reply { client: usize, life: u16, call: CallId, result: Result<Reply, Failure> },
    Subscribed { client: usize, life: u16 },
    Message { client: usize, life: u16, payload: Vec<u8> },
    Wake { client: usize, life: u16 },
    Step { client: usize, life: u16, user: usize, number: u32 },
    Crash,
    Vanish,
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

/// One world.
pub(crate) struct SeveralWorld<'a> {
    now: Micros,
    rng: Rng,
    agenda: Agenda<Event>,
    model: &'a mut ModelServer,
    clients: Vec<Client>,
    lives: u16,
    promises: Promises,
    /// How often a command or a reply fails, in millionths.
    trouble: u32,
    pub(crate) counts: Counts,
    pub(crate) transcript: Transcript,
}

impl<'a> SeveralWorld<'a> {
    pub(crate) fn new(seed: u64, tampering: Tampering, model: &'a mut ModelServer, transcript: Transcript) -> Self {
        let mut rng = Rng::new(seed ^ 0x5e7e);
        model.reset();
        for (script, find, put) in tampering.scripts {
            // The bench has checked that the change fits.
            let _ = model.replace_script(script, find, put);
        }
        let trouble = if rng.chance(300_000) { 0 } else { rng.spread((1_000, 100_000)) as u32 };
        let mut world = Self {
            now: 0,
            rng,
            agenda: Agenda::default(),
            model,
            clients: Vec::new(),
            lives: 0,
            promises: Promises::default(),
            trouble,
            counts: Counts::default(),
            transcript,
        };
        for _ in 0..world.rng.range((1, 4)) {
            let client = world.new_client();
            world.clients.push(client);
            world.start(world.clients.len() - 1);
        }
        for _ in 0..world.rng.below(6) {
            let at = world.rng.below(BUSY);
            let event = if world.rng.chance(400_000) { Event::Crash } else { Event::Vanish };
            world.agenda.push(at, event);
        }
        world
    }

    /// Runs to the end.
    pub(crate) fn run(&mut self) -> Verdict {
        while let Some((at, event)) = self.agenda.pop() {
            if at > FINISHED {
                break;
            }
            self.now = at;
            self.happen(event)?;
            self.promises.overdue(self.now)?;
        }
        self.now = FINISHED;
        self.counts.micros = FINISHED;
        self.finished()
    }

    fn new_client(&mut self) -> Client {
        self.lives += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.rng.draw().to_be_bytes());
        id[8..].copy_from_slice(&u64::from(self.lives).to_be_bytes());
        let id = ClientId::from_random(id);
        let config = Config {
            claim_window: Duration::from_millis(self.rng.range((200, 1_000))),
            response_timeout: Duration::from_millis(self.rng.range((100, 500))),
            local_handoffs: self.rng.below(4) as u32,
            ..Config::default()
        };
        let engine = Engine::new(id, config).expect("the options are within their bounds");
        let users = (0..self.rng.range((1, 4))).map(|_| User::default()).collect();
        let clock = Clock::new(1 << 40, self.rng.range((0, 8_000)) as i64 - 4_000);
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
            let after = self.rng.below(100_000);
            self.schedule(client, user, after);
        }
    }

    fn happen(&mut self, event: Event) -> Verdict {
        match event {
            Event::Arrive { client, life, call, words, answered } => {
                self.arrive((client, life), call, &words, answered)
            }
            Event::Reply { client, life, call, result } if self.lives_on(client, life) => {
                self.feed(client, Input::Reply { call, result })
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
                let client = self.rng.below(self.clients.len() as u64) as usize;
                self.transcript.line(self.now, format!("c{client}"), format_args!("crashes"));
                self.promises.forget(self.clients[client].life);
                self.clients[client] = self.new_client();
                self.start(client);
                Ok(())
            }
            Event::Vanish => {
                let name = self.rng.below(NAMES.len() as u64) as usize;
                self.transcript.line(self.now, "s", format_args!("forgets {}", NAMES[name]));
                self.model.execute(self.now + SERVER_AHEAD, &[b"DEL", NAMES[name].as_bytes()]);
                self.promises.vanished(self.now, name);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn lives_on(&self, client: usize, life: u16) -> bool {
        self.clients[client].life == life
    }

    /// Whether something fails now.
    fn fails(&mut self) -> bool {
        self.now < BUSY && self.rng.chance(self.trouble)
    }

    fn trip(&mut self) -> Micros {
        if self.fails() { self.rng.spread((5_000, 2_000_000)) } else { self.rng.range((50, 2_000)) }
    }

    /// Tells an engine what happened, and carries out its outputs.
    fn feed(&mut self, client: usize, input: Input<'_>) -> Verdict {
        let it = &mut self.clients[client];
        let (life, now) = (it.life, it.clock.instant(self.now));
        self.transcript.line(self.now, format!("c{client}"), format_args!("<- {input:?}"));
        it.engine.handle(now, input);
        while let Some(output) = self.clients[client].engine.poll_output() {
            self.transcript.line(self.now, format!("c{client}"), format_args!("-> {output:?}"));
            match output {
                Output::Send { call, command, .. } => {
                    let words: Vec<Vec<u8>> = command.words().map(<[u8]>::to_vec).collect();
                    self.send((client, life), call, words);
                }
                Output::Subscribe { .. } => {
                    let at = self.now + self.trip();
                    self.agenda.push(at, Event::Subscribed { client, life });
                }
                Output::Unsubscribe { .. } => self.clients[client].subscribed = false,
                Output::Completed { op, result } => self.completed(client, op, result)?,
                Output::Lost { lease, .. } => {
                    self.counts.losses += 1;
                    self.promises.lost(life, lease)?;
                    self.user_lost(client, lease);
                }
                // No simulated user waits for replicas.
                Output::SendDedicated { .. } | Output::CloseDedicated { .. } => {}
            }
        }
        let it = &self.clients[client];
        if let Some((at, _)) = it.engine.poll_timeout() {
            let at = it.clock.when(at.as_micros()).max(self.now + 1);
            // A wake-up that is too early is allowed, but there should not be more and more of them.
            if it.wake_at <= self.now || at < it.wake_at {
                self.clients[client].wake_at = at;
                self.agenda.push(at, Event::Wake { client, life });
            }
        }
        Ok(())
    }

    fn completed(&mut self, client: usize, op: OpId, result: Result<Outcome, leasehold_core::Error>) -> Verdict {
        let life = self.clients[client].life;
        let doubtful = self.promises.ended(life, op, self.now)?;
        let granted = match &result {
            Ok(Outcome::Acquired(grant)) => Some((grant.lease, vec![grant.fence])),
            Ok(Outcome::AcquiredAll { lease, fences, .. }) => Some((*lease, fences.clone())),
            _ => None,
        };
        if let Some((lease, fences)) = granted {
            self.counts.grants += 1;
            let names = self.wanted(client, op);
            let certain: Vec<usize> = names.iter().copied().filter(|name| !doubtful.contains(name)).collect();
            self.exclusive(client, &certain)?;
            self.promises.granted((life, lease), &names, &fences, &doubtful)?;
        }
        self.user_answered(client, op, &result);
        Ok(())
    }

    fn send(&mut self, (client, life): (usize, u16), call: CallId, words: Vec<Vec<u8>>) {
        if self.fails() {
            // It never arrives, and the client may or may not be told.
            if self.rng.chance(500_000) {
                let at = self.now + self.trip();
                let result = Err(Failure::Interrupted("reset".into()));
                self.agenda.push(at, Event::Reply { client, life, call, result });
            }
            return;
        }
        if self.fails() {
            let at = self.now + self.rng.spread((1_000, 3_000_000));
            self.agenda.push(at, Event::Arrive { client, life, call, words: words.clone(), answered: false });
        }
        let (at, answered) = (self.now + self.trip(), !self.fails());
        self.agenda.push(at, Event::Arrive { client, life, call, words, answered });
    }

    /// A command reaches the server.
    fn arrive(&mut self, (client, life): (usize, u16), call: CallId, words: &[Vec<u8>], answered: bool) -> Verdict {
        self.counts.calls += 1;
        let server_us = self.now + SERVER_AHEAD;
        let borrowed: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let executed = self.model.execute(server_us, &borrowed);
        let all_names = || NAMES.iter().map(|name| self.model.get(server_us, name)).collect::<Vec<_>>();
        self.promises.executed(self.now, words, &executed.reply, all_names)?;
        self.transcript.line(self.now, "s", format_args!("c{client} {call:?}: {:?}", executed.reply));
        for (channel, payload) in executed.published {
            let listener = self.clients.iter().position(|it| it.subscribed && it.channel == channel);
            let Some(listener) = listener.filter(|_| !self.fails()) else { continue };
            let (at, life) = (self.now + self.trip(), self.clients[listener].life);
            self.agenda.push(at, Event::Message { client: listener, life, payload });
        }
        if answered {
            let (at, result) = (self.now + self.trip(), executed.reply.map_err(Failure::Refused));
            self.agenda.push(at, Event::Reply { client, life, call, result });
        }
        Ok(())
    }

    /// When a client's lease ends, in true time, if it is still valid.
    fn valid_until(&self, life: u16, lease: LeaseId) -> Option<Micros> {
        let client = self.clients.iter().find(|client| client.life == life)?;
        let until = client.clock.when(client.engine.valid_until(lease)?.as_micros());
        (until > self.now).then_some(until)
    }
}
