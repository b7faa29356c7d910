//! A client's timer, which may fire early, late or twice, and a process that resumes after a sleep.

use leasehold_core::Input;

use crate::faults::Fault;
use crate::wire::Life;
use crate::world::{ClusterRun, Event};

/// The number of an early or repeated wake-up.
const EXTRA: u32 = u32::MAX;

impl ClusterRun<'_> {
    /// Sets the timer to the time that the engine wants now.
    pub(crate) fn set_wake(&mut self, place: usize) {
        let client = &mut self.clients[place];
        let Some(engine) = &client.engine else { return };
        let next = engine.poll_timeout().map(|(at, _)| at);
        if client.wake.0 == next {
            return;
        }
        client.wake = (next, (client.wake.1 + 1) % EXTRA);
        let (life, number) = (client.life, client.wake.1);
        let Some(next) = next else { return };
        let due = client.clock.when(next.as_micros()).max(self.world.now);
        let mut at = due + self.world.rng.below(200);
        if self.wake_strikes(Fault::WakeLate, place) {
            at += self.world.rng.spread((1_000, 3_000_000));
            self.trouble(place, at);
        }
        if self.wake_strikes(Fault::WakeEarly, place) {
            let early = self.world.now + self.world.rng.below(due - self.world.now + 1);
            self.world.agenda.push(early, Event::Wake { client: place, life, number: EXTRA });
        }
        if self.wake_strikes(Fault::WakeTwice, place) {
            self.world
                .agenda
                .push(at + self.world.rng.below(1_000), Event::Wake { client: place, life, number: EXTRA });
        }
        self.world.agenda.push(at, Event::Wake { client: place, life, number });
    }

    fn wake_strikes(&mut self, fault: Fault, place: usize) -> bool {
        let strikes = self.faults_are_on() && self.world.rng.chance(self.mix.chance[fault.index()]);
        if strikes {
            self.note(fault, Some(place));
        }
        strikes
    }

    /// A client's timer fires.
    pub(crate) fn wake(&mut self, place: usize, life: Life, number: u32) {
        let client = &mut self.clients[place];
        if client.life != life || !client.is_awake() || (number != client.wake.1 && number != EXTRA) {
            return;
        }
        if number != EXTRA {
            client.wake.0 = None;
            let load = self.load(place);
            let verdict = self.watch.paces[place].wake(self.world.now, load);
            self.watch.check(verdict);
        }
        self.feed(place, Input::Wake);
    }

    /// A client's process resumes.
    pub(crate) fn resume(&mut self, place: usize, life: Life) {
        let client = &mut self.clients[place];
        if client.life != life || client.asleep_until.is_none_or(|until| until > self.world.now) {
            return;
        }
        client.asleep_until = None;
        client.wake.0 = None;
        self.note_line(&format!("c{place}"), format_args!("goes on"));
        let first = self.world.rng.chance(500_000);
        if first {
            self.feed(place, Input::Wake);
        }
        for what in std::mem::take(&mut self.clients[place].inbox) {
            self.deliver(place, life, what);
        }
        if !first {
            self.feed(place, Input::Wake);
        }
    }
}
