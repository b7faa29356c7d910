//! The commands that run engines on virtual time: the simulation, with seeds and with mutants, and the explorer.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::tools::cargo::{cargo, root, run, target};
use crate::tools::error::{Error, Result};
use crate::tools::log::say;
use crate::tools::workspace::{Tests, tested};

/// How many seeds a run takes by default.
const SEEDS: u64 = 20_000;
/// How many seeds belong to one commit. They find a bug that one seed in a thousand shows, at 86 %. The next commits
/// try others, a change of the engine needs 100,000 and a release a million.
pub(crate) const OF_A_COMMIT: u64 = 2_000;
/// How many of these `cargo xtask test` runs.
pub(crate) const OF_A_TEST: u64 = 500;
/// How many of these run in Lua 5.4 before a release. A seed takes ten times as long there, and the simulation has to be
/// built once more. Every commit runs the rules and random calls, which show how a script differs there. The seeds only
/// show that the engine can work with it.
const IN_LUA_54: u64 = 200;

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
    /// Also draw what happens as a page, in this file
    #[arg(long, value_name = "FILE", requires = "seed")]
    html: Option<PathBuf>,
    /// Only this make-up of a world; each seed draws its own otherwise
    #[arg(long, value_name = "NAME")]
    mix: Option<String>,
    /// Run in slices and note each in this file; run again, it goes on where the file ends
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Run the scripts of every seed in Lua 5.4, as Dragonfly and Garnet do; otherwise few seeds run them, in Lua 5.1
    #[arg(long)]
    lua54: bool,
    #[arg(skip)]
    is_quick_build: bool,
}

/// Show that the simulation notices each deliberate fault, and which promise told it
#[derive(Args, Default)]
pub(crate) struct Mutants {
    /// Only these mutants
    names: Vec<String>,
    #[arg(skip)]
    is_quick_build: bool,
}

impl Mutants {
    /// All of them, built quickly.
    pub(crate) fn of_a_test() -> Self {
        Self { is_quick_build: true, ..Self::default() }
    }
}

/// Explore every order of messages, replies, timers and faults, with real engines and the server in memory
#[derive(Args, Default)]
#[command(disable_help_flag = true)]
pub(crate) struct Explore {
    /// Scenarios and options of the explorer: see `cargo xtask explore --help`. `--mutants` shows which deliberate bugs of the
    /// engine it finds; the names are those of mutants then
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
    #[arg(skip)]
    is_quick_build: bool,
}

impl Explore {
    /// At most this many states, built quickly.
    pub(crate) fn within(states: u64) -> Self {
        Self { arguments: vec![format!("--budget={states}")], is_quick_build: true }
    }
}

impl Simulate {
    /// Seeds that follow from the commit's files: every change runs new ones, and a second run runs the same ones.
    pub(crate) fn of_this_commit(seeds: u64) -> Self {
        let start = tree().and_then(|tree| first_seed(&tree)).unwrap_or(0);
        say!("seeds {start} to {}, chosen from the commit's files", start + seeds - 1);
        Self { seeds, start, seed: None, html: None, mix: None, log: None, lua54: false, is_quick_build: true }
    }
}

