//! The scripts as a TypeScript module.

use std::error::Error;
use std::fmt::Write;

use leasehold_lua::ALL;

/// Each script's text by its digest, in parts, of which those that are shared stand there once.
pub(crate) fn module() -> Result<String, Box<dyn Error>> {
    let mut parts: Vec<&str> = Vec::new();
    let mut scripts = String::new();
    for script in ALL {
        // The wire wants its length in bytes, and JavaScript counts characters.
        if !script.source.is_ascii() {
            return Err(format!("the script {} is not ASCII", script.name).into());
        }
        let mut places = Vec::new();
        for part in script.parts.into_iter().filter(|part| !part.is_empty()) {
            places.push(parts.iter().position(|other| *other == part).unwrap_or_else(|| {
                parts.push(part);
                parts.len() - 1
            }));
        }
        writeln!(scripts, "  '{}': {places:?}, // {}", script.sha1, script.name)?;
    }
    let mut texts = String::new();
    for part in parts {
        // Of ASCII, Rust's notation is JavaScript's.
        writeln!(texts, "  {part:?},")?;
    }
    Ok(format!(
        "export const PARTS: readonly string[] = [\n{texts}];\n\n\
         export const SCRIPTS: Readonly<Record<string, readonly number[]>> = {{\n{scripts}}};\n"
    ))
}
