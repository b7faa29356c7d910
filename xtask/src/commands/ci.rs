use super::docs;
use super::test::{self, Scope};
use crate::tools::cargo::{cargo, run};
use crate::tools::component;
use crate::tools::error::Result;
use crate::tools::steps::Steps;

/// Runs the cheap checks first, then every test.
pub(crate) fn run_all() -> Result {
    let mut steps = Steps::default();
    steps.step("format", || run(&mut cargo(&["fmt", "--all", "--check"])));
    steps.step("format of the component's host", || run(&mut component::host(&["fmt", "--all", "--check"])));
    steps.step("clippy", || {
        run(&mut cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--features",
            "leasehold-js/quorum",
            "--",
            "-D",
            "warnings",
        ]))
    });
    steps.step("docs", || run(cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings")));
    steps.step("manual", docs::build);
    test::add_to(&mut steps, Scope::Ci);
    steps.finish()
}
