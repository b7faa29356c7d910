use std::path::PathBuf;

use clap::Args;

use crate::tools::cargo::{cargo, root, run, target};
use crate::tools::error::Result;
use crate::tools::{node, package};

/// Let processes in Rust and Node share locks on real servers while faults strike, and judge what they recorded
///
/// The topologies share the time. They run one after the other, in rounds of at most three minutes. At the end comes a report.
/// A violation prints what happened around it, the seed, and the directory with the whole history, and the command fails.
#[derive(Args)]
pub(crate) struct Options {
    /// How long faults strike, for all topologies together
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    minutes: f64,
    /// Strike each topology with this many faults, instead of for a time. Rules about time are not judged
    #[arg(long, value_name = "N", conflicts_with = "minutes")]
    faults: Option<u64>,
    /// The same seed gives the same plan of faults; a new one each time otherwise
    #[arg(long)]
    seed: Option<u64>,
    /// Only this topology; may be given several times
    #[arg(long, value_name = "NAME", value_parser = ["single", "sentinel", "cluster", "quorum"])]
    topology: Vec<String>,
    /// In place of locks of all kinds, a drill on one server that loses no data; may be given several times.
    /// `election`: all workers campaign in one election and observe it, and most faults strike the leader.
    /// `once`: all workers call `once` for a series of names, and most faults strike the worker that works
    #[arg(long, value_name = "NAME", value_parser = DRILLS, conflicts_with_all = ["topology", "lie"])]
    drill: Vec<String>,
    /// How many workers in Rust
    #[arg(long, value_name = "N", default_value_t = 3)]
    rust: u64,
    /// How many workers in JavaScript; 0 needs no npm package
    #[arg(long, value_name = "N", default_value_t = 2)]
    node: u64,
    /// Give one worker a deliberate bug. The checker must find it, and the command fails
    #[arg(long, value_name = "BUG", value_parser = ["keeps-working", "frees-others"])]
    lie: Option<String>,
    /// No faults
    #[arg(long)]
    calm: bool,
    /// Keep the histories of rounds without a violation, too
    #[arg(long)]
    keep: bool,
    /// Judge a saved history again, and run nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["minutes", "faults", "seed", "topology", "drill", "lie", "calm", "keep"])]
    check: Option<PathBuf>,
}

const DRILLS: [&str; 2] = ["election", "once"];

impl Options {
    /// What `test --full` runs.
    pub(crate) fn of_a_release() -> Self {
        Self::of(10.0, None)
    }

    /// What `ci` runs: the same work on every machine, however slow. The faults are always the same, so that a failure
    /// comes from the change.
    pub(crate) fn of_a_commit() -> Self {
        Self { faults: Some(5), ..Self::of(0.0, Some(1)) }
    }

    /// What `test --timed` runs: both drills, a minute each.
    pub(crate) fn of_drills() -> Self {
        Self { drill: DRILLS.map(str::to_owned).to_vec(), ..Self::of(2.0, None) }
    }

    fn of(minutes: f64, seed: Option<u64>) -> Self {
        Self {
            minutes,
            faults: None,
            seed,
            topology: Vec::new(),
            drill: Vec::new(),
            rust: 3,
            node: 2,
            lie: None,
            calm: false,
            keep: false,
            check: None,
        }
    }
}

pub(crate) fn torture(options: &Options) -> Result {
    run(&mut cargo(&["build", "--quiet", "--package", "leasehold-torture", "--bins"]))?;
    run_built(options)
}

/// Runs the programs that `cargo test` has built together with others. Alone they would have other features, and their
/// dependencies would be built again.
pub(crate) fn run_built(options: &Options) -> Result {
    let mut command = std::process::Command::new(target().join("debug").join("leasehold-torture"));
    if let Some(file) = &options.check {
        return run(command.arg("--check").arg(file));
    }
    command.arg("--directory").arg(target().join("torture"));
    match options.faults {
        Some(faults) => command.args(["--faults", &faults.to_string()]),
        None => command.args(["--minutes", &options.minutes.to_string()]),
    };
    command.args(["--rust", &options.rust.to_string()]);
    command.args(options.seed.map(|seed| format!("--seed={seed}")));
    command.args(options.topology.iter().map(|name| format!("--topology={name}")));
    command.args(options.drill.iter().map(|name| format!("--drill={name}")));
    command.args(options.lie.iter().map(|bug| format!("--lie={bug}")));
    let flags = [("--calm", options.calm), ("--keep", options.keep)];
    command.args(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag));
    if options.node > 0 {
        let project = node::project(&root().join("tests/e2e/torture/node"), &package::tarball()?)?;
        command.arg("--node-worker").arg(project.join("worker.mjs"));
        command.args(["--node", &options.node.to_string()]);
    }
    run(&mut command)
}
