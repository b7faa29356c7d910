//! Scenarios to step through. Each is explained in two sentences.

use std::time::Duration;

use crate::world::{Action, Who, World};
use Action::{Acquire, FailOver, Kill, LoseReply, Pause, Write};
use Who::{A, B};

/// A story in steps.
pub struct Scenario {
    /// Its name.
    pub title: &'static str,
    /// What it shows, in two sentences.
    pub about: &'static str,
    /// Its steps.
    pub steps: &'static [Step],
}

/// A step: buttons, and what must happen before the next one.
pub struct Step {
    /// What happens.
    pub text: &'static str,
    actions: &'static [Action],
    until: Until,
}

/// The end of a step.
enum Until {
    /// The client holds the lock.
    Holds(Who),
    /// The client no longer believes that it holds the lock.
    Lost(Who),
    /// The client is in the queue.
    Queued(Who),
    /// The resource has judged a write of the client.
    Written(Who),
    /// This time has passed, in ms.
    Passed(u64),
    /// The server has the lock's key for this client.
    Granted(Who),
}

/// A step takes at most this time.
const LONGEST: Duration = Duration::from_secs(60);
/// Time for the last packets of a step to arrive, in µs.
const REST_US: u64 = 250_000;

/// A step that was begun.
#[derive(Clone, Copy)]
pub struct Begun {
    /// When it began, in µs.
    at: u64,
    /// How many writes there were before.
    writes: usize,
}

impl Step {
    /// Plays the step. Returns whether it ended as it should.
    pub fn play(&self, world: &mut World) -> bool {
        let begun = self.begin(world);
        self.finish(begun, world)
    }

    /// Presses the step's buttons.
    pub fn begin(&self, world: &mut World) -> Begun {
        let begun = Begun { at: world.now_us(), writes: world.writes().len() };
        for action in self.actions {
            world.press(*action);
        }
        begun
    }

    /// Lets time pass until the step is over. Returns whether it ended as it should.
    pub fn finish(&self, begun: Begun, world: &mut World) -> bool {
        if let Until::Passed(ms) = self.until {
            world.advance_to(begun.at + ms * 1_000);
            return true;
        }
        let reached = world.advance_until(LONGEST, |world| self.is_over(begun, world));
        world.advance_to(world.now_us() + REST_US);
        reached
    }

    /// Whether what the step waits for has happened.
    pub fn is_over(&self, begun: Begun, world: &World) -> bool {
        match self.until {
            Until::Holds(who) => world.holds(who),
            Until::Lost(who) => !world.holds(who),
            Until::Queued(who) => world.is_queued(who),
            Until::Granted(who) => world.has_lock(who),
            Until::Written(who) => world.writes().iter().skip(begun.writes).any(|(by, ..)| *by == who),
            Until::Passed(ms) => world.now_us() >= begun.at + ms * 1_000,
        }
    }
}

const fn step(text: &'static str, actions: &'static [Action], until: Until) -> Step {
    Step { text, actions, until }
}

