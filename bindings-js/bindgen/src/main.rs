//! `leasehold-js-bindgen <module.wasm> <directory>` writes the WebAssembly with its JavaScript and its types.
//! `leasehold-js-bindgen --script <module.wasm> <file.js>` writes both as one script, which works in a page without a server.
//! `leasehold-js-bindgen <scripts.ts>` writes the texts of the scripts. The WebAssembly has only their digests.
//!
//! The first two do the same as the program `wasm-bindgen`, with a version that cargo keeps equal to the crate's.

mod scripts;

use std::error::Error;
use std::{env, fs};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.as_slice() {
        [flag, module, file] if flag == "--script" => script(module, file),
        [module, directory] => bind(module, directory),
        [file] => Ok(fs::write(file, scripts::module()?)?),
        _ => Err(
            "usage: leasehold-js-bindgen <module.wasm> <directory> | --script <module.wasm> <file.js> | <scripts.ts>"
                .into(),
        ),
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

/// A page that is opened from a file can load neither a JavaScript module nor a `.wasm` file. So this is a plain script, with the
/// WebAssembly as base64 in the constant `WASM`. The script defines `wasm_bindgen`, which starts it.
fn script(module: &str, file: &str) -> Result<(), Box<dyn Error>> {
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module);
    bindgen.no_modules(true)?.omit_default_module_path(true);
    bindgen.typescript(false).remove_name_section(true).remove_producers_section(true);
    let mut output = bindgen.generate_output()?;
    let wasm = BASE64_STANDARD.encode(output.wasm_mut().emit_wasm());
    fs::write(file, format!("// Made by `cargo xtask playground`.\n{}\nconst WASM = '{wasm}';\n", output.js()))?;
    Ok(())
}
