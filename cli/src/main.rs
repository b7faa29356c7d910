//! The command line of leasehold: runs a command under a lock, shows locks, takes them away, and checks servers.
//!
//! `docs/cli.md` is its manual.

mod args;
mod commands;
mod doctor;
mod exec;
mod glob;
mod keyspace;
mod kinds;
mod refusals;
mod render;
mod report;
mod servers;
mod signals;
mod taking;
mod times;
mod usage;

use std::env;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

use args::Cli;
use report::{Output, exit};

fn main() -> ExitCode {
    if let Some(code) = exec::helper() {
        return code;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let error = usage::with_tips(error, env::args_os());
            let shown = error.print();
            let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return ExitCode::from(match (asked, shown) {
                (true, Ok(())) => 0,
                (true, Err(_)) => exit::OUTPUT,
                (false, _) => exit::USAGE,
            });
        }
    };
    let output = Output { json: cli.json };
    match commands::run(&cli, output) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => output.fail(&failure),
    }
}
