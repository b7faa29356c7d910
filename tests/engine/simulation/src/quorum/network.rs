//! The network between clients and servers: commands are late, lost, duplicated and reordered, for each server
//! separately.

use std::rc::Rc;

use leasehold_core::{Command, CommandId, Failure, Reply, Scalar};
use leasehold_harness::Micros;
use leasehold_model::{Executed, ModelServer};

use crate::channels::Topic;
use crate::client::Delivery;
use crate::faults::Fault;
use crate::invariants::broken;
use crate::invariants::fences::AHEAD;
use crate::invariants::keys::Keys;
use crate::network::{LATEST, fail, interrupt, is_cut, tell};
use crate::quorum::client::Client;
use crate::quorum::users::text;
use crate::quorum::world::QuorumRun;
use crate::wire::{Life, ScriptCommand, Token, is};
use crate::world::{Arrival, Event};

/// The counter of a quorum's server.
const COUNTER: &str = "leasehold:fence:quorum";

/// What a command costs of the second that a client has for each server and user.
const COST: Micros = 1_000_000 / 60;
/// What a call may need in addition: twice each of acquire, raise and release.
pub(crate) const A_CALL: Micros = 6 * COST;

/// How soon a client is told of a break.
const TOLD_WITHIN: Micros = 100_000;

