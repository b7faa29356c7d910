//! Removes sections that only debuggers need.

use wasm_encoder::{RawSection, Section};
use wasmparser::{Parser, Payload, Result};

/// A module or a component without its custom sections. Those that describe a module's world stay.
pub(crate) fn strip(binary: &[u8]) -> Result<Vec<u8>> {
    let mut stripped = binary.get(..8).unwrap_or(binary).to_vec();
    // Modules and components inside a component are copied unchanged, with all of their sections.
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(binary) {
        let payload = payload?;
        if depth == 0
            && is_needed(&payload)
            && let Some((id, range)) = payload.as_section()
        {
            let (start, end) = (usize::try_from(range.start).ok(), usize::try_from(range.end).ok());
            let data = start.zip(end).and_then(|(start, end)| binary.get(start..end)).unwrap_or_default();
            RawSection { id, data }.append_to(&mut stripped);
        }
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth = depth.saturating_add(1),
            Payload::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(stripped)
}

fn is_needed(payload: &Payload<'_>) -> bool {
    match payload {
        Payload::CustomSection(section) => section.name().starts_with("component-type"),
        _ => true,
    }
}
