//! What users do.

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, CLOSE_SETTINGS, Input, Instant, Kind, LeaseId, LeaseToken, Mode, OpId, Owner, Part, Replicas,
    Setter, Wait,
};

use super::{About, World, number};
use crate::names::known;
use crate::script::Words;

/// Longer TTLs only make the end of a run longer.
const MOST_TTL_MS: u64 = 60_000;
/// The longest time of a drain.
const MOST_DRAIN_MS: u64 = CLOSE_SETTINGS[0].bounds.most;

impl World {
    pub(super) fn acquire(&mut self, mut words: Words<'_>) {
        let Some(name) = words.next().and_then(known) else { return };
        let mut options = options(words);
        // A name has one kind: a server refuses another one.
        match name {
            "r" => options.kind = Kind::Reentrant(Owner(u64::from(options.renew))),
            "s" if options.kind == Kind::Lock => options.kind = Kind::Semaphore { permits: 1, limit: 3 },
            "s" => {}
            _ => options.kind = Kind::Lock,
        }
        let about = About::Names(vec![name]);
        self.ask_for(&about, &options);
        let op = self.new_op(about);
        self.input(Input::Acquire { op, name, options: &options });
    }

    /// `adopt NAME TOKEN OPTIONS`
    pub(super) fn adopt(&mut self, mut words: Words<'_>) {
        let (name, token) = (words.next().and_then(known), words.next().and_then(|text| LeaseToken::read(text).ok()));
        let (Some(name), Some(token)) = (name, token) else { return };
        let (about, options) = (About::Names(vec![name]), options(words));
        self.ask_for(&about, &options);
        let op = self.new_op(about);
        self.input(Input::Adopt { op, name, token, options: &options });
    }

    pub(super) fn acquire_all(&mut self, words: Words<'_>) {
        let all: Vec<&str> = words.collect();
        // A reentrant lock stays one.
        let is_part = |word: &str| known(word).is_some_and(|name| name != "r");
        let (names, rest): (Vec<&str>, Vec<&str>) = all.iter().partition(|word| is_part(word));
        let rest = rest.join(" ");
        let options = AcquireOptions { kind: Kind::Lock, ..options(rest.split_ascii_whitespace()) };
        let about = About::Names(names.iter().filter_map(|name| known(name)).collect());
        self.ask_for(&about, &options);
        let op = self.new_op(about);
        let one_script = rest.contains("one-script");
        let mut parts = Part::mutexes(&names);
        for part in parts.iter_mut().filter(|part| part.name == "s") {
            part.kind = Kind::Semaphore { permits: 1, limit: 3 };
        }
        self.input(Input::AcquireAll { op, parts: &parts, options: &options, one_script });
    }

    fn ask_for(&mut self, about: &About, options: &AcquireOptions) {
        let About::Names(names) = about else { return };
        let ttl = u64::try_from(options.ttl.as_millis()).unwrap_or(u64::MAX);
        names.iter().for_each(|name| self.backing.asked(name, ttl));
    }

    /// `release N`: the lease that was granted as the Nth, and without a number the first one that is held.
    pub(super) fn about_a_lease(&mut self, verb: &str, mut words: Words<'_>) {
        let place = number(&mut words);
        let chosen = place.and_then(|place| self.granted.get(usize::try_from(place).ok()?).copied());
        let id = chosen.or_else(|| self.leases.keys().next().copied()).unwrap_or_default();
        let lease = LeaseId(id);
        let asked = number(&mut words).unwrap_or(1_000);
        let ms = asked.min(MOST_TTL_MS);
        // Nobody may have the longest time.
        let time = Duration::from_millis(if asked == u64::MAX { asked } else { ms });
        if verb == "release" {
            return self.release(id);
        }
        if verb == "keep" {
            return self.input(Input::Keep { lease, until: Instant::from_micros(self.now) + time });
        }
        if verb == "stop-renewing" {
            return self.input(Input::StopRenewing { lease });
        }
        if let Some(held) = self.leases.get(&id) {
            held.names.iter().for_each(|name| self.backing.asked(name, ms));
        }
        let op = self.new_op(About::Lease(id));
        let mode = if ms.is_multiple_of(2) { Mode::Shared } else { Mode::Exclusive };
        self.input(match verb {
            "extend" => Input::Extend { op, lease, ttl: time },
            "shorten" => Input::Shorten { op, lease, ttl: time },
            "detach" => Input::Detach { op, lease, time: (ms > 0).then_some(time) },
            "convert" => Input::Convert { op, lease, mode },
            "hold" => Input::Hold { op, lease },
            "export" => Input::Export { op, lease },
            _ => Input::Verify { op, lease },
        });
        if verb == "detach" && self.engine.lease(lease).is_none() {
            self.leases.remove(&id);
        }
    }

