//! Clients of other libraries: `SET key token NX PX ttl` with a compare-and-delete, Redisson's reentrant lock with or
//! without its message on the channel, and clients that put something else under the lock's name.

use leasehold_harness::{Micros, Rng};

use crate::faults::Fault;
use crate::invariants::broken;
use crate::invariants::leases::ForeignHeld;
use crate::kinds::LockKind;
use crate::mix::Mix;
use crate::world::{ClusterRun, Event, Phase};

/// The scripts with which each client takes the name if nothing is there. Their arguments are its text, TTL and count.
const TAKE_HASH: &[u8] = b"if redis.call('exists', KEYS[1]) == 1 then return 0 end \
    redis.call('hset', KEYS[1], ARGV[1], ARGV[3]) redis.call('pexpire', KEYS[1], ARGV[2]) return 1";
const TAKE_SORTED: &[u8] = b"if redis.call('exists', KEYS[1]) == 1 then return 0 end \
    redis.call('zadd', KEYS[1], ARGV[3], ARGV[1]) redis.call('pexpire', KEYS[1], ARGV[2]) return 1";
const GIVE_BACK: &[u8] =
    b"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
const GIVE_BACK_HASH: &[u8] = b"if redis.call('type', KEYS[1]).ok ~= 'hash' \
    or not redis.call('hget', KEYS[1], ARGV[1]) then return 0 end redis.call('del', KEYS[1]) \
    if ARGV[2] ~= '' then redis.call('publish', ARGV[2], '0') end return 1";
const GIVE_BACK_SORTED: &[u8] = b"if redis.call('type', KEYS[1]).ok ~= 'zset' \
    or not redis.call('zscore', KEYS[1], ARGV[1]) then return 0 end return redis.call('del', KEYS[1])";

/// One foreign client. Its clock is true time, so it is as careful as it can be.
#[derive(Clone, Debug)]
pub(crate) struct Foreigner {
    token: String,
    /// The type of its key.
    form: Form,
    /// The lock that it wants.
    pub(crate) name: usize,
    /// Whether it puts something under the name that is not such a lock.
    squats: bool,
    /// Whether it publishes its releases.
    tells: bool,
    uses: u64,
    count: u64,
    ttl_ms: Option<u64>,
    asked_at: Micros,
    holds: bool,
    finished: bool,
    /// Whether it listens on the channel of the reentrant lock that it waits for.
    pub(crate) listens: bool,
}

/// The type of a foreign client's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Hash,
    Sorted,
}

/// What a foreign client does next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ForeignStep {
    /// It asks for the lock.
    Ask,
    /// Its request reaches the server.
    Take,
    /// It learns whether it has the lock.
    Learn(bool),
    /// It releases the lock.
    GiveBack,
    /// The release reaches the server.
    Delete,
}

impl Foreigner {
    /// Draws a foreign client from the seed.
    pub(crate) fn new(rng: &mut Rng, number: usize, mix: &Mix) -> Self {
        let kinds = mix.kinds.iter().any(|kind| *kind != LockKind::Lock);
        let name = if kinds { rng.below(mix.names as u64) as usize } else { 0 };
        let (own, others): (_, &[Form]) = match mix.kinds[name] {
            LockKind::Lock => (Some(Form::Text), &[Form::Hash, Form::Sorted]),
            LockKind::Reentrant => (Some(Form::Hash), &[Form::Text, Form::Hash, Form::Sorted]),
            LockKind::Semaphore | LockKind::Once => (None, &[Form::Text, Form::Hash, Form::Sorted]),
        };
        let own = own.filter(|_| !kinds || rng.chance(700_000));
        let form = own.unwrap_or_else(|| *rng.pick(others));
        // Redisson's owners look like ours: a client's id and a number.
        let redisson = own == Some(Form::Hash);
        let token = if redisson {
            format!("ffff{number:04x}-0000-4000-8000-{:012x}:7", rng.below(1 << 40))
        } else {
            format!("foreign-{number}-{:x}", rng.draw())
        };
        let (tells, squats) = (redisson && rng.chance(700_000), own.is_none());
        let (uses, count, asked_at) = (0, 1, 0);
        let (holds, finished, listens, ttl_ms) = (false, false, false, None);
        Self { token, form, name, squats, tells, uses, count, ttl_ms, asked_at, holds, finished, listens }
    }

