//! Runs many seeds on a few threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::coverage::Coverage;
use crate::injected_bugs::InjectedBugs;
use crate::invariants::Broken;
use crate::run::Bench;
use crate::theme::Theme;
use crate::world::Counts;

/// How many seeds a thread takes at a time.
const HANDFUL: u64 = 32;
/// After this many failures, the run stops.
const ENOUGH: usize = 20;

/// The result of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// How many ran.
    pub seeds: u64,
    /// What happened in them.
    pub counts: Counts,
    /// Which faults struck in which states.
    pub coverage: Coverage,
    /// The seeds that failed, and how.
    pub failures: Vec<(u64, Broken)>,
    /// How long it took.
    pub took: Duration,
}

/// Which seeds to run, and how.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The first seed.
    pub start: u64,
    /// How many seeds.
    pub seeds: u64,
    /// Only this theme.
    pub theme: Option<Theme>,
    /// How many threads.
    pub jobs: usize,
    /// The deliberate bug, if any.
    pub bugs: InjectedBugs,
    /// Stop at the first failure.
    pub first_only: bool,
}

impl Campaign {
    /// Runs the seeds. `progress` is called from time to time with the summary so far.
    ///
    /// # Errors
    /// If a deliberate bug no longer fits the scripts.
    pub fn run(&self, progress: impl Fn(&Summary) + Sync) -> Result<Summary, String> {
        let next = AtomicU64::new(self.start);
        let sum = Mutex::new(Summary::default());
        let began = Instant::now();
        std::thread::scope(|scope| {
            let work = || self.work(&next, &sum, began, &progress);
            let threads: Vec<_> = (0..self.jobs).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into())))
        })?;
        let mut sum = sum.into_inner().map_err(|_| "a thread panicked")?;
        sum.failures.sort_by_key(|(seed, _)| *seed);
        sum.took = began.elapsed();
        Ok(sum)
    }

    fn work(
        &self,
        next: &AtomicU64,
        sum: &Mutex<Summary>,
        began: Instant,
        progress: &(impl Fn(&Summary) + Sync),
    ) -> Result<(), String> {
        let mut bench = Bench::new(self.bugs)?;
        let end = self.start + self.seeds;
        loop {
            let first = next.fetch_add(HANDFUL, Ordering::Relaxed);
            if first >= end {
                return Ok(());
            }
            let mut part = Summary::default();
            for seed in first..end.min(first + HANDFUL) {
                part.note(bench.run(seed, self.theme));
                if self.first_only && !part.failures.is_empty() {
                    break;
                }
            }
            let mut sum = sum.lock().map_err(|_| "a thread panicked")?;
            sum.add(part);
            sum.took = began.elapsed();
            progress(&sum);
            if sum.failures.len() >= if self.first_only { 1 } else { ENOUGH } {
                next.store(end, Ordering::Relaxed);
            }
        }
    }
}

impl Summary {
    fn note(&mut self, report: crate::run::Report) {
        self.seeds += 1;
        self.counts.add(&report.counts);
        self.coverage.add(&report.coverage);
        self.failures.extend(report.broken.map(|broken| (report.seed, broken)));
    }

    /// Adds another summary.
    pub fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.counts.add(&other.counts);
        self.coverage.add(&other.coverage);
        self.failures.extend(other.failures);
        self.took += other.took;
    }

    /// Seeds per second.
    pub fn rate(&self) -> f64 {
        self.seeds as f64 / self.took.as_secs_f64().max(0.001)
    }

    /// One line for the user.
    pub fn line(&self) -> String {
        format!(
            "{} seeds, {:.0}/s, {} script calls, {} faults, {} grants ({} inside a client), {} losses, {} virtual hours, {} failed",
            self.seeds,
            self.rate(),
            self.counts.calls,
            self.counts.faults,
            self.counts.grants,
            self.counts.local,
            self.counts.losses,
            self.counts.micros / 3_600_000_000,
            self.failures.len()
        )
    }
}
