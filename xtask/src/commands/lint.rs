use std::process::Command;

use crate::tools::background::Background;
use crate::tools::cargo::{cargo, is_linting, ourselves, root, run, target, unlinted};
use crate::tools::component;
use crate::tools::error::Result;
use crate::tools::steps::Steps;
use crate::tools::workspace::{TIMED, packages};

/// Checks what needs no test.
pub(crate) fn run_all() -> Result {
    let mut steps = Steps::default();
    steps.step("format", || run(&mut cargo(&["fmt", "--all", "--check"])));
    steps.step("format of the component's host", || run(&mut component::host(&["fmt", "--all", "--check"])));
    steps.step("format of the web service", || {
        run(cargo(&["fmt", "--check"]).current_dir(root().join("examples/service")))
    });
    if !is_linting() {
        clippy(&mut steps);
    }
    // Tests and the other packages turn features on.
    steps.step("clippy without features", || {
        // The component is built without features in any case.
        let provider = ["--package", "leasehold-tcp-connection"];
        let mut command = apart(&["clippy", "--lib", "--package", "leasehold"]);
        run(command.args(provider.iter().filter(|_| !is_linting())).args(["--", "-D", "warnings"]))
    });
    steps.step("docs", || {
        let published = packages()?.into_iter().filter(|package| package.is_published);
        let mut command = apart(&["doc", "--no-deps"]);
        command.args(published.flat_map(|package| ["--package".to_owned(), package.name]));
        run(command.env("RUSTDOCFLAGS", "-D warnings"))
    });
    steps.finish()
}

/// Checks all crates, where clippy doesn't compile their tests.
fn clippy(steps: &mut Steps) {
    steps.step("clippy", || {
        let everything = ["clippy", "--workspace", "--all-targets", "--features", "leasehold-js/quorum"];
        run(apart(&everything).args(["--", "-D", "warnings"]))
    });
    // `--all-targets` leaves these targets out, because plain `cargo test` doesn't run them.
    steps.step("clippy of the tests that measure", || {
        let all = packages()?.into_iter().filter(|package| package.has_timed_tests() && package.is_at_root);
        let mut command = apart(&["clippy", "--test", TIMED]);
        run(command.args(all.flat_map(|package| ["--package".to_owned(), package.name])).args(["--", "-D", "warnings"]))
    });
}

/// The same, beside tests.
pub(crate) fn beside() -> Result<Background> {
    Background::start("formats, lints and docs", ourselves(&["lint"])?)
}

/// A cargo command with a target directory of its own, because cargo locks it.
fn apart(arguments: &[&str]) -> Command {
    let mut command = unlinted(cargo(arguments));
    command.env("CARGO_TARGET_DIR", target().join("lint"));
    command
}
