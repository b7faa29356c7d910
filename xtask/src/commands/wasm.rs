use std::fs;

use crate::tools::cargo::run;
use crate::tools::error::{Error, Result};
use crate::tools::log::say;
use crate::tools::package;
use crate::tools::wasm::{TARGET, add_target};

/// Builds a program around the engine for bare WebAssembly, and checks that it imports nothing from its host.
pub(crate) fn check() -> Result {
    add_target()?;
    // With the profile and the directory of the playground, which has built the engine.
    let build = ["rustc", "--quiet", "--profile", "wasm", "--package", "leasehold-wasm-check", "--target", TARGET];
    run(package::apart(package::reproducible(&build)).args(["--", "-C", "strip=symbols"]))?;
    let path = package::directory().join(TARGET).join("wasm").join("leasehold-wasm-check.wasm");
    let module = fs::read(&path).map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
    match imports(&module) {
        Some(0) => {
            say!("the engine alone: {} KiB of WebAssembly, no imports", module.len() / 1024);
            Ok(())
        }
        Some(count) => Err(Error::new(format!("{} has {count} imports, but should have none", path.display()))),
        None => Err(Error::new(format!("{} is not a WebAssembly module", path.display()))),
    }
}

/// How many imports a module has. `None` if the bytes are not a module. A section is `id, length, content`; section 2
/// has the imports.
fn imports(module: &[u8]) -> Option<u64> {
    let mut rest = module.strip_prefix(b"\0asm\x01\0\0\0")?;
    while let Some((&id, after)) = rest.split_first() {
        let (length, content) = leb128(after)?;
        let (section, next) = content.split_at_checked(usize::try_from(length).ok()?)?;
        if id == 2 {
            return leb128(section).map(|(count, _)| count);
        }
        rest = next;
    }
    Some(0)
}

/// An unsigned number in WebAssembly's variable-length encoding, and the bytes after it.
fn leb128(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let end = bytes.iter().take(9).position(|byte| byte & 0x80 == 0)?;
    let (number, rest) = bytes.split_at_checked(end + 1)?;
    Some((number.iter().rev().fold(0, |sum, byte| sum << 7 | u64::from(byte & 0x7f)), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &[u8] = b"\0asm\x01\0\0\0";

    #[test]
    fn imports_are_counted() {
        let custom: &[u8] = &[0, 2, 1, b'x'];
        let two_imports: &[u8] = &[2, 3, 2, 9, 9];
        assert_eq!(imports(EMPTY), Some(0));
        assert_eq!(imports(&[EMPTY, custom].concat()), Some(0));
        assert_eq!(imports(&[EMPTY, custom, two_imports].concat()), Some(2));
        assert_eq!(imports(b"#!/bin/sh"), None);
    }
}
