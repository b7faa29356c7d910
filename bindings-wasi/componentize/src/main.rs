//! `leasehold-componentize <module.wasm> <component.wasm>`: wraps a module, whose bindings carry its world, into a component.
//!
//! It is what `wasm-tools component new` does, as a library whose version cargo keeps with the guests'.

mod strip;

use std::env;
use std::error::Error;
use std::fs;

use wit_component::ComponentEncoder;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [module, component] = arguments.as_slice() else {
        return Err("usage: leasehold-componentize <module.wasm> <component.wasm>".into());
    };
    let module = fs::read(module).map_err(|error| format!("{module}: {error}"))?;
    let encoded = ComponentEncoder::default().validate(true).module(&strip::strip(&module)?)?.encode()?;
    fs::write(component, strip::strip(&encoded)?).map_err(|error| format!("{component}: {error}"))?;
    Ok(())
}