impl QuorumRun<'_> {
    pub(crate) fn send(&mut self, client: usize, server: usize, id: CommandId, command: Command) {
        let second = self.world.now / 1_000_000;
        let most = 1_000_000 * self.servers.len() as Micros * self.mix.users.1;
        let words: Vec<&[u8]> = command.words().collect();
        // A lease with a short TTL is renewed often: for example, one with a short `max_hold` that waits for a majority.
        let cost = match ScriptCommand::read(&words) {
            Some((ScriptCommand::Renew { ttl_ms, .. }, _)) => COST.min(ttl_ms as Micros * 1_000 / 6),
            _ => COST,
        };
        let it = &mut self.clients[client];
        it.pace = if it.pace.0 == second { (second, it.pace.1 + cost) } else { (second, cost) };
        if it.pace.1 > most {
            let detail = format!("c{client} sends more than {} commands a second", most / COST);
            self.watch.check(broken("busy-loop", detail));
        }
        if self.world.transcript.is_written() {
            let what = format!("{command:?}");
            let what: String =
                what.split(' ').filter(|word| !word.starts_with("leasehold:")).collect::<Vec<_>>().join(" ");
            self.note(client, format_args!("#{} -> s{server} {what}", id.0));
        }
        let (there, back) = (self.world.rng.range(self.mix.trip), self.world.rng.range(self.mix.trip));
        let it = &mut self.clients[client];
        let (life, at) = (it.life, it.clock.instant(self.world.now));
        it.attempts.sends(server, id, (self.world.now, at), &words);
        let command = Rc::new(command);
        let (name, answers, releases, mixed) = (0, 1, false, false);
        let arrival = Arrival { client, life, server, name, id, command, answers, releases, mixed, back };
        self.pass(arrival, there);
    }

    /// Decides what happens to a command on its way.
    fn pass(&mut self, mut arrival: Arrival, mut there: Micros) {
        let now = self.world.now;
        if is_cut(&self.cuts, arrival.client, arrival.server, now)
            || self.servers[arrival.server].suffers(Fault::ServerCrash, now)
        {
            return fail(&mut self.world, &arrival, there, TOLD_WITHIN);
        }
        let chance = if self.faults_are_on() { self.mix.chance } else { 0 };
        if self.world.rng.chance(chance) {
            self.counts.faults += 1;
            match self.world.rng.below(7) {
                0 => there += self.world.rng.range(self.mix.slow),
                1 => arrival.back = self.world.rng.range(self.mix.slow),
                2 => return fail(&mut self.world, &arrival, there, TOLD_WITHIN),
                3 => {
                    return tell(
                        &mut self.world,
                        &arrival,
                        there,
                        Err(Failure::Unavailable("connection refused".into())),
                    );
                }
                4 => {
                    // Its connection breaks, and it still arrives, late.
                    interrupt(&mut self.world, &arrival, there, TOLD_WITHIN);
                    arrival.answers = 0;
                    there += self.world.rng.spread((1_000, LATEST));
                }
                5 => {
                    interrupt(&mut self.world, &arrival, there, TOLD_WITHIN);
                    arrival.answers = 0;
                }
                _ => {
                    // Its library sends it again, and reports the break.
                    self.world.agenda.push(now + there, Event::Arrive(Arrival { answers: 0, ..arrival.clone() }));
                    interrupt(&mut self.world, &arrival, there, TOLD_WITHIN);
                    arrival.answers = 0;
                    there += self.world.rng.spread((1_000, LATEST));
                }
            }
        }
        self.world.agenda.push(now + there, Event::Arrive(arrival));
    }

    /// A client subscribes at the first server.
    pub(crate) fn subscribe(&mut self, client: usize, life: Life) {
        if self.clients[client].life != life {
            return;
        }
        let fails = is_cut(&self.cuts, client, 0, self.world.now)
            || self.servers[0].suffers(Fault::ServerCrash, self.world.now);
        let lost = self.faults_are_on() && self.world.rng.chance(self.mix.chance);
        self.clients[client].subscribed = !fails && !lost;
        let what = match (fails, lost) {
            (true, _) => Delivery::Unsubscribed(Topic::Own, Failure::Unavailable("connection refused".into())),
            (_, true) => Delivery::Unsubscribed(Topic::Own, Failure::Interrupted("connection reset".into())),
            _ => Delivery::Subscribed(Topic::Own),
        };
        let after = self.world.rng.range(self.mix.trip);
        self.world.after(after, Event::Deliver { client, life, what });
    }

    /// The connections with the subscriptions of these clients break.
    pub(crate) fn break_subscriptions(&mut self, which: impl Fn(usize) -> bool) {
        for client in (0..self.clients.len()).filter(|client| which(*client)) {
            if std::mem::take(&mut self.clients[client].subscribed) {
                let (life, after) = (self.clients[client].life, self.world.rng.spread((100, 1_000_000)));
                let what = Delivery::Unsubscribed(Topic::Own, Failure::Interrupted("connection reset".into()));
                self.world.after(after, Event::Deliver { client, life, what });
            }
        }
    }

    /// The first server sends a message: late, twice or not at all if faults are on.
    fn publish(&mut self, channel: &str, payload: &[u8]) {
        let now = self.world.now;
        let hears = |it: &Client| it.engine.is_some() && it.subscribed && it.channel() == channel;
        let Some(client) = self.clients.iter().position(hears) else { return };
        if is_cut(&self.cuts, client, 0, self.world.now) {
            return;
        }
        let life = self.clients[client].life;
        let mut after = self.world.rng.range(self.mix.trip);
        let mut times = 1;
        if self.faults_are_on() && self.world.rng.chance(self.mix.chance) {
            self.counts.faults += 1;
            match self.world.rng.below(3) {
                0 => times = 0,
                1 => times = 2,
                _ => after += self.world.rng.range(self.mix.slow),
            }
        }
        for _ in 0..times {
            let what = Delivery::Message(Topic::Own, payload.to_vec());
            self.world.agenda.push(now + after, Event::Deliver { client, life, what });
        }
    }

    /// The counter has what a release tells. It is not ahead of the fastest server's clock, however slow its own is.
    fn check_counter(&mut self, words: &[&[u8]], at: usize, counter: u64) {
        let used = ScriptCommand::read(words).map_or(0, |(script, _)| script.used_fence());
        // A server that has forgotten its counter doesn't believe a fence that is far above its clock.
        if counter < used && !self.mix.losing {
            self.watch
                .check(broken("used-dropped", format!("s{at} is told of {used}, and its counter is at {counter}")));
        }
        let fastest = self.servers.iter().map(|server| server.clock.reads(self.world.now)).max().unwrap_or_default();
        if counter > fastest + AHEAD {
            self.watch.check(broken("fence-ahead", format!("s{at} has {counter}, the fastest clock is at {fastest}")));
        }
    }

    /// The names that live waiters want, each with its first live waiter.
    fn first_waiters(&self, clock: u64) -> Vec<(String, Token)> {
        let first = |name: usize| {
            let waiters = self.keys.waiters(&self.models[0], clock, name).into_iter();
            let (token, _) = waiters.clone().find(|(_, alive_until_ms)| *alive_until_ms > clock / 1_000)?;
            Some((text(name), token))
        };
        (0..self.mix.names).filter_map(first).collect()
    }

    /// A given-up token must neither hold nor come back. A call that takes several names takes all or none, and passes no live
    /// waiter. No semaphore has more permits out than its limit.
    fn check_names(&mut self, words: &[&[u8]], result: &Result<Reply, String>, before: &Before, clock: u64) {
        for (name, limit) in self.mix.limits.iter().enumerate().filter(|(_, limit)| **limit > 0) {
            let [lock, .., permits] = self.keys.of_name(name);
            let of = self.models[0].hash(clock, &permits);
            let live = self.models[0].zset(clock, &lock).into_iter().filter(|(_, ends)| *ends > (clock / 1_000) as f64);
            let count = |(token, _): (String, f64)| {
                let (_, mode) = of.iter().find(|(other, _)| *other == token)?;
                mode.split('/').next()?.parse::<u32>().ok()
            };
            let out: u32 = live.filter_map(count).sum();
            if out > *limit {
                self.watch.check(broken("permits", format!("{lock} has {out} permits of {limit} out: {of:?}")));
            }
        }
        let Ok(Reply::List(list)) = result else { return };
        if let Some((ScriptCommand::Release { token, tombstone: true, .. }, _)) = ScriptCommand::read(words) {
            self.watch.left_tombstone(token, self.world.now);
        }
        let Some(parts) = MultiPart::all(words) else { return };
        for holder in (0..self.mix.names).filter_map(|name| self.models[0].get(clock, &text(name))) {
            self.watch.holds(Token::read(holder.as_bytes()), self.world.now);
        }
        // The server's clock and the TTL, and two values for each name.
        let entered = |status: &Scalar| *status == Scalar::Text(b"entered".into());
        let answers = list.iter().skip(2).step_by(2);
        let mut taken = parts.iter().zip(answers).filter(|(_, answer)| entered(answer)).map(|(part, _)| part.name);
        let passed = taken.find_map(|name| before.wanted.iter().find(|(other, _)| *other == name));
        if let Some((name, waiter)) = passed {
            self.watch.check(broken("fifo-remote", format!("{name} was taken, and {waiter:?} waits for it")));
        }
        let held: Vec<bool> = parts.iter().map(|part| part.is_held(&self.models[0], &self.keys, clock)).collect();
        let busy = list.get(2) == Some(&Scalar::Text(b"busy".into()));
        if if busy { held != before.held } else { held.contains(&false) } {
            let detail = format!("{parts:?} were held {:?}, and are after {list:?}: {held:?}", before.held);
            self.watch.check(broken("multi-part", detail));
        }
    }

    /// A command reaches its server.
    pub(crate) fn arrive(&mut self, arrival: Arrival) {
        let (now, at) = (self.world.now, arrival.server);
        let server = &self.servers[at];
        if server.suffers(Fault::ServerCrash, now) {
            return if arrival.answers > 0 {
                fail(&mut self.world, &arrival, 0, TOLD_WITHIN)
            };
        }
        if let Some(until) = server.until(Fault::Stall, now) {
            let after = self.world.rng.below(1_000);
            return self.world.agenda.push(until + after, Event::Arrive(arrival));
        }
        let clock = server.clock.reads(now);
        self.models[at].set_out_of_memory(server.suffers(Fault::OutOfMemory, now));
        let words: Vec<&[u8]> = arrival.command.words().collect();
        let counter = |model: &ModelServer| model.get(clock, COUNTER).and_then(|text| text.parse::<u64>().ok());
        let last = counter(&self.models[at]);
        let held = |part: &MultiPart<'_>| part.is_held(&self.models[0], &self.keys, clock);
        let before = MultiPart::all(&words)
            .filter(|_| self.mix.is_single())
            .map(|parts| Before { wanted: self.first_waiters(clock), held: parts.iter().map(held).collect() });
        self.models[at].set_user(arrival.client);
        let Executed { reply: result, published } = self.models[at].execute(clock, &words);
        if self.mix.is_single() {
            self.check_names(&words, &result, &before.unwrap_or_default(), clock);
            let busy = |list: &Vec<Scalar>| list.get(2) == Some(&Scalar::Text(b"busy".into()));
            if let Ok(Reply::List(list)) = &result
                && is(&words, leasehold_lua::MULTI)
                && busy(list)
            {
                self.clients[arrival.client].turns += 1;
            }
        }
        if let (Some(_), Some(counter), Ok(_)) = (last, counter(&self.models[at]), &result) {
            self.check_counter(&words, at, counter);
        }
        for (channel, payload) in published.iter().filter(|_| at == 0) {
            self.publish(channel, payload);
        }
        self.counts.calls += 1;
        if let Err(text) = &result
            && !["NOSCRIPT", "OOM"].iter().any(|known| text.contains(known))
        {
            self.watch.check(broken("script-error", format!("s{at} answers {text} to {:?}", arrival.command)));
        }
        if arrival.answers > 0 {
            tell(&mut self.world, &arrival, arrival.back, result.map_err(Failure::Refused));
        }
    }
}

