//! Which server is the primary, although the sentinels may disagree for a while.
//!
//! A sentinel that was cut off, frozen or restarted from an old file still names an old primary. So the report with the
//! greatest configuration epoch counts, because each failover has a greater one. In one epoch, the server that most
//! sentinels name counts: after a switch by hand, one of them may have missed it. A report that no sentinel has repeated
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
#[derive(Debug)]
pub(super) struct Reports {
    /// The last report of each sentinel.
    last: Vec<Option<Dated>>,
    /// The report that counts.
    current: Option<Dated>,
    /// When a sentinel last reported anything.
    heard: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Dated {
    report: Report,
    /// When a sentinel last reported this. Pauses of this process don't count.
    at: Instant,
}

/// A report expires if no sentinel repeats it for this long.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// The longest time between two answers that counts towards [`FORGOTTEN`]. Each sentinel is asked more often. So if
/// more time passed, this process was paused, and no sentinel could repeat its report.
const LONGEST_GAP: Duration = Duration::from_secs(10);

impl Reports {
    pub(super) fn of(sentinels: usize) -> Self {
        Self { last: vec![None; sentinels], current: None, heard: None }
    }

    /// The sentinel at this place of the list has answered. Returns whether another server is the primary now.
    pub(super) fn take(&mut self, now: Instant, place: usize, report: Report) -> bool {
        let gap = self.heard.replace(now).map_or(Duration::ZERO, |heard| now.saturating_duration_since(heard));
        for known in self.last.iter_mut().flatten().chain(&mut self.current) {
            known.at += gap.saturating_sub(LONGEST_GAP);
        }
        let is_other = self.last() != Some(&report.address);
        let new = Dated { report, at: now };
        if let Some(last) = self.last.get_mut(place) {
            *last = Some(new.clone());
        }
        if let Some(Dated { report: current, .. }) = self.current.as_ref().filter(|current| current.is_known(now)) {
            let is_outvoted = || is_other && self.votes(now, current) >= self.votes(now, &new.report);
            if new.report.epoch < current.epoch || new.report.epoch == current.epoch && is_outvoted() {
                return false;
            }
        }
        self.current = Some(new);
        is_other
    }

    /// How many sentinels report this now.
    fn votes(&self, now: Instant, report: &Report) -> usize {
        self.last.iter().flatten().filter(|last| last.is_known(now) && last.report == *report).count()
    }

    /// The primary. None before the first report, and while no sentinel repeats the last one.
    pub(super) fn primary(&self, now: Instant) -> Option<&Address> {
        self.current.as_ref().filter(|current| current.is_known(now)).map(|current| &current.report.address)
    }

    /// The last known primary.
    pub(super) fn last(&self) -> Option<&Address> {
        self.current.as_ref().map(|current| &current.report.address)
    }
}

impl Dated {
    fn is_known(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) <= FORGOTTEN
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
            Self { reports: Reports::of(3), now: Instant::now() }
        }

        /// The sentinel at this place answers.
        fn says(&mut self, place: usize, port: u16, epoch: u64) -> bool {
            self.reports.take(self.now, place, Report { address: address(port), epoch })
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
                world.says(place, port, epoch);
            }
            assert_eq!(world.primary(), Some(address(2)), "from the answer {first} on");
        }
    }

    #[test]
    fn a_sentinel_that_goes_on_naming_the_old_primary_is_never_believed() {
        let mut world = World::new();
        assert!(world.says(0, 1, 4), "the first answer always counts");
        assert!(world.says(1, 2, 5));
        for _ in 0..100 {
            world.now += SECOND * 5;
            assert!(!world.says(0, 1, 4));
            assert!(!world.says(1, 2, 5), "it is the primary already");
            assert_eq!(world.primary(), Some(address(2)));
        }
    }

    #[test]
    fn in_one_epoch_the_server_that_most_sentinels_name_counts_whoever_answers_last() {
        for stale in 0..3 {
            let mut world = World::new();
            for _ in 0..20 {
                world.says(stale, 1, 0);
                world.says((stale + 1) % 3, 2, 0);
                world.says((stale + 2) % 3, 2, 0);
                assert_eq!(world.primary(), Some(address(2)));
                assert!(!world.says(stale, 1, 0), "the stale one answers last");
                assert_eq!(world.primary(), Some(address(2)));
                world.now += SECOND * 5;
            }
        }
    }

    #[test]
    fn in_one_epoch_a_sentinel_can_change_its_mind() {
        let mut world = World::new();
        world.says(0, 1, 5);
        assert!(world.says(0, 2, 5));
        assert_eq!(world.primary(), Some(address(2)));
    }

    #[test]
    fn in_one_epoch_sentinels_that_are_silent_no_longer_count() {
        let mut world = World::new();
        world.says(0, 1, 0);
        world.says(1, 1, 0);
        for _ in 0..6 {
            world.now += SECOND * 5;
            assert!(!world.says(2, 2, 0), "it is alone");
        }
        world.now += SECOND * 5;
        assert!(world.says(2, 2, 0));
        assert_eq!(world.primary(), Some(address(2)));
    }

    #[test]
    fn sentinels_that_were_all_set_up_anew_are_believed_after_half_a_minute() {
        let mut world = World::new();
        world.says(0, 1, 5);
        for _ in 0..6 {
            world.now += SECOND * 5;
            assert!(!world.says(0, 2, 0));
        }
        assert_eq!(world.primary(), Some(address(1)));
        world.now += SECOND;
        assert_eq!(world.primary(), None, "no sentinel has repeated its report");
        assert_eq!(world.reports.last(), Some(&address(1)));
        assert!(world.says(0, 2, 0));
        assert_eq!(world.primary(), Some(address(2)));
    }

    #[test]
    fn a_pause_of_this_process_makes_no_report_older() {
        let mut world = World::new();
        world.says(1, 2, 5);
        world.now += SECOND * 3_600;
        assert_eq!(world.primary(), None, "the sentinels must repeat their reports first");
        assert!(!world.says(0, 1, 4), "the stale sentinel answers first");
        assert_eq!(world.reports.last(), Some(&address(2)));
        world.says(1, 2, 5);
        assert_eq!(world.primary(), Some(address(2)));
    }
}
