use super::test::{self, Scope};
use super::{docs, lint};
use crate::tools::cargo::lint_what_is_built;
use crate::tools::error::Result;
use crate::tools::steps::Steps;

/// Runs everything. The processor checks formats and docs while tests wait, and clippy compiles the tests.
pub(crate) fn run_all() -> Result {
    lint_what_is_built();
    let mut steps = Steps::default();
    let lints = lint::beside();
    steps.step("manual", docs::build);
    test::add_to(&mut steps, Scope::Ci);
    steps.step("formats, lints and docs", || lints?.wait());
    steps.finish()
}