/// The hash of all files of the commit that is checked out.
fn tree() -> Option<String> {
    let output = Command::new("git").current_dir(root()).args(["rev-parse", "HEAD^{tree}"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Seeds below a million stay free for runs by hand.
fn first_seed(tree: &str) -> Option<u64> {
    let number = u64::from_str_radix(tree.get(..8)?, 16).ok()?;
    Some(1_000_000 + number * OF_A_COMMIT)
}

pub(crate) fn simulate(options: &Simulate) -> Result {
    match (options.seed, &options.html) {
        (Some(seed), Some(file)) => draw(&mut simulating(options)?, seed, file),
        _ => run(&mut simulating(options)?),
    }
}

/// Runs a seed, and draws its transcript as a page. A seed that fails is drawn too.
fn draw(simulating: &mut Command, seed: u64, file: &Path) -> Result {
    let output = simulating.stderr(Stdio::piped()).output()?;
    let problem = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let outcome = if output.status.success() { "All promises held." } else { problem.as_str() };
    if output.stdout.is_empty() {
        return Err(Error::new(problem));
    }
    let mut program = cargo(&["run", "--quiet", "--package", "leasehold-playground", "--"]);
    // The program runs in the workspace's root, and the path is meant from here.
    program.arg(std::path::absolute(file)?).args([&format!("Seed {seed}"), outcome]).stdin(Stdio::piped());
    let mut child = program.spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(&output.stdout)?;
    }
    if !child.wait()?.success() {
        return Err(Error::new(format!("the page {} was not written", file.display())));
    }
    say!("{}: {outcome}", file.display());
    if output.status.success() { Ok(()) } else { Err(Error::new(format!("seed {seed} failed"))) }
}

/// The command that runs these seeds.
pub(crate) fn simulating(options: &Simulate) -> Result<Command> {
    let features = if options.lua54 { &LUA_54[..] } else { &[] };
    let mut command = program_of(SIMULATION, features, options.is_quick_build);
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
    Ok(command)
}

pub(crate) fn explore(options: &Explore) -> Result {
    const MUTANTS: &str = "--mutants";
    let explores_mutants = options.arguments.iter().any(|argument| argument == MUTANTS);
    let package = if explores_mutants { SIMULATION } else { "leasehold-explorer" };
    let mut command = program_of(package, &[], options.is_quick_build);
    if explores_mutants {
        command.args(["mutants", "--explored"]);
    }
    run(command.args(options.arguments.iter().filter(|argument| *argument != MUTANTS)))
}

/// The tests of the simulation and the explorer themselves.
pub(crate) fn testing() -> Result<Command> {
    let mut command = optimised(&["test", "--no-fail-fast"], true);
    command.args(tested(Tests::Optimised)?.iter().flat_map(|package| ["--package", package]));
    Ok(command)
}

pub(crate) fn mutants(options: &Mutants) -> Result {
    run(&mut mutating(options))
}

/// The command that runs these mutants.
pub(crate) fn mutating(options: &Mutants) -> Command {
    let mut command = program_of(SIMULATION, &[], options.is_quick_build);
    command.arg("mutants").args(&options.names);
    command
}

/// The rules of the scripts and random calls in Lua 5.4, and seeds if they are wanted.
pub(crate) fn in_lua54(with_seeds: bool) -> Result {
    let mut tests = optimised(&["test", "--no-fail-fast", "--package", "leasehold-model"], true);
    run(tests.args(LUA_54).args(["--test", "rules", "--test", "lockstep"]))?;
    if !with_seeds {
        return Ok(());
    }
    simulate(&Simulate { lua54: true, ..Simulate::of_this_commit(IN_LUA_54) })
}

/// Runs a program of the simulation's packages, built with these features.
fn program_of(package: &str, features: &[&str], is_quick_build: bool) -> Command {
    let mut command = optimised(&["run", "--quiet", "--package", package], is_quick_build);
    command.args(features).arg("--");
    command
}

const SIMULATION: &str = "leasehold-simulation";

/// A build has one Lua. Without this, it has Lua 5.1.
const LUA_54: [&str; 3] = ["--no-default-features", "--features", "lua54"];

/// A cargo command with optimisation and assertions. The simulation links Lua, so it has its own profile and target
/// directory.
///
/// A quick build takes half the time, and a seed then takes 1.4 times as long. That pays for a few thousand seeds, and
/// not for the 100,000 that somebody runs by hand.
fn optimised(arguments: &[&str], is_quick_build: bool) -> Command {
    let mut command = cargo(arguments);
    command.args(["--profile", "sim"]);
    if is_quick_build {
        let settings = [("OPT_LEVEL", "1"), ("LTO", "off"), ("DEBUG", "false")];
        command.envs(settings.map(|(key, value)| (format!("CARGO_PROFILE_SIM_{key}"), value)));
    }
    command.env("CARGO_TARGET_DIR", std::path::absolute(target().join("simulation")).unwrap_or_default());
    command
}

#[cfg(test)]
mod tests {
    use super::first_seed;

    #[test]
    fn every_change_has_seeds_of_its_own() {
        assert_eq!(first_seed("00000001aa"), Some(1_002_000));
        assert_eq!(first_seed("00000002aa"), Some(1_004_000));
        assert_eq!(first_seed("no tree"), None);
    }
}
