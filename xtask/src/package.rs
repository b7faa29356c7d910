use clap::Args;

use crate::cargo::{cargo, run, target};
use crate::error::{Error, Result};
use crate::node::{self, node};
use crate::wasm::{self, TARGET};

/// Make the npm package
#[derive(Args)]
pub(crate) struct Options {
    /// Only the WebAssembly and the JavaScript around it, which the sources import: enough for the unit tests
    #[arg(long)]
    wasm_only: bool,
}

pub(crate) fn make(options: &Options) -> Result {
    node::check()?;
    let package = node::package();
    node::install(&package)?;
    build_wasm()?;
    run(&mut node(&package, &["build/wasm.mjs"]))?;
    if options.wasm_only {
        return Ok(());
    }
    Ok(())
}

/// Fills `bindings-js/generated/` with the engine and the JavaScript around it.
fn build_wasm() -> Result {
    wasm::add_target()?;
    run(&mut cargo(&["build", "--quiet", "--profile", "wasm", "--package", "leasehold-js", "--target", TARGET]))?;
    let module = target().join(TARGET).join("wasm").join("leasehold_js.wasm");
    let module = module.to_str().ok_or_else(|| Error::new("the path of the target directory is no Unicode"))?;
    let generated = node::package().join("generated");
    run(cargo(&["run", "--quiet", "--package", "leasehold-js-bindgen", "--", module]).arg(generated))
}
