//! How often a client hands a lock over between its own callers while another client waits.

mod world;

use std::time::Duration;

use leasehold_core::{Config, Input, LeaseId, OpId};
use world::{NAME, World, options};

/// More callers than a block has fences.
const CALLERS: usize = 1_100;

/// Client 0, whose callers hold a lock in turn, while client 1 waits.
struct Turn {
    world: World,
    callers: Vec<OpId>,
    other: OpId,
    /// How many of the callers have had the lock.
    served: usize,
}

impl Turn {
    fn new(local_handoffs: Option<u32>) -> Self {
        let mut world = World::with(4, &Config { local_handoffs, ..Config::default() });
        let lease = world.acquire(3, options());
        let callers = (0..CALLERS).map(|_| world.clients[0].acquire(NAME, options())).collect();
        world.serve();
        let other = world.clients[1].acquire(NAME, options());
        world.serve();
        // The first fences of a server are ahead of its clock.
        world.pass(Duration::from_millis(10));
        world.call(3, |op| Input::Release { op, lease });
        Self { world, callers, other, served: 0 }
    }

    fn holder(&self) -> LeaseId {
        self.world.clients[0].grant_of(self.callers[self.served]).lease
    }

    /// Each caller holds the lock for this time. Returns how many of them had it before the other client got it.
    fn until_the_other_client(&mut self, hold: Duration) -> usize {
        while !self.has_ended(1, self.other) {
            self.next(hold);
        }
        self.served
    }

    /// The caller that has the lock holds it for this time.
    fn next(&mut self, hold: Duration) {
        let lease = self.holder();
        self.world.pass(hold);
        self.world.call(0, |op| Input::Release { op, lease });
        self.served += 1;
    }

    fn has_ended(&self, place: usize, op: OpId) -> bool {
        self.world.clients[place].result_of(op).is_some()
    }
}

fn turn(local_handoffs: Option<u32>, hold: Duration) -> usize {
    Turn::new(local_handoffs).until_the_other_client(hold)
}

#[test]
fn short_holds_share_five_milliseconds() {
    assert_eq!(turn(None, Duration::from_micros(50)), 100);
}

#[test]
fn very_short_holds_end_with_the_block_of_fences() {
    assert_eq!(turn(None, Duration::from_micros(4)), 1_024);
}

#[test]
fn holds_that_are_not_short_are_handed_over_32_times() {
    assert_eq!(turn(None, Duration::from_millis(1)), 33);
    assert_eq!(turn(None, Duration::from_millis(30)), 33);
}

#[test]
fn long_holds_are_handed_over_for_a_second() {
    assert_eq!(turn(None, Duration::from_millis(100)), 10);
    assert_eq!(turn(None, Duration::from_secs(2)), 1);
}

#[test]
fn the_option_counts_from_the_first_hand_over_on() {
    assert_eq!(turn(Some(32), Duration::from_micros(100)), 33);
    assert_eq!(turn(Some(0), Duration::from_micros(100)), 1);
    assert_eq!(turn(Some(1_023), Duration::from_micros(4)), 1_024);
    assert_eq!(turn(Some(1_023), Duration::from_millis(100)), 10);
}

/// A caller that holds for long costs the callers behind it no place: the client joins the queue when its turn is over.
#[test]
fn the_next_callers_join_the_queue_although_the_last_one_of_the_turn_still_holds() {
    let mut turn = Turn::new(None);
    (0..40).for_each(|_| turn.next(Duration::from_micros(10)));
    turn.world.pass(Duration::from_millis(30));
    let late = turn.world.clients[2].acquire(NAME, options());
    turn.world.serve();
    assert_eq!(turn.until_the_other_client(Duration::from_secs(5)), 41);
    let lease = turn.world.clients[1].grant_of(turn.other).lease;
    turn.world.call(1, |op| Input::Release { op, lease });
    assert!(!turn.has_ended(2, late), "it came after the turn of client 0");
    turn.holder();
}
