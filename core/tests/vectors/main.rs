//! Replays the engine's transcripts in `tests/support/vectors`, whose README defines the format.
//!
//! `LEASEHOLD_BLESS=1` writes what the engine puts out into the files. Then review each change: a vector is a claim
//! about right behaviour.

mod coverage;
mod input;
mod layout;
mod output;
mod replay;

use std::path::{Path, PathBuf};

use serde_json::Value;

#[test]
fn the_engine_replays_every_vector() {
    let bless = std::env::var_os("LEASEHOLD_BLESS").is_some();
    let mut differences = String::new();
    for path in files() {
        let mut file = read(&path);
        let found = replay::replay(&mut file);
        if bless {
            std::fs::write(&path, layout::file(&file)).expect("the vector can be written");
        } else {
            for difference in found {
                differences.push_str(&format!("\n{}, {difference}", path.display()));
            }
        }
    }
    assert!(differences.is_empty(), "the engine differs from its vectors:\n{differences}");
}

#[test]
fn the_vectors_take_in_and_put_out_everything_an_engine_can() {
    let mut coverage = coverage::Coverage::default();
    for path in files() {
        coverage.add(&read(&path));
    }
    assert_eq!(coverage.missing(), Vec::<String>::new(), "no vector has these");
}

#[test]
fn every_vector_is_laid_out_as_blessing_does() {
    for path in files() {
        let text = std::fs::read_to_string(&path).expect("the vector can be read");
        assert!(text == layout::file(&read(&path)), "{}: lay it out with LEASEHOLD_BLESS=1", path.display());
    }
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/support/vectors");
    let entries = std::fs::read_dir(&folder).expect("tests/support/vectors is there");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("tests/support/vectors can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no vectors in {}", folder.display());
    files
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).expect("the vector can be read");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
