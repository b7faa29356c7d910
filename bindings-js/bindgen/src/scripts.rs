//! Writes the scripts as a TypeScript module.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write;

use leasehold_lua::{ALL, PREFIX};

/// Maps the beginning of each script's digest, which the engine sends, to the digest and the text. Texts are split into parts; a part that scripts share is written once.
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
        let prefix = String::from_utf8_lossy(&prefix).into_owned();
        let mut places = Vec::new();
        for part in script.parts.iter().copied().filter(|part| !part.is_empty()) {
            places.push(parts.iter().position(|other| *other == part).unwrap_or_else(|| {
                parts.push(part);
                parts.len() - 1
            }));
        }
        writeln!(scripts, "  '{prefix}': {{ digest: '{}', parts: {places:?} }}, // {}", script.sha1, script.name)?;
    }
    let mut texts = String::new();
    for part in parts {
        // For ASCII, Rust's escapes are valid in JavaScript.
        writeln!(texts, "  {part:?},")?;
    }
    Ok(format!(
        "export const PREFIX = {PREFIX};\n\nexport const PARTS: readonly string[] = [\n{texts}];\n\n\
         export const SCRIPTS: Readonly<Record<string, {{ readonly digest: string; readonly parts: readonly number[] }}>> = {{\n{scripts}}};\n"
    ))
}
