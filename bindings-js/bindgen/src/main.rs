//! `leasehold-js-bindgen <module.wasm> <directory>` writes the WebAssembly with its JavaScript and its types.
//! `leasehold-js-bindgen --script <module.wasm> <file.js>` writes both as one script, which works in a page without a server.
//! `leasehold-js-bindgen <scripts.ts>` writes the texts of the scripts. The WebAssembly has only their digests.
//!
//! The first two do the same as the program `wasm-bindgen`, with a version that cargo keeps equal to the crate's.

#[cfg(feature = "modules")]
mod modules;
mod scripts;

use std::error::Error;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.as_slice() {
        #[cfg(feature = "modules")]
        [flag, module, file] if flag == "--script" => modules::script(module, file),
        #[cfg(feature = "modules")]
        [module, directory] => modules::bind(module, directory),
        [file] => Ok(fs::write(file, scripts::module()?)?),
        _ => Err(
            "usage: leasehold-js-bindgen <module.wasm> <directory> | --script <module.wasm> <file.js> | <scripts.ts>"
                .into(),
        ),
    }
}
