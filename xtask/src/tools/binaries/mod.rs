//! The command line as files that run without a compiler: an archive for each system, a Debian package, and what the
//! container image is made of.

mod debian;
mod elf;
mod files;
mod program;
mod target;

use std::fs;
use std::path::PathBuf;

use super::cargo::{root, target as target_directory};
use super::error::Result;
use files::Documents;
pub(crate) use target::Target;

/// Builds and checks the program, and makes all files for this target. Returns their paths.
pub(crate) fn make(target: &Target) -> Result<Vec<PathBuf>> {
    let program = program::build(target)?;
    program::check(target, &program)?;
    let place = place();
    fs::create_dir_all(&place)?;
    let documents = Documents::of(target, &program)?;
    let mut files = vec![files::archive(target, &program, &documents, &place)?];
    if let Some(architecture) = target.debian {
        files.push(debian::package(&program, &documents, architecture, &place)?);
        files::image(&program, architecture, &place)?;
    }
    files.push(files::sums(target, &files, &place)?);
    Ok(files)
}

/// Where the files are.
fn place() -> PathBuf {
    root().join(target_directory()).join("binaries")
}
