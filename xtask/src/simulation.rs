use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::cargo::{cargo, run};
use crate::error::Result;

/// What a newcomer and CI run.
const SEEDS: u64 = 20_000;

/// Run engines and model servers on virtual time, with faults, and check every promise at every step
#[derive(Args)]
pub(crate) struct Simulate {
    /// How many seeds to run
    #[arg(long, default_value_t = SEEDS)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// Replay this one seed, with everything that happens in it
    #[arg(long, conflicts_with_all = ["seeds", "start", "log"])]
    seed: Option<u64>,
    /// Only this make-up of a world; each seed draws its own otherwise
    #[arg(long, value_name = "NAME")]
    mix: Option<String>,
    /// Run in slices and note each in this file; run again, it goes on where the file ends
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Show that the simulation notices each deliberate fault, and which promise told it
#[derive(Args, Default)]
pub(crate) struct Mutants {
    /// Only these mutants
    names: Vec<String>,
}

impl Default for Simulate {
    fn default() -> Self {
        Self { seeds: SEEDS, start: 0, seed: None, mix: None, log: None }
    }
}

pub(crate) fn simulate(options: &Simulate) -> Result {
    let mut command = program();
    match options.seed {
        Some(seed) => command.args(["--seed", &seed.to_string()]),
        None => command.args(["--seeds", &options.seeds.to_string(), "--start", &options.start.to_string()]),
    };
    if let Some(mix) = &options.mix {
        command.args(["--mix", mix]);
    }
    if let Some(log) = &options.log {
        // The program runs in the workspace's root, and the path is meant from here.
        command.arg("--log").arg(std::path::absolute(log)?);
    }
    run(&mut command)
}

pub(crate) fn mutants(options: &Mutants) -> Result {
    run(program().arg("mutants").args(&options.names))
}

/// The simulation links Lua: it is built apart, and optimised, but with assertions.
fn program() -> Command {
    cargo(&["run", "--quiet", "--profile", "sim", "--package", "leasehold-simulation", "--"])
}
