//! The subcommands. `exec`, with `lead`, and `doctor` have folders of their own.

mod acquire;
mod force_release;
mod forget;
mod generate;
mod inspect;
mod ls;
mod release;
mod watch;

use crate::args::{Cli, Command};
use crate::report::{Failure, Outcome, Output};
use crate::{doctor, exec};

/// Runs the subcommand. Returns the exit code.
pub(crate) fn run(cli: &Cli, output: Output) -> Outcome {
    // One thread is enough, and signals and process groups are simpler with one.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::system("can't start", error))?;
    let servers = &cli.servers;
    match &cli.command {
        Command::Exec(arguments) => runtime.block_on(exec::run(servers, arguments, output)),
        Command::Lead(arguments) => runtime.block_on(exec::lead(servers, arguments, output)),
        Command::Acquire(arguments) => runtime.block_on(acquire::run(servers, arguments, output)),
        Command::Release(arguments) => runtime.block_on(release::run(servers, arguments, output)),
        Command::Forget(arguments) => runtime.block_on(forget::run(servers, &arguments.name, output)),
        Command::Ls(arguments) => runtime.block_on(ls::run(servers, arguments, output)),
        Command::Inspect(arguments) => runtime.block_on(inspect::run(servers, &arguments.name, output)),
        Command::Watch(arguments) => runtime.block_on(watch::run(servers, arguments, output)),
        Command::ForceRelease(arguments) => runtime.block_on(force_release::run(servers, arguments, output)),
        Command::Doctor(arguments) => runtime.block_on(doctor::run(servers, arguments, output)),
        Command::Completions { shell } => generate::completions(*shell),
        Command::Man => generate::man(),
    }
}
