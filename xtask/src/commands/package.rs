use clap::Args;

use crate::tools::error::Result;
use crate::tools::package::{self, Effort};
use crate::tools::quick_package;

/// Build the npm package, `target/npm/leasehold-<version>.tgz`, and check it; skips what is up to date
#[derive(Args)]
pub(crate) struct Options {
    /// Build only the WebAssembly and its JavaScript, which the sources import. Enough for the unit tests
    #[arg(long)]
    wasm_only: bool,
    /// Build without optimisation and without size limits, as `cargo xtask test` does
    #[arg(long, requires = "wasm_only")]
    quick: bool,
    /// Also run the unit tests in bindings-js/ts
    #[arg(long, requires = "wasm_only")]
    test: bool,
    /// Build a package that only the demo uses, as fast as possible
    #[arg(long, hide = true, conflicts_with = "wasm_only")]
    for_demo: bool,
}

pub(crate) fn make(options: &Options) -> Result {
    if options.for_demo {
        quick_package::make()
    } else if options.wasm_only {
        package::generate(if options.quick { Effort::Quick } else { Effort::Full })?;
        if options.test { package::test() } else { Ok(()) }
    } else {
        package::check(&package::tarball()?)
    }
}
