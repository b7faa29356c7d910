//! `leasehold-js-bindgen <module.wasm> <directory>`: writes the JavaScript, its types and the WebAssembly that go together.
//! `leasehold-js-bindgen <scripts.ts>`: writes the texts of the scripts, which the WebAssembly names by their digests.
//!
//! The first is what the program `wasm-bindgen` does, as a library whose version cargo keeps equal to the crate's.

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
    // Where the module comes from is ours to say: without this the code would look beside itself, by `import.meta`.
    bindgen.web(true)?.omit_default_module_path(true);
    bindgen.typescript(true).remove_name_section(true).remove_producers_section(true);
    bindgen.generate(directory)?;
    Ok(())
}
