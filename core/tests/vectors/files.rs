//! The files of the vectors.

use std::fs;
use std::path::{Path, PathBuf};
use std::vec::Vec;

use serde_json::Value;

pub(crate) fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/support/vectors");
    let entries = fs::read_dir(&folder).expect("tests/support/vectors is there");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("tests/support/vectors can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no vectors in {}", folder.display());
    files
}

pub(crate) fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).expect("the vector can be read");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
