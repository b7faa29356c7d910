//! Real processes on real servers, under faults, and a verdict on what they recorded: `cargo xtask torture`.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Parser, ValueEnum};
use leasehold_torture::checker::{Figures, judge};
use leasehold_torture::drill::Drill;
use leasehold_torture::limits::Limits;
use leasehold_torture::run::{End, Settings, run};
use leasehold_torture::topologies::Kind;
use leasehold_torture::worker::Lie;
use leasehold_torture::{history, report};

/// Lets processes share locks on real servers while faults strike, and judges what they recorded
///
/// The time is shared by the topologies, which run one after the other in rounds of at most three minutes. A violation
/// prints what happened around it, the seed, and the directory with the whole history. The exit status is 1 then.
#[derive(Parser)]
#[command(name = "leasehold-torture")]
struct Arguments {
    /// How long faults strike, for all topologies together
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    minutes: f64,
    /// Strike each topology with this many faults, instead of for a time. Rules about time are not judged
    #[arg(long, value_name = "N", conflicts_with = "minutes")]
    faults: Option<u64>,
    /// The same seed gives the same plan of faults; a new one each time otherwise
    #[arg(long)]
    seed: Option<u64>,
    /// Only these topologies
    #[arg(long, value_enum)]
    topology: Vec<Kind>,
    /// In place of locks of all kinds: only this job, on a single server that loses no data; may be given several times
    #[arg(long, value_enum, conflicts_with = "topology")]
    drill: Vec<Drill>,
    /// How many workers in Rust: 3 by default, and 4 in the drill with limits
    #[arg(long, value_name = "N")]
    rust: Option<u64>,
    /// How many workers in JavaScript: 2 by default, and 4 in the drill with limits
    #[arg(long, value_name = "N")]
    node: Option<u64>,
    /// The worker in JavaScript; without it, all workers are in Rust
    #[arg(long, value_name = "FILE")]
    node_worker: Option<PathBuf>,
    /// Give a worker a deliberate bug, which the checker must find
    #[arg(long, value_enum)]
    lie: Option<Bug>,
    /// No faults
    #[arg(long)]
    calm: bool,
    /// Where histories go; a run without violations removes its own
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Keep all histories
    #[arg(long)]
    keep: bool,
    /// Judge a saved history, and run nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["minutes", "faults", "seed", "topology", "drill", "lie", "calm"])]
    check: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Bug {
    /// The worker works on after its lease has ended
    KeepsWorking,
    /// The worker deletes locks that others hold
    FreesOthers,
    /// The worker asks for twice the limits, in the drill with limits
    DoubleLimits,
}

/// How many leases a run with `--faults` needs on each topology, so that there is something to judge.
const LEASES: u64 = 100;

/// The longest time of one round. It bounds the memory for a history.
const ROUND: Duration = Duration::from_secs(180);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.check {
        Some(file) => check(file),
        None => torture(&arguments),
    };
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Judges a saved history. Returns the number of violations.
fn check(file: &Path) -> Result<usize, Box<dyn Error>> {
    let history = history::read(file)?;
    let verdict = judge(&history);
    print!("{}", report::violations(&history, &verdict));
    print!("{}", report::figures(&verdict.figures, &verdict.documented, verdict.violations.len()));
    Ok(verdict.violations.len())
}

/// Runs all rounds. Returns the number of violations.
fn torture(arguments: &Arguments) -> Result<usize, Box<dyn Error>> {
    let no_rust = arguments.rust == Some(0);
    if no_rust && (arguments.node == Some(0) || arguments.node_worker.is_none()) {
        return Err("no workers: give `--rust` at least 1, or `--node` at least 1 and `--node-worker`".into());
    }
    if arguments.lie.is_some() && no_rust {
        return Err("`--lie` needs a worker in Rust: give `--rust` at least 1".into());
    }
    let drills: &[Drill] = if matches!(arguments.lie, Some(Bug::DoubleLimits)) { &[Drill::Limits] } else { &[] };
    if arguments.lie.is_some() && arguments.drill != drills {
        return Err("`--lie double-limits` is for `--drill limits`, and the others are for no drill".into());
    }
    let kinds = if arguments.topology.is_empty() { Kind::ALL.to_vec() } else { arguments.topology.clone() };
    let time = Duration::try_from_secs_f64(arguments.minutes * 60.0)
        .map_err(|error| format!("--minutes {}: {error}", arguments.minutes))?;
    let mut works: Vec<(Kind, Option<Drill>)> = kinds.into_iter().map(|kind| (kind, None)).collect();
    if !arguments.drill.is_empty() {
        works = arguments.drill.iter().map(|drill| (Kind::Single, Some(*drill))).collect();
    }
    let of_each = time / u32::try_from(works.len())?;
    let rounds = if arguments.faults.is_some() { 1 } else { of_each.as_secs().div_ceil(ROUND.as_secs()).max(1) };
    let end = match arguments.faults {
        Some(faults) => {
            // A term lasts for seconds.
            let leases = if arguments.drill.is_empty() { LEASES } else { LEASES / 20 };
            End::Done { faults: if arguments.calm { 0 } else { faults }, leases }
        }
        None => End::After(of_each / u32::try_from(rounds)?),
    };
    let new_seed =
        || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64 % 1_000_000);
    let seed = arguments.seed.unwrap_or_else(new_seed);
    let directory = arguments.directory.clone().unwrap_or_else(|| env::temp_dir().join("leasehold-torture"));
    let each = if arguments.drill.is_empty() { "topologies" } else { "drills" };
    match arguments.faults {
        Some(faults) => println!("seed {seed}: {faults} faults on each of {} {each}", works.len()),
        None => {
            println!("seed {seed}: {} s on each of {} {each}, in {rounds} rounds", of_each.as_secs(), works.len());
        }
    }
    let (mut all, mut documented, mut violations) = (Figures::default(), BTreeMap::new(), 0);
    for round in 0..rounds {
        for (kind, drill) in &works {
            // The first round has the seed itself, so that `--seed` with a short time repeats it.
            let seed = seed.wrapping_add(round);
            let name = drill.map_or_else(|| kind.to_string(), |drill| format!("drill-{drill}"));
            let place = directory.join(format!("{name}-{seed}"));
            // What an earlier run of this seed has left would mix with the new standard error.
            let _ = fs::remove_dir_all(&place);
            fs::create_dir_all(&place)?;
            let (rust, node) = if *drill == Some(Drill::Limits) { (4, 4) } else { (3, 2) };
            let settings = Settings {
                kind: *kind,
                drill: *drill,
                seed,
                end,
                limits: Limits::LOAD,
                rust: (env::current_exe()?.with_file_name("torture-worker"), arguments.rust.unwrap_or(rust)),
                node: arguments.node_worker.clone().map(|worker| (worker, arguments.node.unwrap_or(node))),
                lie: arguments.lie.map(|bug| match bug {
                    Bug::KeepsWorking => Lie::KeepsWorking,
                    Bug::FreesOthers => Lie::FreesOthers,
                    Bug::DoubleLimits => Lie::DoubleLimits,
                }),
                calm: arguments.calm,
                directory: place.clone(),
            };
            let kind = settings.title();
            let history = run(&settings, &mut |line| println!("{line}"))
                .map_err(|error| format!("{kind}, seed {seed}: the run broke off: {error}"))?;
            let mut verdict = judge(&history);
            if arguments.faults.is_some() {
                match verdict.forgive_delays() {
                    0 => {}
                    late => println!("{kind}, seed {seed}: {late} times something was late or out of turn"),
                }
            }
            let found = verdict.violations.len();
            println!("{kind}, seed {seed}:");
            print!("{}", report::figures(&verdict.figures, &verdict.documented, found));
            print!("{}", report::violations(&history, &verdict));
            if found > 0 || arguments.keep || verdict.figures.leases == 0 {
                let file = place.join("history.jsonl");
                history::write(&file, &history)?;
                println!("seed {seed}, {kind}: the whole history is in {}", file.display());
                println!("judge it again: cargo xtask torture --check {}", file.display());
            } else {
                fs::remove_dir_all(&place)?;
            }
            if verdict.figures.leases == 0 {
                let advice = format!("see what the workers printed in {}, or give more `--minutes`", place.display());
                return Err(format!("{kind}, seed {seed}: no worker got a lease: {advice}").into());
            }
            all.add(&verdict.figures);
            for (what, count) in verdict.documented {
                *documented.entry(what).or_default() += count;
            }
            violations += found;
        }
    }
    if rounds > 1 || works.len() > 1 {
        println!("\nall together, seed {seed}:");
        print!("{}", report::figures(&all, &documented, violations));
    }
    Ok(violations)
}
