//! `leasehold-js-bindgen <module.wasm> <directory>` writes the WebAssembly with its JavaScript and its types.
//! `leasehold-js-bindgen <scripts.ts>` writes the texts of the scripts. The WebAssembly has only their digests.
//!
//! The first does the same as the program `wasm-bindgen`, with a version that cargo keeps equal to the crate's.

mod scripts;

use std::error::Error;
use std::{env, fs};

use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.as_slice() {
        [module, directory] => bind(module, directory),
        [file] => Ok(fs::write(file, scripts::module()?)?),
        _ => Err("usage: leasehold-js-bindgen <module.wasm> <directory> | <scripts.ts>".into()),
    }
}

fn bind(module: &str, directory: &str) -> Result<(), Box<dyn Error>> {
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module);
    // Our code loads the module. Without this, the generated code would look for it beside itself, with `import.meta`.
    bindgen.web(true)?.omit_default_module_path(true);
    bindgen.typescript(true).remove_name_section(true).remove_producers_section(true);
    bindgen.generate(directory)?;
    Ok(())
}
