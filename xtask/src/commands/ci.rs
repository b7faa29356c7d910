use super::test::{self, Scope};
use super::{docs, lint};
use crate::tools::error::Result;
use crate::tools::steps::Steps;

/// Runs everything. The processor checks formats and lints while tests wait.
pub(crate) fn run_all() -> Result {
    let mut steps = Steps::default();
    let lints = lint::beside();
    steps.step("manual", docs::build);
    test::add_to(&mut steps, Scope::Ci);
    steps.step("formats, lints and docs", || lints?.wait());
    steps.finish()
}
