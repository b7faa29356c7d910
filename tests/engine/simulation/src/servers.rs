//! The servers: real scripts over a model keyspace. Each server has its own wall clock and its own faults.

use leasehold_core::{Failure, Reply};
use leasehold_harness::{Clock, Micros, Rng};
use leasehold_model::{Executed, ModelServer};

use crate::channels::{Topic, channel_of};
use crate::client::Delivery;
use crate::faults::Fault;
use crate::invariants::broken;
use crate::invariants::keys::{COUNTER, Part};
use crate::kinds::LockKind;
use crate::mix::Mix;
use crate::wire::{Answer, Asked, ScriptCommand, Status, is_fast};
use crate::world::{Arrival, ClusterRun, Event};

/// The error of a server that stops a script while its slot moves. How much of the script ran is unknown.
const STOPPED: &str = "ERR Script attempted to access a non local key in a cluster node";
/// Roughly the microseconds from 1970 to the beginning of a run.
const EPOCH: u64 = 1_800_000_000_000_000;

/// One server.
pub(crate) struct Server {
    /// Its wall clock.
    pub(crate) clock: Clock,
    /// Its current faults, and when each ends.
    troubles: Vec<(Fault, Micros)>,
    /// When the last fault of each kind ended.
    last: [Micros; Fault::COUNT],
    /// Its answer while it is not ready.
    pub(crate) not_ready_error: &'static str,
    /// When it runs the last command that came while it stalled.
    resumed: Micros,
    runs: u64,
}

/// The servers, and which lock is on which.
pub(crate) struct Servers<'a> {
    pub(crate) list: Vec<Server>,
    pub(crate) models: &'a mut [ModelServer],
    pub(crate) names: Vec<String>,
    /// The channel of each reentrant lock. Locks that share one have it at the first of them.
    pub(crate) channels: Vec<String>,
    /// The topic of each reentrant lock.
    pub(crate) topics: Vec<Option<Topic>>,
    homes: Vec<usize>,
}

impl Server {
    /// A server whose clock shows up to `skew` µs more than another's, and gains or loses up to `ppm` µs in a second.
    pub(crate) fn new(rng: &mut Rng, skew: Micros, ppm: u64) -> Self {
        let drift = rng.range((0, 2 * ppm)) as i64 - ppm as i64;
        let clock = Clock::new(EPOCH + rng.below(skew), drift);
        Self { clock, troubles: Vec::new(), last: [0; Fault::COUNT], not_ready_error: "", resumed: 0, runs: 0 }
    }

    /// Whether it has a fault now.
    pub(crate) fn suffers(&self, trouble: Fault, now: Micros) -> bool {
        self.until(trouble, now).is_some()
    }

    /// Until when it has this fault.
    pub(crate) fn until(&self, trouble: Fault, now: Micros) -> Option<Micros> {
        self.troubles.iter().filter(|(kind, until)| *kind == trouble && *until > now).map(|(_, until)| *until).max()
    }

    /// When its last fault of this kind ended.
    pub(crate) fn last_until(&self, trouble: Fault) -> Micros {
        self.last[trouble.index()]
    }

    /// When its last fault ended.
    pub(crate) fn last_trouble(&self) -> Micros {
        self.last.iter().copied().max().unwrap_or(0)
    }

    /// Gives it a fault.
    pub(crate) fn suffer(&mut self, trouble: Fault, now: Micros, until: Micros) {
        self.troubles.retain(|(_, until)| *until > now);
        self.troubles.push((trouble, until));
        let last = &mut self.last[trouble.index()];
        *last = until.max(*last);
    }

    /// Ends all its faults, except for the time that it needs to come back.
    pub(crate) fn repair(&mut self, now: Micros) {
        self.troubles.retain(|(trouble, _)| *trouble == Fault::ServerCrash);
        let down_until = self.last_until(Fault::ServerCrash);
        self.last.iter_mut().for_each(|last| *last = now.min(*last));
        self.last[Fault::ServerCrash.index()] = down_until;
    }
}

