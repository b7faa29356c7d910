//! Taking out of a module what only debuggers read.

use wasm_encoder::{Module, RawSection};
use wasmparser::{Parser, Payload, Result};

/// The module without its custom sections, but for those that describe its world.
pub(crate) fn strip(module: &[u8]) -> Result<Vec<u8>> {
    let mut stripped = Module::new();
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload?;
        let is_needed = match &payload {
            Payload::CustomSection(section) => section.name().starts_with("component-type"),
            _ => true,
        };
        let Some((id, range)) = payload.as_section().filter(|_| is_needed) else { continue };
        let (start, end) = (usize::try_from(range.start).ok(), usize::try_from(range.end).ok());
        let data = start.zip(end).and_then(|(start, end)| module.get(start..end)).unwrap_or_default();
        stripped.section(&RawSection { id, data });
    }
    Ok(stripped.finish())
}