/// What the server had before a script for several names.
#[derive(Default)]
struct Before {
    /// The names that live waiters want.
    wanted: Vec<(String, Token)>,
    /// Which parts the caller already had.
    held: Vec<bool>,
}

/// A part of a script for several names.
#[derive(Debug)]
struct MultiPart<'a> {
    name: &'a str,
    token: &'a str,
    mode: &'a str,
}

impl<'a> MultiPart<'a> {
    /// The parts, if these are the words of such a script: it, the number of keys, 3 or 4 keys for each part and the counter; the
    /// TTL, and a token and a mode for each part.
    fn all(words: &[&'a [u8]]) -> Option<Vec<Self>> {
        if !is(words, leasehold_lua::MULTI) {
            return None;
        }
        let text = |word: &'a [u8]| std::str::from_utf8(word).ok();
        let keys: usize = text(words.get(2)?)?.parse().ok()?;
        let (mut at, mut parts) = (3, Vec::new());
        for part in words.get(keys + 4..)?.chunks(2) {
            let [token, mode] = *part else { return None };
            let (name, token, mode) = (text(words.get(at)?)?, text(token)?, text(mode)?);
            at += if mode == "exclusive" { 3 } else { 4 };
            parts.push(Self { name, token, mode });
        }
        Some(parts)
    }

    /// Whether its token has it on the server.
    fn is_held(&self, model: &ModelServer, keys: &Keys, clock: u64) -> bool {
        let live = |key: &str| {
            let mut members = model.zset(clock, key).into_iter();
            members.any(|(token, ends)| token == self.token && ends > (clock / 1_000) as f64)
        };
        let value = model.get(clock, self.name).unwrap_or_default();
        match self.mode {
            "exclusive" => value.split([' ', '*']).next() == Some(self.token),
            "shared" => value.starts_with("shared") && live(&keys.beside(self.name)),
            _ => live(self.name),
        }
    }
}
