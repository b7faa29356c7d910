//! Builds the program, and checks it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::elf;
use super::target::Target;
use crate::tools::cargo::{add_target, run, target as target_directory};
use crate::tools::error::{Error, Result};
use crate::tools::package::reproducible;

/// What the files' names begin with.
pub(super) const NAME: &str = "leasehold";
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The profile of `Cargo.toml`.
const PROFILE: &str = "standalone";

/// Builds the command line for this target.
pub(super) fn build(target: &Target) -> Result<PathBuf> {
    add_target(target.triple)?;
    let build = ["build", "--locked", "--package", "leasehold-cli", "--profile", PROFILE, "--target", target.triple];
    run(reproducible(&build).envs(target.c_compiler()?))?;
    Ok(target_directory().join(target.triple).join(PROFILE).join(target.program(NAME)))
}

/// Checks that a Linux program needs no shared library, and that the program runs, if this machine can run it.
pub(super) fn check(target: &Target, program: &Path) -> Result {
    if target.triple.contains("linux") && elf::is_static(&fs::read(program)?) != Some(true) {
        return Err(Error::new(format!("{} needs shared libraries", program.display())));
    }
    if !target.is_this_machine() {
        return Ok(());
    }
    let said = said(Command::new(program).arg("--version"))?;
    let expected = format!("{NAME} {VERSION}");
    if said.trim() == expected { Ok(()) } else { Err(Error::new(format!("it says {said:?}, not {expected:?}"))) }
}

/// What a command prints.
pub(super) fn said(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Error::new(format!("{}: {problem}", command.get_program().display())))
}
