//! Liveness: whatever has happened, once nothing goes wrong any more, every call ends soon.

use leasehold_core::{Engine, Input, OpId};

use crate::client::{User, UserState};
use crate::clock::{self, Micros, SERVER_ORIGIN, micros};
use crate::keys::{GHOST, KEYS, holders, waiters};
use crate::scenario::{Action, CLAIM_WINDOW, LINGER, TTL};
use crate::step::Step;
use crate::terms::Terms;
use crate::verdict::{Broken, Verdict};
use crate::world::World;

/// All calls end within this time: a dead holder costs one TTL, and a dead waiter one claim window.
const ALL_END: Micros = 12_000_000;
/// Without a fault, they end as soon as the lock is free. So does the lease of a client that is gone.
const AT_ONCE: Micros = 20_000;
/// Then every client forgets everything within this time. A server that does not answer is asked for up to a minute.
const ALL_IDLE: Micros = 90_000_000;
/// More steps than any run needs.
const MOST_STEPS: usize = 10_000;

/// Runs on without faults: everything arrives at once and in order, and holders give the lock back at once. Returns how
/// long it took.
pub(crate) fn run_on(mut world: World) -> Result<Micros, Broken> {
    let begin = world.now;
    let end = if world.is_calm() { world.free_at() + world.detour() + AT_ONCE } else { begin + ALL_END };
    world.faults_left = 0;
    for _ in 0..MOST_STEPS {
        if world.is_over() {
            let took = world.now - begin;
            return rest(world).map(|()| took);
        }
        let steps = world.steps();
        let first = |is: fn(&Step) -> bool| steps.iter().copied().find(is);
        let next = first(|step| matches!(step, Step::Arrive(_)))
            .or_else(|| first(|step| matches!(step, Step::Wake(_) | Step::Resume(_))))
            .or_else(|| first(|step| *step == Step::Act { client: 0, user: 0 } || matches!(step, Step::Act { .. })))
            .or_else(|| first(|step| *step == Step::Pass));
        let Some(next) = next else { break };
        world.take(next)?;
        if world.now > end {
            break;
        }
    }
    let waiting =
        world.clients.iter().enumerate().flat_map(|(place, client)| {
            client.users.iter().map(move |user| format!("client {place}: {:?}", user.state))
        });
    let waiting: Vec<String> = waiting.collect();
    let detail = format!("{} µs later, users are {waiting:?}", world.now - begin);
    Err(Broken::new("liveness", detail))
}

/// All users are done. Every client becomes idle.
fn rest(mut world: World) -> Verdict {
    let begin = world.now;
    let end = begin + if world.is_calm() { micros(LINGER) + AT_ONCE } else { ALL_IDLE };
    let mut observes = true;
    let is_idle = |world: &World| world.clients.iter().all(|it| it.engine.as_ref().is_none_or(Engine::is_idle));
    for _ in 0..MOST_STEPS {
        if observes && world.observers_know() {
            observes = false;
            world.end_observers()?;
        }
        if is_idle(&world) {
            return if world.is_harmed { Ok(()) } else { world.nothing_is_left() };
        }
        let due = world.clients.iter().position(|client| {
            let at = client.engine.as_ref().and_then(Engine::poll_timeout).map(|(at, _)| clock::when(at));
            at.is_some_and(|at| at <= world.now)
        });
        if let Some(flight) = world.flights.first() {
            world.take(Step::Arrive(flight.number))?;
        } else if let Some(client) = due {
            world.take(Step::Wake(client as u8))?;
        } else if let Some(next) = world.next_moment().filter(|next| *next < end) {
            world.nothing_lingers()?;
            world.now = next;
        } else {
            break;
        }
    }
    Err(Broken::new("leftover", format!("a client is not idle {} µs after its users are done", world.now - begin)))
}

impl World {
    /// Whether the observers know who leads. If nothing went wrong, they know it as soon as everything has arrived.
    fn observers_know(&self) -> bool {
        let time = clock::server(self.now);
        let observes = |user: &User| matches!(user.state, UserState::Observing(_));
        let mut observers = self.clients.iter().filter(|client| client.users.iter().any(observes));
        observers.all(|client| client.engine.is_none() || Terms::knows(client.told, time, &self.server))
    }

    fn end_observers(&mut self) -> Verdict {
        for place in 0..self.clients.len() {
            let calls: Vec<OpId> = self.clients[place].users.iter().filter_map(|user| user.state.call()).collect();
            for op in calls {
                self.feed(place as u8, Input::Cancel { op })?;
            }
        }
        Ok(())
    }

    /// When the lease ends of a client that is gone, or of one that has detached it. Else now.
    fn free_at(&self) -> Micros {
        let time = clock::server(self.now);
        let holders = holders(&self.server, time);
        let is_gone = self.server.text(time, KEYS[0].as_bytes()) == Some(GHOST)
            || holders.iter().any(|token| self.watch.passing.is_detached(token));
        let ends = self.server.expires(time, KEYS[0].as_bytes()).filter(|_| is_gone);
        ends.map_or(self.now, |ends| ends - SERVER_ORIGIN)
    }

    /// How much longer the calls may take, although nothing went wrong.
    fn detour(&self) -> Micros {
        // A client whose lease lingers was told too early that another one waits.
        let linger = if self.scenario.lingers && self.watch.unheard { micros(LINGER) } else { 0 };
        // The second in the queue learns by its heartbeat that the first one has given up.
        let gives_up = self.scenario.has(|action| *action == Action::Cancel);
        // A lease that is still to be detached stays for a TTL, and 6 % because clocks may differ.
        let detaches = self.scenario.has(|action| matches!(action, Action::Detach(_)));
        let stays = if detaches { micros(TTL) * 107 / 100 } else { 0 };
        linger + stays + if gives_up { micros(CLAIM_WINDOW) / 3 } else { 0 }
    }

    /// Idle clients hold no lock on the server, and wait for none. A command that was late has not taken the lock again.
    fn nothing_is_left(&self) -> Verdict {
        let time = clock::server(self.now);
        let left = [holders(&self.server, time), waiters(&self.server, time)].concat();
        match left.iter().find(|token| !self.watch.passing.is_detached(token)) {
            Some(token) => Err(Broken::new("left-behind", format!("nobody wants {}", String::from_utf8_lossy(token)))),
            None => Ok(()),
        }
    }
}