/// All scenarios.
pub const ALL: [Scenario; 4] = [
    Scenario {
        title: "Crashed holder",
        about: "A holder that crashes can't release its lock. Its lease ends after the TTL, and the server grants the next waiter.",
        steps: &[
            step("A acquires the lock.", &[Acquire(A)], Until::Holds(A)),
            step("B asks for the lock and waits in the queue.", &[Acquire(B)], Until::Queued(B)),
            step("A is killed. Nobody tells the server, so the lock stays taken.", &[Kill(A)], Until::Passed(1_500)),
            step("A's TTL ends. B asks at that moment and gets the lock.", &[], Until::Holds(B)),
            step("B writes. Its fence is greater than A's.", &[Write(B)], Until::Written(B)),
        ],
    },
    Scenario {
        title: "Paused writer",
        about: "A process can stand still between its last check and its write, for example during garbage collection. \
                When it goes on, its lease is over and another client has written, so only the fence can stop the late write.",
        steps: &[
            step("A acquires the lock.", &[Acquire(A)], Until::Holds(A)),
            step("B asks for the lock and waits in the queue.", &[Acquire(B)], Until::Queued(B)),
            step(
                "A checks its lease and is about to write. At this moment A is paused.",
                &[Pause(A), Write(A)],
                Until::Passed(1_500),
            ),
            step(
                "A can't renew its lease, so the TTL ends. B gets the lock with a greater fence.",
                &[],
                Until::Holds(B),
            ),
            step("B writes, and the resource remembers its fence.", &[Write(B)], Until::Written(B)),
            step(
                "A goes on and sends its write. The resource refuses it, because its fence is too small.",
                &[Pause(A)],
                Until::Written(A),
            ),
        ],
    },
    Scenario {
        title: "Lost reply",
        about: "The server grants the lock, but the client never gets the answer. The client asks again with the same token, \
                and the server answers that the client has the lock already.",
        steps: &[
            step(
                "The network will lose the next reply to A. A asks for the lock.",
                &[LoseReply(A), Acquire(A)],
                Until::Granted(A),
            ),
            step("The server has given A the lock, but A doesn't know it.", &[], Until::Passed(1_000)),
            step("A asks again after a second. The server answers \"again\", with a new fence.", &[], Until::Holds(A)),
            step("A holds one lease, and the lock is not stuck.", &[Write(A)], Until::Written(A)),
        ],
    },
    Scenario {
        title: "Failover",
        about: "Replication is asynchronous, so a replica can take over without the last write and grant the lock a second time. \
                The second holder has a greater fence, so the resource refuses the first one.",
        steps: &[
            step("A acquires the lock.", &[Acquire(A)], Until::Holds(A)),
            step(
                "The primary fails. The replica takes over, and has never heard of A's lock.",
                &[FailOver],
                Until::Passed(300),
            ),
            step(
                "B asks the new primary and gets the lock. Now two clients believe that they hold it.",
                &[Acquire(B)],
                Until::Holds(B),
            ),
            step("B writes first.", &[Write(B)], Until::Written(B)),
            step(
                "A writes too. Its fence is smaller, so the resource refuses the write.",
                &[Write(A)],
                Until::Written(A),
            ),
            step("A's renewal tells A that the lock is gone.", &[], Until::Lost(A)),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::grouped;

    /// Plays a scenario to its end. Each step must end as it should.
    fn play(title: &str) -> World {
        let mut world = World::default();
        let scenario = ALL.iter().find(|scenario| scenario.title == title).expect("a scenario");
        for step in scenario.steps {
            assert!(step.play(&mut world), "{}: {:#?}", step.text, world.log());
        }
        world
    }

    /// The fence of the only write of a client, and whether it was accepted.
    fn write(world: &World, who: Who) -> (u64, bool) {
        let writes: Vec<_> = world.writes().iter().filter(|(by, ..)| *by == who).collect();
        assert_eq!(writes.len(), 1, "{:?}", world.writes());
        (writes[0].1, writes[0].2)
    }

    /// When something happened, in seconds.
    fn time(world: &World, what: &str) -> f64 {
        let line = world.log().iter().find(|line| line.contains(what)).expect("a line of the log");
        line.split(' ').next().and_then(|text| text.parse().ok()).expect("a time")
    }

    #[test]
    fn a_crashed_holder_frees_the_lock_after_its_ttl() {
        let world = play("Crashed holder");
        assert!(!world.holds(A) && world.holds(B));
        assert!(write(&world, B).1);
        assert!((6.0..9.0).contains(&time(&world, "The server gives B")), "{:#?}", world.log());
    }

    #[test]
    fn a_paused_writer_is_refused_because_its_fence_is_stale() {
        let world = play("Paused writer");
        let ((stale, late), (fresh, first)) = (write(&world, A), write(&world, B));
        assert!(stale < fresh && first && !late, "{:#?}", world.log());
        assert!(world.holds(B) && !world.holds(A), "A was notified when it went on");
    }

    #[test]
    fn a_client_that_lost_a_reply_gets_the_lock_that_it_has_already() {
        let world = play("Lost reply");
        assert!(world.holds(A) && write(&world, A).1);
        let given = time(&world, "The server gives A");
        assert!(time(&world, "A holds the lock") > given + 1.0, "A asks again first: {:#?}", world.log());
        let fence = grouped(write(&world, A).0);
        assert!(world.server_text().contains(&fence), "the server shows the fence that A has: {}", world.server_text());
    }

    #[test]
    fn after_a_failover_the_fence_refuses_the_first_holder() {
        let world = play("Failover");
        let ((first, first_accepted), (second, second_accepted)) = (write(&world, A), write(&world, B));
        assert!(first < second && !first_accepted && second_accepted);
        assert!(!world.holds(A) && world.holds(B), "A was notified, and B still holds the lock");
    }

    #[test]
    fn every_scenario_is_explained_in_two_sentences() {
        for scenario in ALL {
            assert_eq!(scenario.about.matches(". ").count() + 1, 2, "{}", scenario.about);
        }
    }
}
