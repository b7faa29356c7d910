//! Builds the components with the Bytecode Alliance's tools, as libraries whose versions cargo pins.

mod plug;
mod strip;

use std::env;
use std::error::Error;
use std::fs;

use wit_component::ComponentEncoder;

const USAGE: &str = "usage:
  leasehold-componentize encode <module.wasm> <component.wasm>
      makes a component of a module that carries its world
  leasehold-componentize plug <needs.wasm> <provides.wasm> <component.wasm>
      joins two components: the second one's exports become the first one's imports";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["encode", module, component] => write(component, &encode(&read(module)?)?),
        ["plug", needs, provides, component] => write(component, &plug::plug(read(needs)?, read(provides)?)?),
        _ => Err(USAGE.into()),
    }
}

/// Like `wasm-tools component new`.
fn encode(module: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let component = ComponentEncoder::default().validate(true).module(&strip::strip(module)?)?.encode()?;
    Ok(strip::strip(&component)?)
}

fn read(path: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    Ok(fs::read(path).map_err(|error| format!("{path}: {error}"))?)
}

fn write(path: &str, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    Ok(fs::write(path, bytes).map_err(|error| format!("{path}: {error}"))?)
}