    /// Whether it has finished.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// The text under the name while it holds.
    fn text(&self) -> String {
        if self.form == Form::Hash && !self.squats {
            self.token.clone()
        } else {
            // Some look like a holder of ours and its fence.
            let between = if self.uses.is_multiple_of(2) { '-' } else { ' ' };
            format!("{}{between}{}", self.token, self.uses)
        }
    }
}

impl ClusterRun<'_> {
    pub(crate) fn foreign(&mut self, foreigner: usize, step: ForeignStep) {
        let trip = self.world.rng.range(self.mix.trip);
        match step {
            ForeignStep::Ask => {
                let over = self.phase != Phase::Busy;
                let it = &mut self.foreigners[foreigner];
                // Some have no TTL. Such a lock ends only when its holder releases it.
                let endless = it.form == Form::Text && !it.squats && self.world.rng.chance(150_000);
                it.ttl_ms = (!endless).then(|| self.world.rng.range(self.mix.ttl_ms).max(50));
                (it.finished, it.asked_at) = (over, self.world.now);
                it.listens &= !over;
                it.count = 1 + self.world.rng.below(2);
                it.uses += 1;
                self.count_listeners();
                if !over {
                    self.foreign_later(foreigner, trip, ForeignStep::Take);
                }
            }
            ForeignStep::Take => {
                let took = self.foreign_take(foreigner);
                self.foreign_later(foreigner, trip, ForeignStep::Learn(took));
            }
            ForeignStep::Learn(took) => {
                let it = &mut self.foreigners[foreigner];
                it.listens = !took && it.tells;
                self.count_listeners();
                if took {
                    self.foreign_holds(foreigner);
                }
                let wait = if took { (1_000, 50_000 + self.mix.hold.1) } else { (5_000, 150_000) };
                let wait = self.world.rng.range(wait);
                self.foreign_later(foreigner, wait, if took { ForeignStep::GiveBack } else { ForeignStep::Ask });
            }
            ForeignStep::GiveBack => {
                self.check_foreign(foreigner);
                self.watch.leases.foreign.retain(|held| held.foreigner != foreigner);
                self.foreign_later(foreigner, trip, ForeignStep::Delete);
            }
            ForeignStep::Delete => {
                let done = self.foreign_delete(foreigner);
                let wait = self.world.rng.range((5_000, 400_000));
                self.foreign_later(foreigner, wait, if done { ForeignStep::Ask } else { ForeignStep::Delete });
            }
        }
    }

    fn foreign_later(&mut self, foreigner: usize, after: Micros, step: ForeignStep) {
        self.world.after(after, Event::Foreign { foreigner, step });
    }

    fn foreign_works(&self, foreigner: usize) -> bool {
        let it = &self.servers.list[self.servers.home(self.foreigners[foreigner].name)];
        ![Fault::ServerCrash, Fault::Stall, Fault::NotReady, Fault::OutOfMemory]
            .iter()
            .any(|fault| it.suffers(*fault, self.world.now))
    }

    fn foreign_take(&mut self, foreigner: usize) -> bool {
        if !self.foreign_works(foreigner) {
            return false;
        }
        let it = self.foreigners[foreigner].clone();
        let (server, name) = (self.servers.home(it.name), self.servers.names[it.name].clone());
        let (text, count, ttl) = (it.text(), it.count.to_string(), it.ttl_ms.map(|ttl| ttl.to_string()));
        let mut words: Vec<&[u8]> = match it.form {
            Form::Text => vec![b"SET", name.as_bytes(), text.as_bytes(), b"NX"],
            Form::Hash => vec![b"EVAL", TAKE_HASH, b"1", name.as_bytes(), text.as_bytes()],
            Form::Sorted => vec![b"EVAL", TAKE_SORTED, b"1", name.as_bytes(), text.as_bytes()],
        };
        match (&ttl, it.form) {
            (Some(ttl), Form::Text) => words.extend([&b"PX"[..], ttl.as_bytes()]),
            (Some(ttl), _) => words.extend([ttl.as_bytes(), count.as_bytes()]),
            (None, _) => {}
        }
        let executed = self.servers.execute(server, 0, self.world.now, &words);
        use leasehold_core::{Reply, Scalar};
        let took = matches!(executed.reply, Ok(Reply::One(Scalar::Text(_) | Scalar::Int(1))));
        if took {
            self.note_line("f", format_args!("{it:?} takes {name} for {ttl:?}"));
            self.note(Fault::Foreign, None);
            let longest = &mut self.watch.longest;
            longest.ttl_ms = longest.ttl_ms.max(it.ttl_ms.unwrap_or(0));
            self.calm_since = self.calm_since.max(self.world.now);
            self.watch.locks[it.name].squatted |= it.squats;
        }
        took
    }

    fn foreign_holds(&mut self, foreigner: usize) {
        let it = &mut self.foreigners[foreigner];
        it.holds = true;
        let until = it.ttl_ms.map_or(Micros::MAX, |ttl| it.asked_at + ttl * 990 - 2_000);
        let orphan = self.watch.locks[it.name].lost_at.is_some_and(|lost| lost > it.asked_at);
        if until > self.world.now {
            let held = ForeignHeld { foreigner, name: it.name, until, orphan };
            let verdict = self.watch.leases.grant_foreign(self.world.now, held);
            self.watch.check(verdict);
        }
    }

    fn foreign_delete(&mut self, foreigner: usize) -> bool {
        if !self.foreign_works(foreigner) {
            return false;
        }
        let it = self.foreigners[foreigner].clone();
        let (server, name) = (self.servers.home(it.name), self.servers.names[it.name].clone());
        let channel = if it.tells { crate::channels::channel_of(&name) } else { String::new() };
        let script = match it.form {
            Form::Text => GIVE_BACK,
            Form::Hash => GIVE_BACK_HASH,
            Form::Sorted => GIVE_BACK_SORTED,
        };
        let text = it.text();
        let words: [&[u8]; 6] = [b"EVAL", script, b"1", name.as_bytes(), text.as_bytes(), channel.as_bytes()];
        let executed = self.servers.execute(server, 0, self.world.now, &words);
        self.note_line("f", format_args!("{text} gives {name} back: {:?}", executed.reply));
        for (channel, payload) in executed.published {
            self.publish(&channel, &payload);
        }
        self.calm_since = self.calm_since.max(self.world.now);
        true
    }

    /// Whether exactly what a foreign client wrote is there now.
    fn stands(&self, it: &Foreigner) -> bool {
        let server = self.servers.home(it.name);
        let (model, name) = (&self.servers.models[server], &self.servers.names[it.name]);
        let server_us = self.servers.time(server, self.world.now);
        match it.form {
            Form::Text => model.get(server_us, name) == Some(it.text()),
            Form::Hash => model.hash(server_us, name) == [(it.text(), it.count.to_string())],
            Form::Sorted => model.zset(server_us, name) == [(it.text(), it.count as f64)],
        }
    }

    /// While its lease is valid, no other client touches its key.
    fn check_foreign(&mut self, foreigner: usize) {
        let valid = |held: &&ForeignHeld| held.foreigner == foreigner && held.until > self.world.now && !held.orphan;
        let it = &self.foreigners[foreigner];
        if self.watch.leases.foreign.iter().any(|held| valid(&held)) && !self.stands(it) {
            let detail = format!("{it:?} finds something else under its name");
            self.watch.check(broken("foreign-touched", detail));
        }
    }

    /// Whether something is under a lock's name that is not such a lock.
    pub(crate) fn is_squatted(&self, name: usize) -> bool {
        self.foreigners.iter().any(|it| it.squats && it.name == name && self.stands(it))
    }
}
