use clap::Args;

use crate::tools::error::Result;
use crate::tools::{node, package};

/// Build the npm package, `target/npm/leasehold-<version>.tgz`, and check it; skips what is up to date
#[derive(Args)]
pub(crate) struct Options {
    /// Build only the WebAssembly and its JavaScript, which the sources import. Enough for the unit tests
    #[arg(long)]
    wasm_only: bool,
    /// Make the tarball without checks, and install it beside the demo's worker
    #[arg(long, hide = true, conflicts_with = "wasm_only")]
    for_demo: bool,
}

pub(crate) fn make(options: &Options) -> Result {
    if options.wasm_only {
        return package::generate();
    }
    let tarball = package::tarball()?;
    if options.for_demo { node::project(&node::examples(), &tarball).map(drop) } else { package::check(&tarball) }
}
