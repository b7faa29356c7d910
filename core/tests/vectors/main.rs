//! Replays the engine's transcripts in `tests/support/vectors`, whose README defines the format.
//!
//! `LEASEHOLD_BLESS=1` writes what the engine puts out into the files. Then review each change: a vector is a claim
//! about right behaviour. The crate's unit tests check that the vectors have everything that an engine can take in and put
//! out (`coverage.rs`).

mod files;
mod input;
mod layout;
mod output;
mod replay;

use files::{files, read};

#[test]
fn the_engine_replays_every_vector() {
    let bless = std::env::var_os("LEASEHOLD_BLESS").is_some();
    let mut differences = String::new();
    for path in files() {
        let mut file = read(&path);
        let found = replay::replay(&mut file);
        if bless {
            // The other test may read the file at this moment.
            let new = path.with_extension("new");
            let written = std::fs::write(&new, layout::file(&file)).and_then(|()| std::fs::rename(new, &path));
            written.expect("the vector can be written");
        } else {
            for difference in found {
                differences.push_str(&format!("\n{}, {difference}", path.display()));
            }
        }
    }
    assert!(differences.is_empty(), "the engine differs from its vectors:\n{differences}");
}

#[test]
fn every_vector_is_laid_out_as_blessing_does() {
    for path in files() {
        let text = std::fs::read_to_string(&path).expect("the vector can be read");
        assert!(text == layout::file(&read(&path)), "{}: lay it out with LEASEHOLD_BLESS=1", path.display());
    }
}
