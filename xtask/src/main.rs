//! All of the project's commands: `cargo xtask --help`. Imports point one way: `commands` → `tools`.

#[cfg(test)]
mod checks;
mod commands;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::{
    bench, ci, component, demo, docs, examples, fuzz, interop, lint, package, playground, release, simulation, test,
    torture, wasm,
};

/// All commands of this repository, set-up included.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Options),
    Test(test::Options),
    Simulate(simulation::Simulate),
    Mutants(simulation::Mutants),
    Explore(simulation::Explore),
    Fuzz(fuzz::Options),
    Torture(torture::Options),
    Bench(bench::Options),
    Interop(interop::Options),
    Examples(examples::Options),
    /// Check that the engine builds for wasm32-unknown-unknown and imports nothing
    Wasm,
    Package(package::Options),
    Component(component::Options),
    Release(release::Options),
    Playground(playground::Options),
    /// Build the manual in docs/ as a searchable site
    Docs,
    /// Check the formats, run clippy, and build the API's docs
    Lint,
    /// Use the processor until killed: the load of `test --under-load`
    #[command(hide = true)]
    Busy,
    /// Run everything that must pass before a change is merged: format, lints, docs and all tests
    Ci,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Demo(options) => demo::run(&options),
        Command::Test(options) => test::run_all(&options),
        Command::Simulate(options) => simulation::simulate(&options),
        Command::Mutants(options) => simulation::mutants(&options),
        Command::Explore(options) => simulation::explore(&options),
        Command::Fuzz(options) => fuzz::run_all(&options),
        Command::Torture(options) => torture::torture(&options),
        Command::Bench(options) => bench::measure(&options),
        Command::Interop(options) => interop::run_all(&options),
        Command::Examples(options) => examples::run_chosen(&options),
        Command::Wasm => wasm::check(),
        Command::Package(options) => package::make(&options),
        Command::Component(options) => component::make(&options),
        Command::Release(options) => release::make(&options),
        Command::Playground(options) => playground::run(&options),
        Command::Docs => docs::build(),
        Command::Lint => lint::run_all(),
        Command::Ci => ci::run_all(),
        Command::Busy => test::busy(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error}");
            ExitCode::FAILURE
        }
    }
}
