//! Writes the scripts as a TypeScript module.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write;

use leasehold_lua::{ALL, PREFIX};

/// The digest of each script with the places of its parts. A part that scripts share is written once.
pub(crate) fn module() -> Result<String, Box<dyn Error>> {
    let mut parts: Vec<&str> = Vec::new();
    let mut scripts = String::new();
    let mut prefixes = BTreeSet::new();
    for script in ALL {
        // RESP needs the length in bytes, but JavaScript counts UTF-16 units. In ASCII they are equal.
        if !script.source.is_ascii() {
            return Err(format!("the script {} is not ASCII", script.name).into());
        }
        let prefix = script.prefix();
        if !prefixes.insert(prefix) {
            return Err(
                format!("the digest of {} begins as another one: raise leasehold_lua::PREFIX", script.name).into()
            );
        }
        write!(scripts, "  ['{}'", script.sha1)?;
        for part in script.parts.iter().copied().filter(|part| !part.is_empty()) {
            let place = parts.iter().position(|other| *other == part).unwrap_or_else(|| {
                parts.push(part);
                parts.len() - 1
            });
            write!(scripts, ", {place}")?;
        }
        writeln!(scripts, "], // {}", script.name)?;
    }
    let mut texts = String::new();
    for part in parts {
        // For ASCII, Rust's escapes are valid in JavaScript.
        writeln!(texts, "  {part:?},")?;
    }
    Ok(format!(
        "export const PREFIX = {PREFIX};\n\nexport const PARTS: readonly string[] = [\n{texts}];\n\n\
         export const SCRIPTS: readonly (readonly [digest: string, ...parts: number[]])[] = [\n{scripts}];\n"
    ))
}
