use std::time::{Duration, Instant};

use super::error::{Error, Result};
use super::log::{self, clock};
use super::report::{Report, Tally};

/// Runs named steps one after the other, and prints a line for each.
///
/// The output of a step is printed only if the step fails. A failed step doesn't end the run, so that one run reports every
/// failure.
#[derive(Default)]
pub(crate) struct Steps {
    began: Option<Instant>,
    total: Report,
    /// Whether the Rust tests of a step run one after the other, and not [`THREADS`] at a time.
    pub(crate) one_by_one: bool,
    /// What this run leaves out.
    left_out: Vec<&'static str>,
}

/// How many of the slowest tests and files are listed.
const LISTED: usize = 10;
/// How many of the failed tests are listed.
const FAILURES: usize = 7;

/// How many Rust tests run at the same time. Most of them wait for a server or for another process.
pub(crate) const THREADS: usize = 6;

impl Steps {
    /// Runs a step. It counts as the tests that its output reports, or else as one test.
    pub(crate) fn step(&mut self, name: &str, work: impl FnOnce() -> Result) {
        let began = Instant::now();
        self.began.get_or_insert(began);
        let (outcome, lines) = log::during(name, work);
        let mut report = Report::of(&lines, if self.one_by_one { 1 } else { THREADS });
        // A test can end its program with success.
        let all_passed = if report.tally.failed == 0 { Ok(()) } else { Err(Error::new("not every test passed")) };
        let outcome = outcome.and(all_passed);
        if let Err(error) = &outcome {
            lines.iter().for_each(|line| println!("{}", line.text));
            println!("==> {name}: {error}");
            if report.failed.is_empty() {
                report.failed.push(name.to_owned());
            }
            // A step that fails outside its tests, as a build does, counts as one failure.
            report.tally.failed = report.tally.failed.max(1);
        } else if report.tally == Tally::default() {
            report.tally.passed = 1;
        }
        let Tally { passed, failed, skipped } = report.tally;
        let result = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!(
            "{}  {name:<44} {passed:>5} passed {failed:>3} failed {skipped:>3} skipped  {result}",
            clock(began.elapsed())
        );
        self.total += report;
    }

    /// Notes what only a longer run includes.
    pub(crate) fn leave_out(&mut self, what: &'static str) {
        self.left_out.push(what);
    }

    /// Prints what took long, what was left out, and what failed. Returns an error if anything failed.
    pub(crate) fn finish(self) -> Result {
        let Self { began, total, left_out, .. } = self;
        if !left_out.is_empty() {
            println!("\nThis run left out what `cargo xtask test --full` runs:");
            left_out.iter().for_each(|what| println!("  {what}"));
        }
        slowest("The slowest test files:", total.files.into_iter().collect());
        slowest("The slowest tests:", total.tests);
        let Tally { passed, failed, skipped } = total.tally;
        println!("\n{}  in all", clock(began.map(|began| began.elapsed()).unwrap_or_default()));
        println!("{passed} passed, {failed} failed, {skipped} skipped");
        total.failed.iter().take(FAILURES).for_each(|name| println!("failed: {name}"));
        if total.failed.len() > FAILURES {
            println!("failed: {} more; see above", total.failed.len() - FAILURES);
        }
        if failed == 0 { Ok(()) } else { Err(Error::new("not everything passed")) }
    }
}

fn slowest(title: &str, mut times: Vec<(String, Duration)>) {
    if times.is_empty() {
        return;
    }
    times.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
    println!("\n{title}");
    for (name, took) in times.iter().take(LISTED) {
        println!("{:>7.1} s  {name}", took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::background::Background;
    use super::super::cargo::run;
    use super::*;

    #[test]
    fn a_failed_step_is_named_and_does_not_end_the_run() {
        let mut steps = Steps::default();
        steps.step("tests", || {
            let lines = ["running 8 tests", "test result: ok. 8 passed; 0 failed; 1 ignored"];
            run(Command::new("printf").arg("%s\n%s\n").args(lines))
        });
        steps.step("nothing", || run(&mut Command::new("false")));
        steps.step("order", || {
            run(Command::new("sh").args(["-c", "echo one; echo; echo two >&2; printf '\\377three'"]))?;
            let lines: Vec<_> = log::so_far().into_iter().map(|line| line.text).collect();
            if lines == ["one", "", "two", "\u{fffd}three"] { Ok(()) } else { Err(Error::new(format!("{lines:?}"))) }
        });
        assert_eq!(steps.total.tally, Tally { passed: 9, failed: 1, skipped: 1 });
        assert_eq!(steps.total.failed, ["nothing"]);
        assert!(steps.finish().is_err());
    }

    #[test]
    fn a_step_whose_failed_tests_pass_when_repeated_passes_and_one_that_only_seems_to_pass_fails() {
        let print = |lines: &[&str]| run(Command::new("printf").arg("%s\n".repeat(lines.len())).args(lines));
        let mut steps = Steps::default();
        let first = ["running 3 tests", "test a ... FAILED", "test result: FAILED. 2 passed; 1 failed; 0 ignored"];
        let again = ["running once more: a", "running 1 test", "test result: ok. 1 passed; 0 failed; 0 ignored"];
        steps.step("repeated", || print(&[first, again].concat()));
        assert_eq!(steps.total.tally, Tally { passed: 3, failed: 0, skipped: 0 });
        assert!(steps.total.failed.is_empty());
        // A test ended the whole program with success.
        steps.step("cut off", || print(&["     Running tests/a.rs (target/debug/deps/a-01)", "running 3 tests"]));
        assert_eq!(steps.total.failed, ["a ended before its tests"]);
        assert!(steps.finish().is_err());
    }

    #[test]
    fn tests_that_run_one_after_the_other_are_timed_so() {
        let mut steps = Steps { one_by_one: true, ..Steps::default() };
        let script = "echo running 2 tests; sleep 0.1; echo test a ... ok; sleep 0.1; echo test b ... ok; \
                      echo 'test result: ok. 2 passed; 0 failed; 0 ignored'";
        let began = Instant::now();
        steps.step("tests", || run(Command::new("sh").args(["-c", script])));
        let took: Duration = steps.total.tests.iter().map(|(_, took)| *took).sum();
        assert!(took <= began.elapsed(), "{took:?}");
        assert_eq!(steps.total.tests.len(), 2);
    }

    #[test]
    fn the_command_of_a_step_can_be_ended_together_with_what_it_starts() {
        let mut steps = Steps::default();
        let leads_its_group = r#"test "$(ps -o pgid= -p $$ | tr -d ' ')" = $$"#;
        steps.step("group", || run(Command::new("sh").args(["-c", leads_its_group])));
        steps.finish().unwrap();
    }

    #[test]
    fn what_a_command_leaves_behind_is_ended() {
        let mut steps = Steps::default();
        let script = "(sleep 60; echo late) & echo in time";
        steps.step("step", || {
            run(Command::new("sh").args(["-c", script]))?;
            let mut background = Command::new("sh");
            background.args(["-c", script]);
            Background::start("this", background)?.wait()?;
            let lines: Vec<_> = log::so_far().into_iter().map(|line| line.text).collect();
            if lines == ["in time"; 2] { Ok(()) } else { Err(Error::new(format!("{lines:?}"))) }
        });
        steps.finish().unwrap();
    }
}
