//! Clients of one server in memory. The test delivers their commands.

#![allow(dead_code, reason = "each test target uses a part of it")]

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, ClientId, CommandId, Config, Engine, Error, Failure, Input, LeaseId, LeaseToken, NodeId, OpId,
    Outcome, Reply, Wait,
};
use leasehold_harness::Client;
use leasehold_harness::answers::{SERVER_US, words};
use leasehold_memory::Server;

pub(crate) const NAME: &str = "job";

/// Clients and their server, at one time.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) clients: Vec<Client>,
    subscribed: Vec<Vec<String>>,
    /// Clients that have died, or are paused: they do nothing.
    pub(crate) still: Vec<bool>,
    /// Clients whose scripts may not run `TIME`. They take the last microsecond of the millisecond.
    pub(crate) without_time: Vec<bool>,
    /// Whether no command reaches the server.
    pub(crate) outage: bool,
    /// How many commands the server has carried out, for each script.
    pub(crate) carried_out: Vec<&'static str>,
}

impl World {
    pub(crate) fn new(clients: u8) -> Self {
        Self::with(clients, &Config::default())
    }

    pub(crate) fn with(clients: u8, config: &Config) -> Self {
        let client = |id: u8| {
            let config = Config { batches: false, ..config.clone() };
            Client::of(Engine::new(ClientId::from_random([id + 1; 16]), config).unwrap())
        };
        let mut server = Server::default();
        for script in leasehold_lua::ALL {
            server.call(&[b"SCRIPT", b"LOAD", script.source.as_bytes()]).unwrap();
        }
        let (subscribed, still) = (vec![Vec::new(); clients.into()], vec![false; clients.into()]);
        let without_time = still.clone();
        let clients = (0..clients).map(client).collect();
        Self { server, clients, subscribed, still, without_time, outage: false, carried_out: Vec::new() }
    }

    /// The server carries out the oldest command. Its reply is on the way.
    pub(crate) fn carry_out(&mut self, place: usize) -> (CommandId, Result<Reply, Failure>) {
        let (id, command) = self.clients[place].unanswered.remove(0);
        let words: Vec<&[u8]> = command.words().collect();
        self.carry_out_words(place, id, &words)
    }

    /// The server carries out a copy of the oldest command.
    pub(crate) fn carry_out_copy(&mut self, place: usize) -> Vec<Vec<u8>> {
        let (id, command) = self.clients[place].unanswered[0].clone();
        let copy: Vec<Vec<u8>> = command.words().map(<[u8]>::to_vec).collect();
        let words: Vec<&[u8]> = copy.iter().map(Vec::as_slice).collect();
        drop(self.carry_out_words(place, id, &words));
        copy
    }

    fn carry_out_words(&mut self, place: usize, id: CommandId, words: &[&[u8]]) -> (CommandId, Result<Reply, Failure>) {
        let now = SERVER_US as u64 + self.clients[place].now;
        let now = if self.without_time[place] { now / 1_000 * 1_000 + 999 } else { now };
        self.server.step_clock(now);
        let executed = self.server.execute(now, words).unwrap();
        self.carried_out.extend(script(words[1]));
        for message in executed.published {
            let channel = String::from_utf8(message.channel).unwrap();
            for (client, still) in self.clients.iter_mut().zip(&self.still) {
                if client.channels.contains(&channel) && !still {
                    let node = NodeId(0);
                    client.feed(Input::Message { node, channel: &channel, payload: &message.payload });
                }
            }
        }
        (id, executed.reply.map_err(Failure::Refused))
    }

    /// The server answers everything that was sent, and confirms each subscription.
    pub(crate) fn serve(&mut self) {
        for place in 0..self.clients.len() {
            if self.outage || self.still[place] {
                continue;
            }
            let confirmed = std::mem::take(&mut self.subscribed[place]);
            self.subscribed[place].clone_from(&self.clients[place].channels);
            for channel in self.clients[place].channels.clone() {
                if confirmed.contains(&channel) {
                    continue;
                }
                self.clients[place].feed(Input::Subscribed { node: NodeId(0), channel: &channel });
            }
            while !self.clients[place].unanswered.is_empty() {
                let (id, reply) = self.carry_out(place);
                self.clients[place].reply(id, reply);
            }
        }
    }

