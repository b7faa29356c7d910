//! Writes the scripts as a TypeScript module.

use std::error::Error;
use std::fmt::Write;

use leasehold_lua::ALL;

/// Maps the digest of each script to its text. Texts are split into parts; a part that scripts share is written once.
pub(crate) fn module() -> Result<String, Box<dyn Error>> {
    let mut parts: Vec<&str> = Vec::new();
    let mut scripts = String::new();
    for script in ALL {
        // RESP needs the length in bytes, but JavaScript counts UTF-16 units. In ASCII they are equal.
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
        // For ASCII, Rust's escapes are valid in JavaScript.
        writeln!(texts, "  {part:?},")?;
    }
    Ok(format!(
        "export const PARTS: readonly string[] = [\n{texts}];\n\n\
         export const SCRIPTS: Readonly<Record<string, readonly number[]>> = {{\n{scripts}}};\n"
    ))
}
