//! Writes the JavaScript around a WebAssembly module.

use std::error::Error;
use std::fs;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use wasm_bindgen_cli_support::Bindgen;

pub(crate) fn bind(module: &str, directory: &str) -> Result<(), Box<dyn Error>> {
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module);
    // Our code loads the module. Without this, the generated code would look for it in its own directory, with `import.meta`.
    bindgen.web(true)?.omit_default_module_path(true);
    bindgen.typescript(true).remove_name_section(true).remove_producers_section(true);
    bindgen.generate(directory)?;
    Ok(())
}

/// A page that is opened from a file can load neither a JavaScript module nor a `.wasm` file. So this is a plain script, with the
/// WebAssembly as base64 in the constant `WASM`. The script defines `wasm_bindgen`, which starts it.
pub(crate) fn script(module: &str, file: &str) -> Result<(), Box<dyn Error>> {
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module);
    bindgen.no_modules(true)?.omit_default_module_path(true);
    bindgen.typescript(false).remove_name_section(true).remove_producers_section(true);
    let mut output = bindgen.generate_output()?;
    let wasm = BASE64_STANDARD.encode(output.wasm_mut().emit_wasm());
    fs::write(file, format!("// Made by `cargo xtask playground`.\n{}\nconst WASM = '{wasm}';\n", output.js()))?;
    Ok(())
}
