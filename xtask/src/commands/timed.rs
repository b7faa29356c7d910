//! The tests that measure time, load or fairness. They run one after the other, with nothing beside them.

use std::process::Command;

use leasehold_servers::find;

use super::interop;
use crate::tools::cargo::{cargo, run};
use crate::tools::error::Result;
use crate::tools::log::{self, say};
use crate::tools::node::{self, npm};
use crate::tools::report::Report;
use crate::tools::steps::Steps;
use crate::tools::workspace::{Package, TIMED, packages};
use crate::tools::{component, package};

/// Adds a step for each crate with such tests, and one for the npm package.
pub(crate) fn add_to(steps: &mut Steps) -> Result {
    say!("These tests measure, so they need a quiet machine. A failed test runs once more, by itself.");
    for package in packages()?.into_iter().filter(|package| package.has_timed_tests()) {
        steps.step(&format!("timed: {}", package.name), || twice(|words| command(&package, words)));
    }
    steps.step("timed: npm package", || {
        package::tarball()?;
        run(npm(&node::package(), &["run", "--silent", TIMED]).env("LEASEHOLD_SERVER", find()?))
    });
    Ok(())
}

/// Runs the tests of a crate. Those that fail run once more, each by itself.
fn twice(command: impl Fn(&[&str]) -> Result<Command>) -> Result {
    let Err(error) = run(&mut command(&["--test-threads=1", "--include-ignored"])?) else { return Ok(()) };
    let failed = Report::of(&log::so_far(), 1).failed;
    if failed.is_empty() {
        // The build failed, so no test ran.
        return Err(error);
    }
    for test in failed {
        let name = test.rsplit(' ').next().unwrap_or(&test);
        say!("{name} failed; running it once more, by itself");
        run(&mut command(&["--exact", "--include-ignored", name])?)?;
    }
    Ok(())
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
