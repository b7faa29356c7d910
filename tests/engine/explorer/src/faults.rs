//! What a fault does.

use std::sync::Arc;

use leasehold_core::Kind;

use crate::clock::{self, micros};
use crate::flight::Flight;
use crate::keys::{KEYS, NAME, of_script};
use crate::scenario::TTL;
use crate::step::Fault;
use crate::verdict::Verdict;
use crate::world::World;

impl World {
    /// A fault happens.
    pub(crate) fn strike(&mut self, fault: Fault) -> Verdict {
        match fault {
            Fault::Lose(number) => drop(self.take_flight(number)),
            Fault::Double(number) => {
                self.last_flight += 1;
                let copy = self.last_flight;
                if let Some(flight) = self.flights.iter_mut().find(|flight| flight.number == number) {
                    flight.copied = true;
                    let copy = Flight { number: copy, ..flight.clone() };
                    self.flights.push(copy);
                }
            }
            Fault::Delay(number) => {
                if let Some(flight) = self.flights.iter_mut().find(|flight| flight.number == number) {
                    flight.since = None;
                }
            }
            Fault::Crash(place) => {
                let client = self.client_mut(place);
                (client.engine, client.listens, client.hears) = (None, false, false);
                client.beliefs.clear();
                client.users.clear();
                self.drop_unheard();
            }
            Fault::Pause(place) => self.client_mut(place).paused = Some(self.now + micros(TTL) + 1_000),
            Fault::Wipe => {
                self.watch.counter_lost(clock::server(self.now), &self.server);
                self.watch.data_lost(self.now, &self.clients, &self.server, &self.flights);
                Arc::make_mut(&mut self.server).flush_all();
                self.watch.results.lost();
            }
            Fault::Evict(place) => {
                let key = KEYS.get(usize::from(place)).copied().unwrap_or(NAME);
                if key == NAME {
                    self.watch.data_lost(self.now, &self.clients, &self.server, &self.flights);
                }
                if key == KEYS[1] {
                    self.watch.counter_lost(clock::server(self.now), &self.server);
                }
                self.watch.readers_lost |= key == KEYS[4];
                drop(self.execute(&[b"DEL", key.as_bytes()])?);
            }
            Fault::Revoke => {
                self.watch.revoked(self.now, &self.clients, &self.server, &self.flights);
                let mut words: Vec<&[u8]> = vec![b"EVALSHA", force(self.scenario.kind).sha1.as_bytes(), b"6"];
                words.extend(of_script(self.scenario.kind).map(str::as_bytes));
                words.extend([&b"leases"[..], b"0", b"native"]);
                drop(self.execute(&words)?);
            }
        }
        Ok(())
    }
}

/// The script that takes a lock of this kind from its holders.
const fn force(kind: Kind) -> leasehold_lua::Script {
    match kind {
        Kind::Once { .. } => leasehold_lua::once::FORCE,
        Kind::Election => leasehold_lua::election::FORCE,
        _ => leasehold_lua::FORCE,
    }
}
