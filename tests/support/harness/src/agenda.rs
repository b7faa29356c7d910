//! The future events, in the order of true time. Events of the same moment are in the order in which they were added.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::clock::Micros;

/// The future events of a run. The heap moves only small keys; the events stay in place.
#[derive(Debug)]
pub struct Agenda<E> {
    order: BinaryHeap<Reverse<(Micros, u64, u32)>>,
    events: Vec<Option<E>>,
    free: Vec<u32>,
    made: u64,
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self { order: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), made: 0 }
    }
}

impl<E> Agenda<E> {
    /// Schedules an event.
    pub fn push(&mut self, at: Micros, event: E) {
        let place = match self.free.pop() {
            Some(place) => {
                self.events[place as usize] = Some(event);
                place
            }
            None => {
                self.events.push(Some(event));
                (self.events.len() - 1) as u32
            }
        };
        self.order.push(Reverse((at, self.made, place)));
        self.made += 1;
    }

    /// Takes the next event and its time.
    pub fn pop(&mut self) -> Option<(Micros, E)> {
        let Reverse((at, _, place)) = self.order.pop()?;
        self.free.push(place);
        self.events[place as usize].take().map(|event| (at, event))
    }

    /// The time of the next event.
    pub fn next_at(&self) -> Option<Micros> {
        self.order.peek().map(|Reverse((at, ..))| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::Agenda;

    #[test]
    fn events_come_in_the_order_of_time_and_ties_in_the_order_of_their_making() {
        let mut agenda = Agenda::default();
        for (at, event) in [(5, 'd'), (1, 'a'), (3, 'b'), (3, 'c')] {
            agenda.push(at, event);
        }
        assert_eq!(agenda.next_at(), Some(1));
        let order: String = std::iter::from_fn(|| agenda.pop().map(|(_, event)| event)).collect();
        assert_eq!(order, "abcd");
    }
}
