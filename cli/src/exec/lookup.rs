//! Looks whether a command can be run, as the system will do it.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::Path;

use nix::unistd::{AccessFlags, access};

use crate::report::{Failure, Outcome, exit};

/// Checks that the command exists and is executable.
pub(super) fn check(program: &OsStr) -> Outcome<()> {
    let given = Path::new(program);
    let mut seen = false;
    if given.components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        seen = given.exists();
        if is_executable(given) {
            return Ok(());
        }
    } else {
        // Without a PATH, the system has a default of its own.
        let Some(path) = env::var_os("PATH") else { return Ok(()) };
        for directory in env::split_paths(&path) {
            let candidate = directory.join(given);
            if is_executable(&candidate) {
                return Ok(());
            }
            seen |= candidate.is_file();
        }
    }
    Err(if seen { not_executable(program, "permission denied") } else { not_found(program) })
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

/// Why the command does not run.
pub(super) fn not_started(program: &OsStr, error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => not_found(program),
        io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock => Failure::system("can't start the command", error),
        _ => not_executable(program, &error.to_string()),
    }
}

fn not_found(program: &OsStr) -> Failure {
    let message = format!("{}: there is no such command", program.display());
    Failure::new(exit::NOT_FOUND, "command-not-found", message, "check the name and PATH; the lock was not taken")
}

fn not_executable(program: &OsStr, why: &str) -> Failure {
    let message = format!("{}: can't be executed: {why}", program.display());
    Failure::new(exit::NOT_EXECUTABLE, "command-not-executable", message, "check the file's mode and its first line")
}
