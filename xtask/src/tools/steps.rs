use std::time::{Duration, Instant};

use super::cargo::Tally;
use super::error::{Error, Result};

/// Runs named steps one after the other and prints a table of them.
///
/// A failed step doesn't end the run, so that one run reports every failure.
#[derive(Default)]
pub(crate) struct Steps {
    began: Option<Instant>,
    done: Vec<Done>,
    /// What this run leaves out.
    left_out: Vec<&'static str>,
}

struct Done {
    name: String,
    took: Duration,
    tally: Tally,
    outcome: Result,
}

impl Steps {
    /// Runs a step that passes or fails as a whole.
    pub(crate) fn step(&mut self, name: &str, work: impl FnOnce() -> Result) {
        self.counted(name, || {
            let outcome = work();
            let tally = Tally { passed: u64::from(outcome.is_ok()), failed: u64::from(outcome.is_err()), skipped: 0 };
            (tally, outcome)
        });
    }

    /// Runs a step that consists of several tests.
    pub(crate) fn counted(&mut self, name: &str, work: impl FnOnce() -> (Tally, Result)) {
        let began = Instant::now();
        let elapsed = began.duration_since(*self.began.get_or_insert(began));
        println!("\n==> {} {name} (at {})", self.done.len() + 1, clock(elapsed));
        let (mut tally, outcome) = work();
        if let Err(error) = &outcome {
            println!("==> {name}: {error}");
            // A step that fails outside its tests, as a build does, counts as one failure.
            tally.failed = tally.failed.max(1);
        }
        self.done.push(Done { name: name.to_owned(), took: began.elapsed(), tally, outcome });
    }

    /// Notes what only a longer run includes.
    pub(crate) fn leave_out(&mut self, what: &'static str) {
        self.left_out.push(what);
    }

    /// Prints the table, and what was left out. Returns an error if anything failed.
    pub(crate) fn finish(self) -> Result {
        let width = self.done.iter().map(|done| done.name.chars().count()).max().unwrap_or(0);
        println!("\n{:width$}  {:>6}  {:>6}  {:>6}  {:>7}", "step", "time", "passed", "failed", "skipped");
        let mut total = Tally::default();
        for Done { name, took, tally, outcome } in &self.done {
            let result = if outcome.is_ok() { "ok" } else { "FAILED" };
            let (time, Tally { passed, failed, skipped }) = (clock(*took), tally);
            println!("{name:width$}  {time:>6}  {passed:>6}  {failed:>6}  {skipped:>7}  {result}");
            total += *tally;
        }
        println!("{:width$}  {:>6}", "", clock(self.began.map(|began| began.elapsed()).unwrap_or_default()));
        println!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
        if !self.left_out.is_empty() {
            println!("\nOnly `cargo xtask test --full` runs:");
            self.left_out.iter().for_each(|what| println!("  {what}"));
        }
        if total.failed == 0 { Ok(()) } else { Err(Error::new("not everything passed")) }
    }
}

/// Minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
