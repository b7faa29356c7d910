//! The playground: builds the module of `docs/playground`, and tries the page in a browser.

use clap::Args;

use crate::tools::cargo::{self, root, target};
use crate::tools::error::Result;
use crate::tools::log::say;
use crate::tools::{node, playground};

/// The programs that try the page.
const PROGRAMS: &str = "tests/e2e/playground";

/// Build the playground, a page in docs/playground that shows a lock at work
#[derive(Args)]
pub(crate) struct Options {
    /// Also try the page in the machine's Chromium, and save pictures of it in target/playground
    #[arg(long)]
    test: bool,
}

/// Builds `docs/playground/engine.js`, and says how to open the page.
pub(crate) fn run(options: &Options) -> Result {
    if options.test {
        return try_in_browser();
    }
    let page = playground::build()?;
    say!("open {} in a browser", page.join("index.html").display());
    Ok(())
}

/// Tries the page in a headless Chromium, and saves pictures of it. Skipped where no Chromium is installed.
pub(crate) fn try_in_browser() -> Result {
    let page = playground::build()?;
    node::check()?;
    let project = node::project_with(&root().join(PROGRAMS), None)?;
    let mut command = node::node(&project, &["--test", "--test-reporter=spec", "playground.test.mjs"]);
    cargo::run(command.env("PLAYGROUND", page).env("PICTURES", target().join("playground")))
}
