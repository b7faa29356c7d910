use crate::cargo::{cargo, run};
use crate::component;
use crate::docs;
use crate::error::Result;
use crate::steps::Steps;
use crate::test::{self, Scope};

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
