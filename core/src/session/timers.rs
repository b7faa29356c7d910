//! Timers, each with the reason it was set for.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::num::NonZeroU32;

use crate::event::Reason;
use crate::ids::{Caller, Channel, LeaseId, LockId, Token};
use crate::time::Instant;

/// What a timer is for. At most one of each is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Timer {
    /// A hold's validity ends.
    Deadline(LockId),
    /// A lease ends before its hold: the end of a fixed lease, or `max_hold`.
    LeaseEnds(LeaseId),
    /// A hold is due for renewal, or for another attempt.
    Renewal(LockId),
    /// A refill got no answer.
    Refill(LockId),
    /// A claim's command is due to be sent again.
    Heartbeat(LockId),
    /// The time for a hold's local hand-overs is over.
    BudgetEnds(LockId),
    /// A lease that nobody holds was kept long enough.
    LingerEnds(LockId),
    /// A user's call ends.
    OpEnds(Caller),
    /// A user's call is due to be sent again.
    OpAgain(Caller),
    /// An unanswered convert is due to be resent.
    Convert(LockId),
    /// An unanswered release is due to be resent.
    Release(Token),
    /// A subscription is due to be retried, or is overdue.
    Subscription(Channel),
    /// The observers of an election are due to ask who leads.
    Observe(LockId),
}

impl Timer {
    /// The order among timers that are due at the same moment.
    fn rank(self) -> u64 {
        match self {
            Self::Deadline(_) => 0,
            Self::LeaseEnds(_) => 1,
            Self::Renewal(_) => 2,
            Self::Refill(_) => 3,
            Self::Heartbeat(_) => 4,
            Self::BudgetEnds(_) => 5,
            Self::OpEnds(_) => 6,
            Self::OpAgain(_) => 7,
            Self::Convert(_) => 8,
            Self::Release(_) => 9,
            Self::Subscription(_) => 10,
            Self::LingerEnds(_) => 11,
            Self::Observe(_) => 12,
        }
    }

    fn reason(self) -> Reason {
        match self {
            Self::Deadline(_) | Self::LeaseEnds(_) => Reason::Deadline,
            Self::Renewal(_) => Reason::Renewal,
            Self::Heartbeat(_) | Self::Observe(_) => Reason::Heartbeat,
            Self::OpEnds(_) => Reason::WaitEnds,
            Self::Refill(_) | Self::OpAgain(_) | Self::Convert(_) | Self::Release(_) => Reason::Resend,
            Self::BudgetEnds(_) => Reason::BudgetEnds,
            Self::LingerEnds(_) => Reason::LingerEnds,
            Self::Subscription(_) => Reason::Subscription,
        }
    }
}

/// A timer that is set, kept by its owner. The owner clears the slot when the timer goes off.
pub(crate) type Slot = Option<Set>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    /// When it is due.
    pub(crate) at: Instant,
    place: Place,
}

/// The place says nothing about the timer.
impl Hash for Set {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.at.hash(state);
    }
}

/// The place of a timer in its heap, counted from 1: so a slot takes no more space than a timer that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place(NonZeroU32);

impl Place {
    const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// All timers. The ends of leases have a heap of their own: after a late wake-up they are handled before anything else.
#[derive(Clone, Default)]
pub(crate) struct Timers {
    ends: Heap,
    others: Heap,
    /// No timer is due before this moment. Most inputs arrive earlier, and need not look at the timers.
    quiet_until: Instant,
}

impl Timers {
    /// Sets `timer`, moves it or clears it. `slot` tells whether it is set now.
    pub(crate) fn set(&mut self, timer: Timer, slot: &mut Slot, to: Option<Instant>) {
        if slot.is_none() && to.is_none() {
            return;
        }
        if let Some(at) = to {
            self.quiet_until = self.quiet_until.min(at);
        }
        let heap = match timer {
            Timer::Deadline(_) | Timer::LeaseEnds(_) => &mut self.ends,
            _ => &mut self.others,
        };
        // The slot of a timer that went off may not be cleared yet.
        let set =
            slot.filter(|set| heap.entries.get(set.place.index()).is_some_and(|entry| entry.timer == Some(timer)));
        *slot = match (set, to) {
            (Some(set), Some(at)) if set.at == at => return,
            (Some(set), Some(at)) => Some(Set { at, place: heap.change(set.place, at, timer) }),
            (None, Some(at)) => Some(Set { at, place: heap.insert(at, timer) }),
            (set, None) => {
                set.and_then(|set| heap.remove(set.place));
                None
            }
        };
    }

    /// Removes and returns the next timer that is due. Ends of leases come first.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        if now < self.quiet_until {
            return None;
        }
        let due = self.ends.pop_due(now).or_else(|| self.others.pop_due(now));
        if due.is_none() {
            self.quiet_until = self.next().map_or(now, |(at, _)| at);
        }
        due
    }

    /// The earliest timer.
    pub(crate) fn next(&self) -> Option<(Instant, Reason)> {
        let (heap, due) = match (self.ends.first(), self.others.first()) {
            (Some(end), Some(other)) if other.at < end.at => (&self.others, other),
            (Some(end), _) => (&self.ends, end),
            (None, other) => (&self.others, other?),
        };
        Some((due.at, heap.entries.get(due.place.index())?.timer?.reason()))
    }
}