    /// After the last hold's release the lease has ended for its holder, with any answer of the server.
    pub(super) fn release(&mut self, id: u64) {
        let valid = self.engine.valid_until(LeaseId(id)).is_some_and(|at| at.as_micros() > self.now);
        // A lease whose time is over is lost first.
        if let Some(held) = self.leases.get_mut(&id).filter(|_| valid) {
            held.holds -= 1;
            if held.holds == 0 {
                self.leases.remove(&id);
            }
        }
        let op = self.new_op(About::Lease(id));
        self.input(Input::Release { op, lease: LeaseId(id) });
    }

    pub(super) fn about_a_name(&mut self, mut words: Words<'_>, input: fn(OpId, &str) -> Input<'_>) {
        let Some(name) = words.next() else { return };
        let op = self.new_op(About::Client);
        let input = input(op, name);
        if let (Input::Inspect { .. }, Some(labels)) = (&input, &mut self.labels) {
            labels.inspects(op, name);
        }
        self.input(input);
    }

    /// Nobody gets anything more, and the holders have this many milliseconds.
    pub(super) fn drain(&mut self, ms: u64) {
        // Losses that are due at this very moment come first.
        self.input(Input::Wake);
        let op = self.new_op(About::Client);
        self.drains |= ms <= MOST_DRAIN_MS;
        self.input(Input::Drain { op, grace: Duration::from_millis(ms) });
    }

    pub(super) fn close(&mut self) {
        let op = self.new_op(About::Client);
        self.leases.clear();
        self.closed = true;
        if let Some(labels) = &mut self.labels {
            labels.close();
        }
        self.input(Input::Close { op });
    }

    fn new_op(&mut self, about: About) -> OpId {
        self.last_op += 1;
        self.ops.insert(self.last_op, about);
        OpId(self.last_op)
    }
}

/// The options of an acquire: `shared`, `fixed`, `try`, `forever`, `replicas`, `ttl=MS`, `wait=MS`, `within=MS`, `permits=N`, and the
/// plain ones of the engine's table, such as `max-hold=MS`.
fn options(words: Words<'_>) -> AcquireOptions {
    let mut options = AcquireOptions::default();
    for word in words {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        let value = value.parse::<u64>().unwrap_or_default();
        let time = Duration::from_millis(value.min(MOST_TTL_MS));
        match word {
            "shared" => options.mode = Mode::Shared,
            "fixed" => options.renew = false,
            "try" => options.wait = Wait::No,
            "forever" => options.wait = Wait::Forever,
            "replicas" => options.replicas = Some(Replicas { min: 1, timeout: Duration::from_millis(500) }),
            "ttl" => options.ttl = time,
            "wait" => options.wait = Wait::For(time),
            "within" => options.within = Some(time),
            "permits" => {
                options.kind = Kind::Semaphore { permits: u32::try_from(value).unwrap_or(u32::MAX), limit: 3 };
            }
            word => set(&mut options, word, time),
        }
    }
    options
}

/// Sets a plain option of the engine's table. A count has the number of a time's milliseconds.
fn set(options: &mut AcquireOptions, word: &str, time: Duration) {
    let mut rows = AcquireOptions::PLAIN.iter();
    options.set_plain(&mut |setter| {
        match setter {
            _ if rows.next()?.name.replace('_', "-") != word => {}
            Setter::Time(to) => *to = time,
            Setter::OptionalTime(to) => *to = Some(time),
            Setter::Count(to) => *to = Some(u32::try_from(time.as_millis()).unwrap_or(u32::MAX)),
            Setter::Flag(to) => *to = true,
        }
        Some(())
    });
}