    /// Time passes, and the server answers at once.
    pub(crate) fn pass(&mut self, time: Duration) {
        let until = self.clients[0].now + time.as_micros() as u64;
        while let Some(at) = self.next().filter(|at| *at <= until) {
            self.set(at);
            for (client, _) in self.clients.iter_mut().zip(&self.still).filter(|(_, still)| !**still) {
                client.feed(Input::Wake);
            }
            self.serve();
        }
        self.set(until);
    }

    /// Time passes in which the server is silent.
    pub(crate) fn pass_in_silence(&mut self, time: Duration) {
        let until = self.clients[0].now + time.as_micros() as u64;
        self.clients.iter_mut().for_each(|client| client.pass_until(until));
    }

    fn next(&self) -> Option<u64> {
        let awake = self.clients.iter().zip(&self.still).filter(|(_, still)| !**still);
        awake.filter_map(|(client, _)| Some(client.engine.poll_timeout()?.0.as_micros())).min()
    }

    fn set(&mut self, now: u64) {
        self.clients.iter_mut().for_each(|client| client.now = client.now.max(now));
    }

    pub(crate) fn acquire(&mut self, place: usize, options: AcquireOptions) -> LeaseId {
        let op = self.clients[place].acquire(NAME, options);
        self.serve();
        self.clients[place].grant_of(op).lease
    }

    /// A user's call, which the server answers at once.
    pub(crate) fn call(&mut self, place: usize, input: impl FnOnce(OpId) -> Input<'static>) -> Ended {
        let op = self.clients[place].call(input);
        self.serve();
        self.clients[place].result_of(op).cloned()
    }

    pub(crate) fn detach(&mut self, place: usize, lease: LeaseId, time: Option<Duration>) -> LeaseToken {
        token(self.call(place, |op| Input::Detach { op, lease, time }))
    }

    pub(crate) fn adopt(&mut self, place: usize, token: LeaseToken, options: AcquireOptions) -> Ended {
        let op = self.clients[place].call(|op| Input::Adopt { op, name: NAME, token, options: &options });
        self.serve();
        self.clients[place].result_of(op).cloned()
    }

    /// Whether a try of this client gets the lock. It gives it back.
    pub(crate) fn is_free_for(&mut self, place: usize, options: AcquireOptions) -> bool {
        let op = self.clients[place].acquire(NAME, AcquireOptions { wait: Wait::No, ..options });
        self.serve();
        match self.clients[place].result_of(op) {
            Some(Ok(Outcome::Acquired(grant))) => {
                let lease = grant.lease;
                self.call(place, |op| Input::Release { op, lease });
                true
            }
            Some(Err(Error::Busy { .. })) => false,
            other => panic!("{other:?}"),
        }
    }

    /// How long the lock's key lasts, in milliseconds. 0 if there is none.
    pub(crate) fn left(&self) -> u64 {
        let now = SERVER_US as u64 + self.clients[0].now;
        self.server.expires(now, NAME.as_bytes()).map_or(0, |at| at.saturating_sub(now) / 1_000)
    }
}

/// How a call has ended, if it has.
pub(crate) type Ended = Option<Result<Outcome, Error>>;

pub(crate) fn token(ended: Ended) -> LeaseToken {
    match ended {
        Some(Ok(Outcome::Exported(token))) => token,
        other => panic!("not detached: {other:?}"),
    }
}

/// The scripts of the commands that have no answer yet.
pub(crate) fn scripts(client: &Client) -> Vec<&'static str> {
    let name = |command| script(words(command)[1].as_bytes()).expect("a script of leasehold");
    client.unanswered.iter().map(|(_, command)| name(command)).collect()
}

/// The name of a script.
fn script(word: &[u8]) -> Option<&'static str> {
    let is_it = |script: &&leasehold_lua::Script| [script.sha1, script.source].map(str::as_bytes).contains(&word);
    leasehold_lua::ALL.iter().find(is_it).map(|script| script.name)
}

pub(crate) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn options() -> AcquireOptions {
    AcquireOptions::default()
}