/// Timers in the order in which they are due. Most are set later than all others and cleared in the order in which they
/// were set: the time limits of calls that wait for one lock. They are in a list, where both cost the same for any number
/// of timers. The others are in a heap in which each timer knows its position, so that it is moved and removed in
/// logarithmic time. With four children to a node, and the times beside each other, the heap is half as deep as a binary
/// heap and stays in the cache.
#[derive(Clone, Default)]
struct Heap {
    order: Vec<Due>,
    /// In order. The first one is set. Others that are cleared are removed later, and keep their places until then.
    list: VecDeque<Due>,
    /// How many timers in the list are cleared.
    cleared: usize,
    entries: Vec<Entry>,
    free: Vec<Place>,
    /// How many timers were set so far: among equals the one that was set first is first.
    count: u64,
}

/// When the timer at a place is due. The order of the fields is the order of the heap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Instant,
    rank: u64,
    place: Place,
}

/// A timer keeps its place while it is set.
#[derive(Clone)]
struct Entry {
    /// None while the place is free, and for a timer in the list that is cleared.
    timer: Option<Timer>,
    /// In the heap, or [`LISTED`].
    position: u32,
}

/// The position of a timer in the list.
const LISTED: u32 = u32::MAX;

/// How many children a node of the heap has.
const CHILDREN: usize = 4;

/// Timers that will go off at the same times and in the same order are equal.
impl Hash for Timers {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for heap in [&self.ends, &self.others] {
            let mut set: Vec<(&Due, Timer)> = heap
                .list
                .iter()
                .chain(&heap.order)
                .filter_map(|due| Some((due, heap.entries.get(due.place.index())?.timer?)))
                .collect();
            set.sort_unstable_by_key(|(due, _)| *due);
            set.len().hash(state);
            set.iter().for_each(|(due, timer)| (due.at, timer).hash(state));
        }
    }
}

impl Heap {
    fn first(&self) -> Option<Due> {
        match (self.list.front(), self.order.first()) {
            (Some(listed), Some(due)) => Some(*listed.min(due)),
            (listed, due) => listed.or(due).copied(),
        }
    }

    fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        let due = self.first().filter(|due| due.at <= now)?;
        self.remove(due.place)
    }

    fn insert(&mut self, at: Instant, timer: Timer) -> Place {
        let place = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { timer: None, position: 0 });
            Place(NonZeroU32::new(self.entries.len() as u32).unwrap_or(NonZeroU32::MAX))
        });
        let due = self.due(at, timer, place);
        let listed = self.list.back().is_none_or(|last| *last < due);
        let position = if listed { LISTED } else { self.order.len() as u32 };
        if let Some(entry) = self.entries.get_mut(place.index()) {
            *entry = Entry { timer: Some(timer), position };
        }
        if listed {
            self.list.push_back(due);
        } else {
            self.order.push(due);
            self.sift(position as usize);
        }
        place
    }

    fn due(&mut self, at: Instant, timer: Timer, place: Place) -> Due {
        self.count += 1;
        Due { at, rank: timer.rank() << 56 | self.count, place }
    }

    /// Moves a timer. Returns its new place.
    fn change(&mut self, place: Place, at: Instant, timer: Timer) -> Place {
        let position = self.entries.get(place.index()).map_or(LISTED, |entry| entry.position);
        if position == LISTED {
            self.remove(place);
            return self.insert(at, timer);
        }
        let due = self.due(at, timer, place);
        if let Some(old) = self.order.get_mut(position as usize) {
            *old = due;
        }
        self.sift(position as usize);
        place
    }

    fn remove(&mut self, place: Place) -> Option<Timer> {
        let entry = self.entries.get_mut(place.index())?;
        let (timer, position) = (entry.timer.take(), entry.position);
        if position == LISTED {
            self.cleared += 1;
            self.tidy();
        } else {
            self.free.push(place);
            self.order.swap_remove(position as usize);
            self.sift(position as usize);
        }
        timer
    }

    /// Removes cleared timers from the list: all at its beginning, and the others once they are the most.
    fn tidy(&mut self) {
        let Self { list, cleared, entries, free, .. } = self;
        let is_set = |due: &Due| entries.get(due.place.index()).is_some_and(|entry| entry.timer.is_some());
        while let Some(due) = list.front().filter(|due| !is_set(due)) {
            free.push(due.place);
            *cleared -= 1;
            list.pop_front();
        }
        if *cleared > list.len() / 2 + 32 {
            for _ in 0..list.len() {
                let Some(due) = list.pop_front() else { break };
                if is_set(&due) {
                    list.push_back(due);
                } else {
                    free.push(due.place);
                }
            }
            *cleared = 0;
        }
    }

    /// Puts the timer at this position where it belongs.
    fn sift(&mut self, mut position: usize) {
        let Some(due) = self.order.get(position).copied() else { return };
        while let Some(parent) = position.checked_sub(1).map(|before| before / CHILDREN)
            && let Some(above) = self.order.get(parent).copied().filter(|above| *above > due)
        {
            self.put(position, above);
            position = parent;
        }
        loop {
            let (mut first, mut least) = (position, due);
            for (child, below) in self.order.iter().enumerate().skip(CHILDREN * position + 1).take(CHILDREN) {
                if *below < least {
                    (first, least) = (child, *below);
                }
            }
            if first == position {
                break;
            }
            self.put(position, least);
            position = first;
        }
        self.put(position, due);
    }

    fn put(&mut self, position: usize, due: Due) {
        if let Some(place) = self.order.get_mut(position) {
            *place = due;
        }
        if let Some(entry) = self.entries.get_mut(due.place.index()) {
            entry.position = position as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;
    use crate::ids::OpId;
    use crate::time::Duration;

    /// Sets, moves, clears and takes timers in an order that follows from `seed`, beside a sorted map.
    fn compare_with_a_map(seed: u64) {
        let mut random = seed;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let at = |ms: u64| Instant::from_micros(0) + Duration::from_millis(ms);
        let mut timers = Timers::default();
        let mut slots: Vec<Slot> = [None; 40].into();
        let mut map: BTreeMap<(Instant, u64), u64> = BTreeMap::new();
        let mut count = 0;
        for _ in 0..2_000 {
            let which = draw(40);
            let timer = Timer::OpEnds(Caller::User(OpId(which)));
            let slot = &mut slots[which as usize];
            let known = map.iter().find(|(_, op)| **op == which).map(|(key, _)| *key);
            match draw(4) {
                0 => {
                    timers.set(timer, slot, None);
                    known.and_then(|key| map.remove(&key));
                }
                1 => {
                    let taken = timers.pop_due(at(draw(200)));
                    let first = map.first_key_value().map(|(key, op)| (*key, *op));
                    if let Some(Timer::OpEnds(Caller::User(OpId(op)))) = taken {
                        assert_eq!(first.map(|(_, op)| op), Some(op));
                        map.pop_first();
                        // The owner may clear its slot only later.
                        if draw(2) == 0 {
                            slots[op as usize] = None;
                        }
                    }
                }
                _ => {
                    let to = at(draw(200));
                    if known.is_none_or(|(at, _)| at != to) {
                        known.and_then(|key| map.remove(&key));
                        count += 1;
                        map.insert((to, count), which);
                    }
                    timers.set(timer, slot, Some(to));
                }
            }
            assert_eq!(timers.next().map(|(at, _)| at), map.first_key_value().map(|((at, _), _)| *at));
        }
        while let Some(Timer::OpEnds(Caller::User(OpId(op)))) = timers.pop_due(at(1_000)) {
            assert_eq!(map.pop_first().map(|(_, op)| op), Some(op));
        }
        assert!(map.is_empty() && timers.next().is_none());
    }

    #[test]
    fn timers_go_off_in_their_order_whatever_was_set_moved_and_cleared() {
        (0..50).for_each(compare_with_a_map);
    }

    #[test]
    fn ends_of_leases_come_before_anything_else_that_is_due() {
        let (mut timers, mut slots) = (Timers::default(), [None; 2]);
        timers.set(Timer::OpEnds(Caller::User(OpId(1))), &mut slots[0], Some(Instant::from_micros(1)));
        timers.set(Timer::LeaseEnds(LeaseId(1)), &mut slots[1], Some(Instant::from_micros(2)));
        assert_eq!(timers.pop_due(Instant::from_micros(0)), None);
        assert_eq!(timers.pop_due(Instant::from_micros(2)), Some(Timer::LeaseEnds(LeaseId(1))));
        assert_eq!(timers.pop_due(Instant::from_micros(2)), Some(Timer::OpEnds(Caller::User(OpId(1)))));
    }

    #[test]
    fn timers_that_are_cleared_behind_a_patient_one_are_forgotten() {
        let (mut timers, mut first) = (Timers::default(), None);
        timers.set(Timer::OpEnds(Caller::User(OpId(0))), &mut first, Some(Instant::from_micros(1)));
        for number in 1..1_000 {
            let (timer, mut slot) = (Timer::OpEnds(Caller::User(OpId(number))), None);
            timers.set(timer, &mut slot, Some(Instant::from_micros(number + 1)));
            timers.set(timer, &mut slot, None);
        }
        assert!(timers.others.list.len() < 100, "{} timers in the list", timers.others.list.len());
        assert!(timers.others.entries.len() < 100, "{} places", timers.others.entries.len());
        assert_eq!(timers.pop_due(Instant::from_micros(1)), Some(Timer::OpEnds(Caller::User(OpId(0)))));
        assert_eq!(timers.pop_due(Instant::from_micros(5_000)), None);
        assert_eq!(timers.next(), None);
    }
}
