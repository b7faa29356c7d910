use std::fs;

use clap::Args;

use crate::tools::component;
use crate::tools::error::Result;
use crate::tools::log::say;

/// Build the WASI components: `lock.wasm`, and `leasehold-tcp.wasm` with its own connection
#[derive(Args)]
pub(crate) struct Options {
    /// Build only `lock.wasm`
    #[arg(long)]
    lock_only: bool,
}

/// Builds the components and prints their paths.
pub(crate) fn make(options: &Options) -> Result {
    if options.lock_only {
        return component::lock().map(drop);
    }
    let lock = component::all()?;
    for component in [lock, component::place(component::TCP)] {
        say!("{}: {} bytes", component.display(), fs::metadata(&component)?.len());
    }
    Ok(())
}
