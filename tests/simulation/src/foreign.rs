//! Clients of other libraries: `SET key token NX PX ttl`, and a compare-and-delete to give it back.

use crate::clock::Micros;
use crate::faults::Fault;
use crate::invariants::leases::ForeignHeld;
use crate::rng::Rng;
use crate::world::{Event, Phase, World};

const GIVE_BACK: &[u8] =
    b"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// One foreign client. Its clock is true time; it is as careful as it can be.
#[derive(Clone, Debug)]
pub struct Foreigner {
    token: String,
    uses: u64,
    ttl_ms: Option<u64>,
    asked_at: Micros,
    holds: bool,
    finished: bool,
}

/// What a foreign client does next.
#[derive(Clone, Copy, Debug)]
pub enum ForeignStep {
    /// It tries to take the lock.
    Ask,
    /// Its try reaches the server.
    Take,
    /// It learns whether it has the lock.
    Learn(bool),
    /// It gives the lock back.
    GiveBack,
    /// That reaches the server.
    Delete,
}

impl Foreigner {
    /// A new one.
    pub fn new(rng: &mut Rng, number: usize) -> Self {
        let token = format!("foreign-{number}-{:x}", rng.draw());
        Self { token, uses: 0, ttl_ms: None, asked_at: 0, holds: false, finished: false }
    }

    /// Whether it has gone.
    pub fn is_finished(&self) -> bool {
        self.finished
    }
}

impl World<'_> {
    pub(crate) fn foreign(&mut self, foreigner: usize, step: ForeignStep) {
        let trip = self.rng.range(self.mix.trip);
        match step {
            ForeignStep::Ask => {
                let over = self.phase != Phase::Busy;
                // Without a TTL now and then: such a lock ends only when its holder says so.
                let ttl_ms = (!self.rng.chance(150_000)).then(|| self.rng.range(self.mix.ttl_ms).max(50));
                let it = &mut self.foreigners[foreigner];
                (it.finished, it.ttl_ms, it.asked_at) = (over, ttl_ms, self.now);
                it.uses += 1;
                if !over {
                    self.foreign_later(foreigner, trip, ForeignStep::Take);
                }
            }
            ForeignStep::Take => {
                let took = self.foreign_take(foreigner);
                self.foreign_later(foreigner, trip, ForeignStep::Learn(took));
            }
            ForeignStep::Learn(false) => {
                let wait = self.rng.range((5_000, 150_000));
                self.foreign_later(foreigner, wait, ForeignStep::Ask);
            }
            ForeignStep::Learn(true) => {
                self.foreign_holds(foreigner);
                let hold = self.rng.range((1_000, 50_000 + self.mix.hold.1));
                self.foreign_later(foreigner, hold, ForeignStep::GiveBack);
            }
            ForeignStep::GiveBack => {
                self.watch.leases.foreign.retain(|held| held.foreigner != foreigner);
                self.foreign_later(foreigner, trip, ForeignStep::Delete);
            }
            ForeignStep::Delete => {
                let done = self.foreign_delete(foreigner);
                let wait = self.rng.range((5_000, 400_000));
                self.foreign_later(foreigner, wait, if done { ForeignStep::Ask } else { ForeignStep::Delete });
            }
        }
    }

    fn foreign_later(&mut self, foreigner: usize, after: Micros, step: ForeignStep) {
        self.agenda.push(self.now + after, Event::Foreign { foreigner, step });
    }

    fn foreign_works(&self) -> bool {
        let it = &self.servers.list[self.servers.home(0)];
        ![Fault::ServerCrash, Fault::Stall, Fault::NotReady, Fault::OutOfMemory]
            .iter()
            .any(|fault| it.suffers(*fault, self.now))
    }

    fn foreign_take(&mut self, foreigner: usize) -> bool {
        if !self.foreign_works() {
            return false;
        }
        let (server, name) = (self.servers.home(0), self.servers.names[0].clone());
        let it = &self.foreigners[foreigner];
        let (token, ttl) = (format!("{}-{}", it.token, it.uses), it.ttl_ms.map(|ttl| ttl.to_string()));
        let mut words: Vec<&[u8]> = vec![b"SET", name.as_bytes(), token.as_bytes(), b"NX"];
        if let Some(ttl) = &ttl {
            words.extend([&b"PX"[..], ttl.as_bytes()]);
        }
        let executed = self.servers.execute(server, self.now, &words);
        let took = matches!(executed.reply, Ok(leasehold_core::Reply::One(leasehold_core::Scalar::Text(_))));
        if took {
            self.note_line("f", format_args!("{token} takes the lock for {ttl:?}"));
            self.note(Fault::Foreign, None);
            let longest = &mut self.watch.longest;
            longest.ttl_ms = longest.ttl_ms.max(self.foreigners[foreigner].ttl_ms.unwrap_or(0));
            self.calm_since = self.calm_since.max(self.now);
        }
        took
    }

    fn foreign_holds(&mut self, foreigner: usize) {
        let it = &mut self.foreigners[foreigner];
        it.holds = true;
        let until = it.ttl_ms.map_or(Micros::MAX, |ttl| it.asked_at + ttl * 990 - 2_000);
        let orphan = self.watch.locks[0].lost_at.is_some_and(|lost| lost > it.asked_at);
        if until > self.now {
            let held = ForeignHeld { foreigner, name: 0, until, orphan };
            let verdict = self.watch.leases.grant_foreign(self.now, held);
            self.watch.check(verdict);
        }
    }

    fn foreign_delete(&mut self, foreigner: usize) -> bool {
        if !self.foreign_works() {
            return false;
        }
        let (server, name) = (self.servers.home(0), self.servers.names[0].clone());
        let it = &self.foreigners[foreigner];
        let token = format!("{}-{}", it.token, it.uses);
        let _ = self.servers.execute(server, self.now, &[b"EVAL", GIVE_BACK, b"1", name.as_bytes(), token.as_bytes()]);
        self.note_line("f", format_args!("{token} gives the lock back"));
        self.calm_since = self.calm_since.max(self.now);
        true
    }
}
