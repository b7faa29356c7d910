//! A number for each state. States with the same number are taken to be the same, and explored once.
//!
//! Equal states differ only in what nothing depends on: every time counts from now, clients and the users of a client have
//! no names of their own, and the order in memory is left out. The chance that two different ones of ten million states
//! have the same number is one in 400,000.

use std::hash::{Hash, Hasher};

use leasehold_core::Failure;

use crate::calls::BUDGET_TIME;
use crate::client::{Client, User, UserState};
use crate::clock::{CLIENT_ORIGIN, SERVER_ORIGIN, micros};
use crate::flight::What;
use crate::invariants::Orphan;
use crate::scenario::TTL;
use crate::world::World;

/// How far from a clock's origin a number is a time.
const NEAR: u64 = 100_000_000_000;
/// The bytes of a client's id, as a UUID.
const ID: usize = 36;
/// What all ids begin with, and where the number of the client is.
const ID_START: &[u8] = b"00000000-0000-000";

impl World {
    /// The number of this state.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut order: Vec<(u64, usize)> =
            (0..self.clients.len()).map(|place| (self.of_client(place), place)).collect();
        order.sort_unstable();
        let mut names = [0; 16];
        for (rank, (_, place)) in order.iter().enumerate() {
            names[*place & 15] = 1 + rank as u8;
        }
        let mut state = Relative::new(self.now, names);
        order.iter().for_each(|(hash, _)| state.mix(*hash));
        self.add_server(&mut state);
        let flights = self.flights.iter().map(|flight| {
            let mut state = Relative::new(self.now, names);
            state.mix(names[usize::from(flight.client) & 15].into());
            (flight.since.map(|since| self.now - since), flight.copied).hash(&mut state);
            match &flight.what {
                What::Command(id, command) => (0, id, command).hash(&mut state),
                What::Reply(id, _, reply) => (1, id, &**reply as &Result<_, Failure>).hash(&mut state),
                What::Message(channel, payload) => (2, channel, payload).hash(&mut state),
                What::Subscribe(channel) => (3, channel).hash(&mut state),
                What::Subscribed(channel) => (4, channel).hash(&mut state),
            }
            state.finish()
        });
        // In any order.
        state.mix(flights.fold(0, u64::wrapping_add));
        let orphan = |orphan: &Orphan| {
            // After this, how long ago it was makes no difference.
            let age = orphan.believed_at.map(|at| (self.now - at).min(micros(TTL)));
            hash_of(&(&orphan.token, age, orphan.may_come_back), self.now, names)
        };
        let mut orphans: Vec<u64> = self.watch.orphans.iter().map(orphan).collect();
        orphans.sort_unstable();
        (orphans, self.watch.used, self.watch.used_by_writers, self.watch.redrawn, self.watch.readers_lost)
            .hash(&mut state);
        (&self.watch.results, &self.watch.terms).hash(&mut state);
        self.watch.passing.fingerprint(self.now).hash(&mut state);
        let is_unheard = self.scenario.lingers && self.watch.unheard;
        (self.faults_left, self.struck, self.is_harmed, self.ran, self.watch.refused, is_unheard).hash(&mut state);
        state.finish()
    }

    fn of_client(&self, place: usize) -> u64 {
        let client: &Client = &self.clients[place];
        let mut names = [2; 16];
        names[place & 15] = 1;
        let mut state = Relative::new(self.now, names);
        client.engine.hash(&mut state);
        let drains = client.drains.map(|ends| ends.saturating_sub(self.now));
        let asked = client.asked_at.map(|at| (self.now - at).min(micros(TTL)));
        (client.hears, client.told, asked, drains).hash(&mut state);
        (client.listens, client.paused.map(|until| until.saturating_sub(self.now))).hash(&mut state);
        // In any order: an engine does not know which user makes a call.
        let mut users: Vec<u64> = client.users.iter().map(|user| self.of_user(user, names)).collect();
        users.sort_unstable();
        users.hash(&mut state);
        for belief in &client.beliefs {
            (belief.lease, belief.mode, belief.fence, belief.converts, &belief.token).hash(&mut state);
            state.mix(belief.until.wrapping_sub(self.now));
            if self.scenario.max_hold.is_some() {
                state.mix(belief.granted.wrapping_sub(self.now));
            }
        }
        let wanted_for = client.wanted_at.map(|at| (self.now - at).min(BUDGET_TIME));
        (&client.lost, &client.revoked, wanted_for).hash(&mut state);
        state.finish()
    }

    fn of_user(&self, user: &User, names: [u8; 16]) -> u64 {
        let mut state = Relative::new(self.now, names);
        (user.rest, user.gone).hash(&mut state);
        match user.state {
            UserState::Holding(lease, until) => (lease, until.saturating_sub(self.now)).hash(&mut state),
            ref other => other.hash(&mut state),
        }
        state.finish()
    }

    fn add_server(&self, state: &mut Relative) {
        let time = SERVER_ORIGIN + self.now;
        // Scripts count in milliseconds.
        state.mix(time % 1_000);
        for key in self.server.keys(time) {
            (key, self.server.expires(time, key), self.server.text(time, key)).hash(state);
            let (now, names) = (self.now, state.names);
            let members = self.server.members(time, key).map(|(member, score)| {
                let mut one = Relative::new(now, names);
                member.hash(&mut one);
                // µs in the queue. Else ms, which are negative for a token that was given up.
                let micros = if score > 1e14 { score } else { score.abs() * 1_000.0 };
                (score < 0.0, micros as u64).hash(&mut one);
                one.finish()
            });
            state.mix(members.fold(0, u64::wrapping_add));
            let fields = self.server.fields(time, key).map(|field| hash_of(&field, now, names));
            state.mix(fields.fold(0, u64::wrapping_add));
        }
    }
}