impl<'a> Servers<'a> {
    pub(crate) fn new(rng: &mut Rng, mix: &Mix, models: &'a mut [ModelServer]) -> Self {
        // `a` and `{a}` share a slot, and must not share a key.
        let choices = [["a", "{a}", "b c"], ["inv:{42}:x", "{42}", "42"], ["{a}", "a", "x{a}y"]];
        // More of them for batches. In a cluster, only those of one slot share a call.
        let more = if mix.cluster { ["{d}1", "{d}2", "{d}3", "e", "{d}4"] } else { ["d", "e", "f", "g", "h"] };
        let names = rng.pick(&choices).iter().chain(&more);
        let names: Vec<String> = names.take(mix.names).map(ToString::to_string).collect();
        let homes = names.iter().map(|name| slot(name) % mix.servers).collect();
        let mut list = Vec::new();
        for model in models.iter_mut().take(mix.servers) {
            model.reset();
            list.push(Server::new(rng, 1_000_000_000, mix.drift_ppm));
        }
        let mut channels: Vec<String> = Vec::new();
        for (name, kind) in names.iter().zip(&mix.kinds) {
            let channel = if *kind == LockKind::Reentrant { channel_of(name) } else { String::new() };
            channels.push(if channels.contains(&channel) { String::new() } else { channel });
        }
        let topic = |(name, kind): (&String, &LockKind)| match kind {
            LockKind::Reentrant => channels.iter().position(|known| *known == channel_of(name)).map(Topic::Lock),
            _ => None,
        };
        let topics = names.iter().zip(&mix.kinds).map(topic).collect();
        Self { list, models, names, channels, topics, homes }
    }

    /// The lock with this key.
    pub(crate) fn name(&self, key: &[u8]) -> Option<usize> {
        self.names.iter().position(|name| name.as_bytes() == key)
    }

    /// The server of a lock.
    pub(crate) fn home(&self, name: usize) -> usize {
        self.homes[name]
    }

    /// The locks on a server.
    pub(crate) fn at(&self, server: usize) -> impl Iterator<Item = usize> + use<> {
        let homes = self.homes.clone();
        (0..homes.len()).filter(move |name| homes[*name] == server)
    }

    /// A server's own time.
    pub(crate) fn time(&self, server: usize, now: Micros) -> u64 {
        self.list[server].clock.reads(now)
    }

    /// Runs one command as a server does.
    pub(crate) fn execute(&mut self, server: usize, user: usize, now: Micros, words: &[&[u8]]) -> Executed {
        let it = &self.list[server];
        let model = &mut self.models[server];
        model.set_out_of_memory(it.suffers(Fault::OutOfMemory, now));
        model.refuse_publish(it.suffers(Fault::PublishRefused, now));
        model.set_migrating(it.suffers(Fault::Migration, now));
        model.set_read_only(it.suffers(Fault::NotReady, now) && it.not_ready_error.starts_with("READONLY"));
        model.set_user(user);
        model.execute(it.clock.reads(now), words)
    }
}

