//! A counterexample: made shorter, and told step by step.

use std::fmt::Write;

use crate::flight::What;
use crate::run_on::run_on;
use crate::search::Counterexample;
use crate::step::Step;
use crate::verdict::Broken;
use crate::world::World;

/// Leaves out steps as long as the same invariant breaks.
pub(crate) fn shorten(begin: &World, mut found: Counterexample) -> Counterexample {
    loop {
        let before = found.steps.len();
        let mut place = before;
        while place > 0 {
            place -= 1;
            let mut fewer = found.steps.clone();
            fewer.remove(place);
            if let Some(shorter) = fails(begin, &fewer, found.broken.invariant) {
                found = shorter;
                place = place.min(found.steps.len());
            }
        }
        if found.steps.len() >= before {
            return found;
        }
    }
}

/// Takes the steps that are possible, and returns them if they break the invariant.
fn fails(begin: &World, steps: &[Step], invariant: &str) -> Option<Counterexample> {
    let mut world = begin.clone();
    let mut taken = Vec::new();
    let is_it = |broken: &Broken| broken.invariant == invariant;
    for step in steps {
        if !world.steps().contains(step) {
            continue;
        }
        taken.push(*step);
        if let Err(broken) = world.take(*step) {
            return is_it(&broken).then_some(Counterexample { steps: taken, broken });
        }
    }
    let broken = run_on(world).err().filter(is_it)?;
    Some(Counterexample { steps: taken, broken })
}

/// What happens in these steps, a line for each, and the invariant that breaks.
///
/// # Errors
/// If a step is not possible.
pub(crate) fn tell(begin: &World, steps: &[Step]) -> Result<(String, Option<Broken>), String> {
    let mut world = begin.clone();
    let mut told = String::new();
    for step in steps {
        if !world.steps().contains(step) {
            return Err(format!("{told}`{step}` is not possible here; there are {:?}", world.steps()));
        }
        let what = match step {
            Step::Arrive(number) | Step::Fault(crate::step::Fault::Lose(number)) => world.show(*number),
            Step::Act { client, user } => {
                let user = world.clients.get(usize::from(*client)).and_then(|it| it.users.get(usize::from(*user)));
                user.and_then(|user| user.next()).map(|action| format!("{action:?}")).unwrap_or_default()
            }
            _ => String::new(),
        };
        let before: Vec<u16> = world.flights.iter().map(|flight| flight.number).collect();
        let verdict = world.take(*step);
        let _ = writeln!(told, "{:>10.6} s  {:<12} {what}", world.now as f64 / 1e6, step.to_string());
        for flight in world.flights.iter().filter(|flight| !before.contains(&flight.number)) {
            let _ = writeln!(told, "{:>27} {}: {}", "->", flight.number, world.show(flight.number));
        }
        if let Err(broken) = verdict {
            return Ok((told, Some(broken)));
        }
    }
    Ok((told, run_on(world).err()))
}

impl World {
    /// What is in flight under this number.
    fn show(&self, number: u16) -> String {
        let Some(flight) = self.flights.iter().find(|flight| flight.number == number) else { return String::new() };
        let client = flight.client;
        match &flight.what {
            What::Command(id, command) => {
                let words: Vec<_> = command.words().skip(1).map(String::from_utf8_lossy).collect();
                let script = leasehold_lua::ALL.iter().find(|script| words.first().is_some_and(|it| it == script.sha1));
                let name = script.map_or("?", |script| script.name);
                format!("client {client} sends #{} {name} {}", id.0, words.get(2..).unwrap_or_default().join(" "))
            }
            What::Reply(id, _, reply) => match &**reply {
                Ok(reply) => format!("client {client} gets #{}: {reply}", id.0),
                Err(failure) => format!("client {client} gets #{}: {failure:?}", id.0),
            },
            What::Message(_, payload) => format!("client {client} hears {}", String::from_utf8_lossy(payload)),
            What::Subscribe(channel) => format!("client {client} subscribes to {channel:?}"),
            What::Subscribed(channel) => format!("client {client} is subscribed to {channel:?}"),
        }
    }
}
