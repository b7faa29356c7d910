//! The part that all simulated worlds have in common.

use crate::agenda::Agenda;
use crate::clock::Micros;
use crate::rng::Rng;
use crate::transcript::Transcript;

/// The world of one seed: its time, its future events `E`, its random numbers, and its transcript.
#[derive(Debug)]
pub struct World<E> {
    /// The true time.
    pub now: Micros,
    /// The only source of randomness.
    pub rng: Rng,
    /// The future events.
    pub agenda: Agenda<E>,
    /// The transcript, if it is written.
    pub transcript: Transcript,
}

impl<E> World<E> {
    /// The world of a seed, at time 0.
    pub fn new(rng: Rng, transcript: Transcript) -> Self {
        Self { now: 0, rng, agenda: Agenda::default(), transcript }
    }

    /// Takes the next event and lets time pass until then. Time never goes back. None if there are no more events.
    pub fn advance(&mut self) -> Option<E> {
        let (at, event) = self.agenda.pop()?;
        self.now = self.now.max(at);
        Some(event)
    }

    /// The same, but only for events at `until` or earlier. If there are none, time passes until `until`.
    pub fn advance_until(&mut self, until: Micros) -> Option<E> {
        if self.agenda.next_at().is_some_and(|at| at <= until) {
            return self.advance();
        }
        self.now = self.now.max(until);
        None
    }

    /// Schedules an event.
    pub fn after(&mut self, time: Micros, event: E) {
        self.agenda.push(self.now + time, event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_from_event_to_event_and_not_past_the_limit() {
        let mut world = World::new(Rng::new(1), Transcript::default());
        world.after(5, 'b');
        world.after(3, 'a');
        assert_eq!((world.advance_until(2), world.now), (None, 2));
        assert_eq!((world.advance_until(3), world.now), (Some('a'), 3));
        world.after(1, 'c');
        assert_eq!((world.advance(), world.now), (Some('c'), 4));
        assert_eq!((world.advance(), world.now, world.advance()), (Some('b'), 5, None));
    }
}
