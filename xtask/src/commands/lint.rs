use std::env;
use std::process::Command;

use crate::tools::background::Background;
use crate::tools::cargo::{cargo, run, target};
use crate::tools::component;
use crate::tools::error::Result;
use crate::tools::steps::Steps;

/// Checks what needs no test.
pub(crate) fn run_all() -> Result {
    let mut steps = Steps::default();
    steps.step("format", || run(&mut cargo(&["fmt", "--all", "--check"])));
    steps.step("format of the component's host", || run(&mut component::host(&["fmt", "--all", "--check"])));
    steps.step("clippy", || {
        let everything = ["clippy", "--workspace", "--all-targets", "--features", "leasehold-js/quorum"];
        run(apart(&everything).args(["--", "-D", "warnings"]))
    });
    // Tests and the other packages turn features on.
    steps.step("clippy without features", || {
        let packages = ["--package", "leasehold", "--package", "leasehold-tcp-connection"];
        run(apart(&["clippy", "--lib"]).args(packages).args(["--", "-D", "warnings"]))
    });
    steps.step("docs", || {
        let published = [
            "doc",
            "--no-deps",
            "-p",
            "leasehold-lua",
            "-p",
            "leasehold-core",
            "-p",
            "leasehold-memory",
            "-p",
            "leasehold",
        ];
        run(apart(&published).env("RUSTDOCFLAGS", "-D warnings"))
    });
    steps.finish()
}

/// The same, beside tests.
pub(crate) fn beside() -> Result<Background> {
    Background::start("formats, lints and docs", Command::new(env::current_exe()?).arg("lint"))
}

/// A cargo command with a target directory of its own, because cargo locks it.
fn apart(arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    command.env("CARGO_TARGET_DIR", target().join("lint"));
    command
}
