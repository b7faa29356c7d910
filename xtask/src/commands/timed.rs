//! The tests that measure time, load or fairness. They run one after the other, with nothing beside them.

use std::process::Command;

use leasehold_servers::find;

use super::{interop, torture};
use crate::tools::cargo::{cargo, run};
use crate::tools::component;
use crate::tools::error::Result;
use crate::tools::log::{self, say};
use crate::tools::report::{AGAIN, Report};
use crate::tools::steps::Steps;
use crate::tools::workspace::{Package, TIMED, packages};

/// Adds a step for each crate with such tests.
pub(crate) fn add_to(steps: &mut Steps) -> Result {
    say!("These tests measure, so they need a quiet machine. A failed test runs once more, by itself.");
    steps.one_by_one = true;
    for package in packages()?.into_iter().filter(|package| package.has_timed_tests()) {
        steps.step(&format!("timed: {}", package.name), || twice(|words| command(&package, words)));
    }
    steps.step("drills: elections, once and limits", || torture::torture(&torture::Options::of_drills()));
    Ok(())
}

/// Runs the tests of a crate. Those that fail run once more, each by itself.
fn twice(command: impl Fn(&[&str]) -> Result<Command>) -> Result {
    let Err(error) = run(&mut command(&["--test-threads=1", "--include-ignored"])?) else { return Ok(()) };
    let Report { failed, is_cut_off, .. } = Report::of(&log::so_far(), 1);
    if failed.is_empty() || is_cut_off {
        // The build failed, or not every test ran.
        return Err(error);
    }
    let names: Vec<_> = failed.iter().map(|test| test.rsplit(' ').next().unwrap_or(test)).collect();
    say!("{AGAIN}{}", names.join(" "));
    let again = |name: &&str| run(&mut command(&["--exact", "--include-ignored", name])?);
    // Each of them runs, also after one that fails again.
    names.iter().map(again).fold(Ok(()), Result::and)
}

fn command(package: &Package, words: &[&str]) -> Result<Command> {
    let mut command = if !package.is_at_root {
        let mut command = component::host(&["test"]);
        command.env("LEASEHOLD_LOCK_WASM", component::all()?);
        command
    } else {
        cargo(&["test"])
    };
    if package.name == interop::PACKAGE {
        interop::prepare(&interop::ALL, &mut command)?;
    }
    command.args(["--package", &package.name, "--test", TIMED, "--"]).args(words);
    command.env("LEASEHOLD_SERVER", find()?);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::twice;
    use crate::tools::log;

    /// What runs after a first run that prints this and fails. Repeated, a test called `bad` fails again.
    fn repeated(first: &str) -> (bool, Vec<String>) {
        let script = format!(
            r#"case "$*" in *--exact*bad) echo "$*"; false;; *--exact*) echo "$*";; *) echo '{first}'; false;; esac"#
        );
        let (outcome, lines) = log::during("timed", || {
            twice(|words| {
                let mut command = Command::new("sh");
                command.args(["-c", &script, "sh"]).args(words);
                Ok(command)
            })
        });
        (outcome.is_ok(), lines.into_iter().map(|line| line.text).filter(|line| line.starts_with("--exact")).collect())
    }

    #[test]
    fn every_failed_test_is_repeated_but_not_if_some_did_not_run() {
        let header = "     Running tests/timed/main.rs (target/debug/deps/timed-01)\nrunning 3 tests";
        let result = "test result: FAILED. 1 passed; 2 failed; 0 ignored";
        let both = format!("{header}\ntest a::bad ... FAILED\ntest a::good ... FAILED\n");
        let words = ["a::bad", "a::good"].map(|name| format!("--exact --include-ignored {name}"));
        assert_eq!(repeated(&format!("{both}{result}")), (false, words.to_vec()));
        let good = format!("{header}\ntest a::good ... FAILED\n");
        assert_eq!(repeated(&format!("{good}{result}")), (true, words[1..].to_vec()));
        assert_eq!(repeated(&good), (false, Vec::new()));
        assert_eq!(repeated("error: could not compile"), (false, Vec::new()));
    }
}
