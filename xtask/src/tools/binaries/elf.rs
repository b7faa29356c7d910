//! Reads whether a Linux program needs a dynamic linker, as `ldd` does.

/// The kind of a program header that names the dynamic linker.
const INTERPRETER: u32 = 3;

/// Whether the program runs without any shared library. None if it is no 64-bit little-endian ELF file.
pub(super) fn is_static(program: &[u8]) -> Option<bool> {
    if !program.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let start = usize::try_from(u64::from_le_bytes(bytes(program, 32)?)).ok()?;
    let size = usize::from(u16::from_le_bytes(bytes(program, 54)?));
    let count = usize::from(u16::from_le_bytes(bytes(program, 56)?));
    for header in 0..count {
        let at = size.checked_mul(header)?.checked_add(start)?;
        if u32::from_le_bytes(bytes(program, at)?) == INTERPRETER {
            return Some(false);
        }
    }
    Some(true)
}

fn bytes<const N: usize>(program: &[u8], at: usize) -> Option<[u8; N]> {
    program.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_no_programs() {
        for text in ["", "#!/bin/sh\n", "\x7fELF\x02\x01"] {
            assert_eq!(is_static(text.as_bytes()), None, "{text}");
        }
    }

    /// This test itself is linked to the C library.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_that_needs_the_dynamic_linker_is_found() {
        let this = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(is_static(&this), Some(cfg!(target_env = "musl")));
    }
}