fn hash_of(value: &impl Hash, now: u64, names: [u8; 16]) -> u64 {
    let mut state = Relative::new(now, names);
    value.hash(&mut state);
    state.finish()
}

/// A hasher that sees times as the time from now, and clients by the names that it is given.
struct Relative {
    now: u64,
    names: [u8; 16],
    hash: u64,
}

impl Relative {
    const fn new(now: u64, names: [u8; 16]) -> Self {
        Self { now, names, hash: 0x9e37_79b9_7f4a_7c15 }
    }

    const fn mix(&mut self, word: u64) {
        let product = (self.hash ^ word) as u128 * 0xa076_1d64_78bd_642f_u128;
        self.hash =
            (product as u64 ^ (product >> 64) as u64).wrapping_add(word.rotate_left(32)) ^ 0xe703_7ed1_a0b4_28db;
    }

    /// A number in a text.
    fn number(&mut self, digits: &[u8]) {
        let number =
            digits.iter().fold(0_u64, |number, digit| number.wrapping_mul(10).wrapping_add((digit - b'0').into()));
        // 13 digits are milliseconds.
        self.write_u64(if digits.len() == 13 { number.wrapping_mul(1_000) } else { number });
    }
}

impl Hasher for Relative {
    fn finish(&self) -> u64 {
        let mut last = Self { ..*self };
        last.mix(0x8ebc_6af0_9c88_c6e3);
        last.hash
    }

    fn write_u64(&mut self, number: u64) {
        for (clock, origin) in [(1_u64 << 60, CLIENT_ORIGIN), (2 << 60, SERVER_ORIGIN)] {
            // A lease that has just ended, or that lasts for longer than anything here.
            if number.wrapping_sub(origin - NEAR) < 2 * NEAR {
                return self.mix(clock ^ number.wrapping_sub(origin + self.now) & ((1 << 60) - 1));
            }
        }
        self.mix(number);
    }

    fn write(&mut self, bytes: &[u8]) {
        self.mix(bytes.len() as u64);
        let mut rest = bytes;
        while let Some(byte) = rest.first() {
            if rest.len() >= ID && rest.starts_with(ID_START) {
                let place = usize::from(rest[ID_START.len()] - b'0') & 15;
                self.mix(0x100 + u64::from(self.names[place]));
                rest = &rest[ID..];
                continue;
            }
            if byte.is_ascii_digit() {
                let length = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
                let (digits, after) = rest.split_at(length);
                self.number(digits);
                rest = after;
                continue;
            }
            let word = rest.len().min(8);
            let plain = rest[..word].iter().position(u8::is_ascii_digit).unwrap_or(word);
            self.mix(rest[..plain].iter().fold(1, |word, byte| word << 8 | u64::from(*byte)));
            rest = &rest[plain..];
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.mix(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(number.into());
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(value: impl Hash, now: u64, names: [u8; 16]) -> u64 {
        hash_of(&value, now, names)
    }

    #[test]
    fn times_count_from_now() {
        let at = |now: u64| {
            (CLIENT_ORIGIN + now + 5, format!("x {}", SERVER_ORIGIN + now + 7), (SERVER_ORIGIN + now) / 1_000)
        };
        let text = |now: u64| format!("{}", (SERVER_ORIGIN + now + 3_000) / 1_000);
        let names = [0; 16];
        assert_eq!(hash((at(0).0, at(0).1), 0, names), hash((at(9_000).0, at(9_000).1), 9_000, names));
        assert_eq!(hash(text(0), 0, names), hash(text(4_000), 4_000, names));
        assert_ne!(hash(at(0).0, 0, names), hash(at(0).0, 1, names));
        assert_ne!(hash(7_u64, 0, names), hash(8_u64, 0, names));
    }

    #[test]
    fn clients_that_change_places_are_the_same() {
        let id = |place: u8| format!("00000000-0000-000{place}-0000-00000000000{}", place ^ 5);
        let (one, other) = ([1, 2].map(|name| {
            let mut names = [0; 16];
            names[0] = name;
            names[1] = 3 - name;
            names
        }))
        .into();
        assert_eq!(hash(id(0) + ":1", 0, one), hash(id(1) + ":1", 0, other));
        assert_ne!(hash(id(0) + ":1", 0, one), hash(id(1) + ":1", 0, one));
        assert_ne!(hash(id(0) + ":1", 0, one), hash(id(0) + ":2", 0, one));
    }
}
