//! The engine as a component: `replay` takes a vector's text and returns how the engine's outputs differ from it.
//!
//! The code that reads and compares a vector is a test of `core/`. Here it runs as WebAssembly, built like
//! `lock.wasm`.

mod bindings;

#[path = "../../../../core/tests/vectors/input.rs"]
mod input;
#[allow(dead_code, reason = "whole files are laid out elsewhere")]
#[path = "../../../../core/tests/vectors/layout.rs"]
mod layout;
#[path = "../../../../core/tests/vectors/output.rs"]
mod output;
#[path = "../../../../core/tests/vectors/replay.rs"]
mod replay;

struct Component;

impl bindings::Guest for Component {
    fn replay(vector: String) -> Vec<String> {
        match serde_json::from_str(&vector) {
            Ok(mut vector) => replay::replay(&mut vector),
            Err(error) => vec![format!("not JSON: {error}")],
        }
    }
}
