use std::time::{Duration, Instant};

use crate::cargo::Tally;
use crate::error::{Error, Result};

/// Runs named steps one after the other, and prints a table of the results.
///
/// A failed step doesn't end the run, so one run reports everything that is wrong.
#[derive(Default)]
pub(crate) struct Steps {
    began: Option<Instant>,
    done: Vec<Done>,
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
            (Tally { passed: u64::from(outcome.is_ok()), failed: u64::from(outcome.is_err()) }, outcome)
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
            // A failure before or outside the tests, such as a failed build, counts as one failed test.
            tally.failed = tally.failed.max(1);
        }
        self.done.push(Done { name: name.to_owned(), took: began.elapsed(), tally, outcome });
    }

    /// Prints the table. Returns an error if anything failed.
    pub(crate) fn finish(self) -> Result {
        let width = self.done.iter().map(|done| done.name.chars().count()).max().unwrap_or(0);
        println!("\n{:width$}  {:>6}  {:>6}  {:>6}", "step", "time", "passed", "failed");
        let mut total = Tally::default();
        for Done { name, took, tally, outcome } in &self.done {
            let result = if outcome.is_ok() { "ok" } else { "FAILED" };
            let (time, Tally { passed, failed }) = (clock(*took), tally);
            println!("{name:width$}  {time:>6}  {passed:>6}  {failed:>6}  {result}");
            total.passed += passed;
            total.failed += failed;
        }
        println!("{:width$}  {:>6}", "", clock(self.began.map(|began| began.elapsed()).unwrap_or_default()));
        println!("{} passed, {} failed", total.passed, total.failed);
        if total.failed == 0 { Ok(()) } else { Err(Error::new("not everything passed")) }
    }
}

/// Minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
