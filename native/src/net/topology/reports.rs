//! Which server is the primary, although the sentinels may disagree for a while.
//!
//! A sentinel that was cut off, frozen or restarted from an old file still names an old primary. So the report with the
//! greatest configuration epoch counts, because each failover has a greater one. A report that no sentinel has repeated
//! for [`FORGOTTEN`] loses to one with a smaller epoch: the sentinels may have been set up again.
//!
//! <https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/#configuration-epochs>

use std::time::Duration;

use tokio::time::Instant;

use super::slots::Address;

/// What a sentinel says about the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) address: Address,
    pub(super) epoch: u64,
}

/// What the sentinels have said so far.
#[derive(Debug, Default)]
pub(super) struct Reports {
    current: Option<Current>,
    /// When a sentinel last reported anything.
    heard: Option<Instant>,
}

#[derive(Debug)]
struct Current {
    report: Report,
    /// When a sentinel last reported this epoch. Pauses of this process don't count.
    repeated: Instant,
}

/// A report expires if no sentinel repeats it for this long.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// The longest time between two answers that counts towards [`FORGOTTEN`]. Each sentinel is asked more often. So if
/// more time passed, this process was paused, and no sentinel could repeat its report.
const LONGEST_GAP: Duration = Duration::from_secs(10);

impl Reports {
    /// A sentinel has answered. Returns whether another server is the primary now.
    pub(super) fn take(&mut self, now: Instant, report: Report) -> bool {
        let gap = self.heard.replace(now).map_or(Duration::ZERO, |heard| now.saturating_duration_since(heard));
        let mut is_other = true;
        if let Some(current) = &mut self.current {
            current.repeated += gap.saturating_sub(LONGEST_GAP);
            let is_known = now.saturating_duration_since(current.repeated) <= FORGOTTEN;
            if report.epoch < current.report.epoch && is_known {
                return false;
            }
            is_other = report.address != current.report.address;
        }
        self.current = Some(Current { report, repeated: now });
        is_other
    }

    /// The primary. None before the first report, and while no sentinel repeats the last one.
    pub(super) fn primary(&self, now: Instant) -> Option<&Address> {
        let current = self.current.as_ref()?;
        (now.saturating_duration_since(current.repeated) <= FORGOTTEN).then_some(&current.report.address)
    }

    /// The last known primary.
    pub(super) fn last(&self) -> Option<&Address> {
        self.current.as_ref().map(|current| &current.report.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Sentinels whose answers come at moments of a clock of their own.
    struct World {
        reports: Reports,
        now: Instant,
    }

    impl World {
        fn new() -> Self {
            Self { reports: Reports::default(), now: Instant::now() }
        }

        fn says(&mut self, port: u16, epoch: u64) -> bool {
            self.reports.take(self.now, Report { address: address(port), epoch })
        }

        fn primary(&self) -> Option<Address> {
            self.reports.primary(self.now).cloned()
        }
    }

    fn address(port: u16) -> Address {
        Address::new("10.0.0.1", port)
    }

    #[test]
    fn the_sentinel_of_the_latest_failover_is_believed_wherever_it_is_in_the_list() {
        let answers = [(1, 4), (2, 5), (1, 3)];
        for first in 0..answers.len() {
            let mut world = World::new();
            for place in 0..answers.len() {
                let (port, epoch) = answers[(first + place) % answers.len()];
                world.says(port, epoch);
            }
            assert_eq!(world.primary(), Some(address(2)), "from the answer {first} on");
        }
    }

    #[test]
    fn a_sentinel_that_goes_on_naming_the_old_primary_is_never_believed() {
        let mut world = World::new();
        assert!(world.says(1, 4), "the first answer always counts");
        assert!(world.says(2, 5));
        for _ in 0..100 {
            world.now += SECOND * 5;
            assert!(!world.says(1, 4));
            assert!(!world.says(2, 5), "it is the primary already");
            assert_eq!(world.primary(), Some(address(2)));
        }
    }

    #[test]
    fn in_one_epoch_the_later_answer_counts() {
        let mut world = World::new();
        world.says(1, 5);
        assert!(world.says(2, 5));
        assert_eq!(world.primary(), Some(address(2)));
    }

    #[test]
    fn sentinels_that_were_all_set_up_anew_are_believed_after_half_a_minute() {
        let mut world = World::new();
        world.says(1, 5);
        for _ in 0..6 {
            world.now += SECOND * 5;
            assert!(!world.says(2, 0));
        }
        assert_eq!(world.primary(), Some(address(1)));
        world.now += SECOND;
        assert_eq!(world.primary(), None, "no sentinel has repeated its report");
        assert_eq!(world.reports.last(), Some(&address(1)));
        assert!(world.says(2, 0));
        assert_eq!(world.primary(), Some(address(2)));
    }

    #[test]
    fn a_pause_of_this_process_makes_no_report_older() {
        let mut world = World::new();
        world.says(2, 5);
        world.now += SECOND * 3_600;
        assert_eq!(world.primary(), None, "the sentinels must repeat their reports first");
        assert!(!world.says(1, 4), "the stale sentinel answers first");
        assert_eq!(world.reports.last(), Some(&address(2)));
        world.says(2, 5);
        assert_eq!(world.primary(), Some(address(2)));
    }
}