impl ClusterRun<'_> {
    /// A command reaches its server.
    pub(crate) fn arrive(&mut self, arrival: Arrival) {
        let server = arrival.server;
        let it = &self.servers.list[server];
        if it.suffers(Fault::ServerCrash, self.world.now) {
            return self.answer(&arrival, Err(Failure::Interrupted("the server is gone".into())));
        }
        if let Some(until) = it.until(Fault::Stall, self.world.now) {
            // One after the other, in the order of arrival, so the second copy of a command stays behind the first.
            let at = until.max(it.resumed + 1);
            self.servers.list[server].resumed = at;
            return self.world.agenda.push(at, Event::Arrive(arrival));
        }
        // A demoted primary still answers reads.
        let read_only = it.suffers(Fault::NotReady, self.world.now) && it.not_ready_error.starts_with("READONLY");
        if it.suffers(Fault::NotReady, self.world.now) && !read_only {
            return self.answer(&arrival, Err(Failure::Refused(it.not_ready_error.into())));
        }
        let mut words: Vec<&[u8]> = arrival.command.words().collect();
        if self.bugs.none_key_left_out && words.get(2) == Some(&&b"6"[..]) {
            words[2] = b"5";
            words.remove(8);
        }
        let migrating = it.suffers(Fault::Migration, self.world.now);
        if migrating && self.keys_are_parted(&words) {
            let text = "TRYAGAIN Multiple keys request during rehashing of slot";
            return self.answer(&arrival, Err(Failure::Refused(text.into())));
        }
        let Some(asked) = Asked::read(&words) else { return };
        let names: Vec<usize> = asked.iter().filter_map(|asked| self.servers.name(asked.key)).collect();
        names.iter().for_each(|name| self.observe_before(server, *name));
        let token = asked[0].script.token().filter(|_| self.mix.limits > 0);
        let waited = token.is_some_and(|token| {
            let (model, server_us) = (&self.servers.models[server], self.servers.time(server, self.world.now));
            self.watch.keys.waiting(model, server_us, arrival.name).contains(&token)
        });
        if asked.iter().any(|asked| asked.script.used_fence() > 0) && self.strikes(Fault::SlowerClock, arrival.client) {
            self.fail_over(server);
        }
        let server_us = self.servers.time(server, self.world.now);
        if let Some((first, rest)) = names.split_first()
            && let Some(other) =
                rest.iter().find(|name| self.watch.keys.counter(**name) != self.watch.keys.counter(*first))
        {
            self.watch.check(broken("cross-slot", format!("names {first} and {other} share {asked:?}")));
        }
        let key = names.first().map_or(COUNTER, |name| self.watch.keys.counter(*name)).to_owned();
        let counter = |models: &[ModelServer]| {
            models[server].get(server_us, &key).map(|fence| fence.parse::<u64>().unwrap_or_default())
        };
        let before = counter(self.servers.models);
        let renewable: Vec<bool> =
            asked.iter().zip(&names).map(|(it, name)| self.may_renew(server, *name, it)).collect();
        let executed = self.servers.execute(server, arrival.client, self.world.now, &words);
        self.counts.calls += 1;
        let after = counter(self.servers.models);
        if is_fast(&words) && before.is_none() && after.is_some() {
            self.watch.check(broken("counter-begun", format!("{asked:?} began a counter")));
        }
        if after < before {
            self.watch.check(broken("counter-lowered", format!("{asked:?} moved it from {before:?} to {after:?}")));
        }
        if self.world.transcript.is_written() {
            let reply = executed.reply.as_ref().map(show);
            let who = format!("s{server}");
            let scripts: Vec<_> = asked.iter().map(|asked| asked.script).collect();
            let line = format!("c{} #{} {scripts:?} -> {reply:?}", arrival.client, arrival.id.0);
            self.world.transcript.line(self.world.now, who, format_args!("{line}"));
        }
        let answers: Vec<Option<Answer>> = match &executed.reply {
            Ok(reply) => asked.iter().map(|asked| asked.answer(reply)).collect(),
            Err(_) => Vec::new(),
        };
        for ((asked, answer), renewable) in asked.iter().zip(&answers).zip(renewable) {
            if !renewable && answer.is_some_and(|it| it.status == Status::Renewed) {
                self.watch.check(broken("renewed-for-another", format!("{asked:?} was answered {answer:?}")));
            }
        }
        for ((asked, answer), name) in asked.iter().zip(&answers).zip(&names) {
            if let (Some(_), Some(counter), true) = (before, after, answer.is_some())
                && counter < asked.script.used_fence()
            {
                let detail = format!("{:?}, and the counter is at {counter} at {server_us}", asked.script);
                self.watch.check(broken("used-dropped", detail));
            }
            let ends = matches!(asked.script, ScriptCommand::Release { .. } | ScriptCommand::Convert { .. })
                && answer.is_some_and(|it| matches!(it.status, Status::Released | Status::Converted));
            if let Some(counter) = after.filter(|_| ends) {
                let verdict = self.watch.locks[*name].fences.ends(counter, server_us);
                self.watch.check(verdict);
            }
        }
        if is_fast(&words) {
            self.observe_batch(server, &asked, &names, &answers, &executed);
        } else {
            self.observe(server, arrival.name, &asked[0].script, &executed);
            self.observe_counted(server, arrival.name, &words, waited, &executed);
        }
        for (channel, payload) in executed.published {
            self.publish(&channel, &payload);
        }
        let reply = match executed.reply {
            Ok(_) if read_only && answers.iter().flatten().any(Answer::confirms) => {
                return self.watch.check(broken("confirmed-late", format!("{asked:?} by a server that was demoted")));
            }
            Ok(_) if migrating && self.world.rng.chance(20_000) => Err(STOPPED.into()),
            reply => reply,
        };
        let grants = |answer: &Option<Answer>| answer.as_ref().is_some_and(Answer::grants);
        let granted = reply.as_ref().ok().and_then(|_| answers.iter().position(grants));
        self.answer(&arrival, reply.map_err(Failure::Refused));
        if let Some(granted) = granted
            && self.strikes(Fault::Forced, arrival.client)
        {
            self.force(server, names[granted]);
        }
        self.check_server_now_and_then(server);
    }

    /// Whether the server has the token that a command renews, if it renews one.
    fn may_renew(&self, server: usize, name: usize, asked: &Asked<'_>) -> bool {
        let ScriptCommand::Renew { token, .. } = asked.script else { return true };
        let server_us = self.servers.time(server, self.world.now);
        self.watch.keys.tokens(&self.servers.models[server], server_us, name).contains(&token)
    }

    /// An operator takes a lock from its holders. The next waiter is granted, as by a release.
    fn force(&mut self, server: usize, name: usize) {
        let server_us = self.servers.time(server, self.world.now);
        let victims = self.watch.keys.victims(&self.servers.models[server], server_us, name);
        let Some(first) = victims.first() else { return };
        if self.servers.list[server].suffers(Fault::Migration, self.world.now) {
            return;
        }
        let script = match self.mix.kinds[name] {
            LockKind::Lock => leasehold_lua::FORCE,
            LockKind::Reentrant => leasehold_lua::reentrant::FORCE,
            LockKind::Semaphore => leasehold_lua::semaphore::FORCE,
            LockKind::Once => leasehold_lua::once::FORCE,
        };
        let mut keys = self.watch.keys.of_name(name).to_vec();
        // The key that never exists.
        keys.push(format!("{}none", keys[2].trim_end_matches("queue")));
        // The waiters of a reentrant lock never join the queue.
        let mixed = self.mix.mixed_fleet || self.mix.kinds[name] == LockKind::Reentrant;
        let fleet: &[u8] = if mixed { b"mixed" } else { b"native" };
        let mut words: Vec<&[u8]> = vec![b"EVAL", script.source.as_bytes(), b"6"];
        words.extend(keys.iter().map(String::as_bytes));
        words.extend([b"any".as_slice(), b"0", fleet]);
        self.observe_before(server, name);
        let executed = self.servers.execute(server, name, self.world.now, &words);
        self.lose(name, Part::Lock);
        // A lease that was granted at this very moment is taken as well, although its client doesn't know of it yet.
        self.watch.forced.extend(&victims);
        // At its memory limit, a server refuses the tombstone after the lock is already gone.
        if executed.reply.is_err() {
            return self.watch.locks[name].fences.data_lost();
        }
        self.watch.locks[name].fences.forced(&victims);
        for token in victims.iter().skip(1) {
            self.watch.locks[name].queue.leaves(*token);
            self.watch.locks[name].permits.released(*token);
        }
        // For the watchers, this is a release by another client.
        self.observe(
            server,
            name,
            &ScriptCommand::Release { token: *first, tombstone: true, used_fence: 0, stores: None },
            &executed,
        );
        for (channel, payload) in executed.published {
            self.publish(&channel, &payload);
        }
    }

    /// Whether some of a command's keys have moved and others have not.
    fn keys_are_parted(&mut self, words: &[&[u8]]) -> bool {
        let many = words.get(2).is_some_and(|keys| *keys != b"1");
        self.bugs.renewals_need_all_keys || (many && self.world.rng.chance(500_000))
    }

    /// Sends the end of a command back.
    fn answer(&mut self, arrival: &Arrival, result: Result<Reply, Failure>) {
        let mut at = self.world.now + arrival.back;
        for _ in 0..arrival.answers {
            let what = Delivery::Reply(arrival.id, result.clone());
            self.world.agenda.push(at, Event::Deliver { client: arrival.client, life: arrival.life, what });
            at += 1 + self.world.rng.below(arrival.back + 100_000);
        }
    }

    fn check_server_now_and_then(&mut self, server: usize) {
        let it = self.server(server);
        it.runs += 1;
        if it.runs.is_multiple_of(16) {
            self.check_server(server);
        }
    }

    /// Checks that a server has only the keys that it may have.
    pub(crate) fn check_server(&mut self, server: usize) {
        let time = self.servers.time(server, self.world.now);
        let model = &self.servers.models[server];
        let verdict = self.watch.keys.check(model, time, self.watch.longest);
        self.watch.check(verdict);
        for name in self.servers.at(server) {
            self.observe_terms(server, name, time);
            let model = &self.servers.models[server];
            for token in self.watch.keys.tokens(model, time, name) {
                let verdict = self.watch.locks[name].tokens.seen(self.world.now, token, "stands on the server");
                self.watch.check(verdict);
            }
        }
    }

    /// Takes everything from a server: FLUSHALL, or a restart without persistence.
    pub(crate) fn lose_data(&mut self, server: usize) {
        let server_us = self.servers.time(server, self.world.now);
        self.servers.models[server].flush_all();
        for name in self.servers.at(server) {
            self.watch.locks[name].tokens.data_lost(self.world.now);
            self.watch.locks[name].fences.data_lost();
            self.watch.locks[name].fences.counter_lost(server_us);
            [Part::Lock, Part::Fence, Part::Queue].into_iter().for_each(|part| self.lose(name, part));
        }
    }

    /// Evicts one key from a server, and returns which.
    pub(crate) fn evict(&mut self, server: usize) -> Option<Part> {
        let server_us = self.servers.time(server, self.world.now);
        let model = &self.servers.models[server];
        let losable = |name| self.watch.keys.losable(model, server_us, name).into_iter().map(move |it| (name, it));
        let all: Vec<_> = self.servers.at(server).flat_map(losable).collect();
        if all.is_empty() {
            return None;
        }
        let (name, (key, part)) = self.world.rng.pick(&all);
        let model = &mut self.servers.models[server];
        model.set_read_only(false);
        model.execute(server_us, &[b"DEL", key.as_bytes()]);
        self.note_line("all", format_args!("   {key}"));
        if *part == Part::Fence {
            // All names that draw from it.
            for name in self.servers.at(server).filter(|name| self.watch.keys.counter(*name) == key) {
                self.watch.locks[name].fences.counter_lost(server_us);
            }
        }
        if *part == Part::Lock {
            self.watch.locks[*name].fences.lock_lost(server_us);
        }
        self.lose(*name, *part);
        Some(*part)
    }

    /// The watchers forget what they know of a lost key.
    pub(crate) fn lose(&mut self, name: usize, part: Part) {
        let lock = &mut self.watch.locks[name];
        match part {
            // The next client does the work again.
            Part::Fence | Part::Result => {}
            Part::Queue => {
                // With the tokens that were given up: a late copy of an acquire may get the lock once more.
                lock.tokens.data_lost(self.world.now);
                lock.queue.data_lost();
            }
            Part::Permits => lock.permits.permits_lost(),
            // Their holders are notified early, but they still exclude others.
            Part::Readers => lock.readers_lost = true,
            _ => {
                lock.lost_at = Some(self.world.now);
                lock.permits.data_lost();
                self.watch.leases.held.iter_mut().filter(|held| held.name == name).for_each(|held| held.orphan = true);
                self.watch
                    .leases
                    .foreign
                    .iter_mut()
                    .filter(|held| held.name == name)
                    .for_each(|held| held.orphan = true);
                self.watch.holds.iter_mut().for_each(|holds| holds[name].orphan = true);
                let semaphores = self.watch.semaphores.iter_mut().flat_map(|semaphores| semaphores[name].all());
                semaphores.for_each(|hold| hold.orphan = true);
            }
        }
    }
}

/// The hash slot of a name, by Redis's hash tags.
fn slot(name: &str) -> usize {
    let tag = name.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let tag = tag.filter(|tag| !tag.is_empty()).unwrap_or(name);
    tag.bytes().map(usize::from).sum()
}

fn show(reply: &Reply) -> String {
    use leasehold_core::Scalar;
    let one = |scalar: &Scalar| match scalar {
        Scalar::Nil => "nil".to_string(),
        Scalar::Int(number) => number.to_string(),
        Scalar::Text(text) => String::from_utf8_lossy(text).into_owned(),
    };
    match reply {
        Reply::One(scalar) => one(scalar),
        Reply::List(list) => list.iter().map(one).collect::<Vec<_>>().join(" "),
    }
}
