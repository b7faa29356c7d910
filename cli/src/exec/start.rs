//! The first steps of the command's process: the guard gets to know it, and then it becomes the command.
//!
//! If `exec` told the guard itself, a SIGKILL between the start of the command and that moment would leave a command
//! that nobody ends.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{self, Command};

use nix::unistd::getppid;

use super::guard::{Deadline, Guard};
use super::lookup::not_started;
use super::own;
use crate::report::{Failure, Outcome, Output};

/// What `ps` shows before the process becomes the command.
pub(super) const NAME: &str = "leasehold: start";

/// A command that runs `program` after these steps.
pub(super) fn command(program: &OsStr, guard: &Guard, deadline: Deadline, output: Output) -> Outcome<Command> {
    if !cfg!(target_os = "linux") {
        return Ok(Command::new(program));
    }
    let path = own::path().map_err(|error| Failure::system("can't start the command", error))?;
    let mut command = Command::new(path);
    command.arg0(NAME).arg(if output.json { "json" } else { "text" });
    command.args([guard.id(), process::id()].map(|id| id.to_string()));
    command.args([deadline.term_at, deadline.end].map(|time| time.to_string())).arg(program);
    Ok(command)
}

/// Becomes the command. Returns only if that fails.
pub(super) fn run(mut arguments: impl Iterator<Item = OsString>) -> (Output, Failure) {
    let output = Output { json: arguments.next().is_some_and(|word| word == "json") };
    match become_command(arguments) {
        Ok(never) => match never {},
        Err(failure) => (output, failure),
    }
}

fn become_command(mut arguments: impl Iterator<Item = OsString>) -> Outcome<Infallible> {
    let mut number = || arguments.next().and_then(|word| word.to_str()?.parse::<u64>().ok());
    let numbers = (number(), number(), number(), number());
    let (Some(guard), Some(parent), Some(term_at), Some(end)) = numbers else {
        return Err(Failure::usage("only `leasehold` itself starts this", ""));
    };
    let program = arguments.next().unwrap_or_default();
    let deadline = Deadline { term_at, end };
    // If somebody has just killed the guard, `exec` starts another one.
    let pipe = OpenOptions::new().write(true).open(format!("/proc/{guard}/fd/0"));
    let _ = pipe.and_then(|mut pipe| pipe.write_all(deadline.line(process::id()).as_bytes()));
    // While `exec` lives, the guard waits. It reads the line before it learns of the end of `exec`.
    if u64::try_from(getppid().as_raw()) != Ok(parent) {
        return Err(Failure::system("the command was not started", "`leasehold` was killed"));
    }
    let error = Command::new(&program).args(arguments).exec();
    Err(not_started(&program, error))
}
