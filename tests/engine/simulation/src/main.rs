//! `cargo xtask simulate` and `cargo xtask mutants`: see `--help`.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use leasehold_simulation::campaign::{Campaign, Summary};
use leasehold_simulation::cli::{HELP, Options, Task};
use leasehold_simulation::injected_bugs::InjectedBugs;
use leasehold_simulation::run::Bench;
use leasehold_simulation::theme::Theme;
use leasehold_simulation::{mutants, seeds, slices};

/// The system's allocator took a fifth of a run's time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// From this many seeds on, every required cell must have been reached.
const COVERING: u64 = 20_000;
/// How many of the least reached cells to print.
const RAREST: usize = 8;
/// How many lines of a failing seed's transcript to print.
const LAST_LINES: usize = 60;

fn main() -> ExitCode {
    let outcome = match Options::read(std::env::args_os().skip(1)) {
        Err(error) => Err(format!("{error}\n\n{HELP}")),
        Ok(options) => match &options.task {
            Task::Help => {
                print!("{HELP}");
                Ok(())
            }
            Task::Seeds => seeds(&options),
            Task::Replay(seed) => replay(*seed, &options),
            Task::Mutants(names) => mutants::run_all(names, options.jobs),
            Task::Explored(names) => mutants::explore_all(names),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn seeds(options: &Options) -> Result<(), String> {
    replay_fixed_seeds(options)?;
    let end = options.start + options.seeds;
    let logged = options.log.as_deref().map(|log| slices::read(log, options.start).map_err(|error| error.to_string()));
    let (mut sum, mut next) = logged.transpose()?.unwrap_or((Summary::default(), options.start));
    while next < end {
        let seeds = if options.log.is_some() { slices::SLICE.min(end - next) } else { end - next };
        let campaign = Campaign {
            start: next,
            seeds,
            theme: options.theme,
            jobs: options.jobs,
            bugs: InjectedBugs::default(),
            first_only: false,
        };
        let part = campaign.run(progress(options, sum.seeds))?;
        if let (Some(log), true) = (&options.log, part.failures.is_empty()) {
            slices::append(log, next, &part).map_err(|error| error.to_string())?;
        }
        sum.add(part);
        if !sum.failures.is_empty() {
            break;
        }
        next += seeds;
    }
    report(&sum, options)
}

/// Runs the fixed list of seeds.
fn replay_fixed_seeds(options: &Options) -> Result<(), String> {
    let mut bench = Bench::new(InjectedBugs::default())?;
    for seed in seeds::fixed()? {
        if let Some(broken) = bench.run(seed.seed, seed.theme).broken {
            let replay = replay_command(seed.seed, seed.theme);
            return Err(format!("a seed of seeds.txt failed: {}: {}\n  {replay}", broken.invariant, broken.detail));
        }
    }
    if !options.quiet {
        eprintln!("the fixed list of seeds passed");
    }
    Ok(())
}

/// Prints the progress from time to time.
fn progress(options: &Options, before: u64) -> impl Fn(&Summary) + Sync {
    let (quiet, seeds) = (options.quiet, options.seeds);
    let last = Mutex::new(Instant::now());
    move |sum| {
        let Ok(mut last) = last.lock() else { return };
        if !quiet && last.elapsed() > Duration::from_secs(2) {
            *last = Instant::now();
            eprintln!("{} of {seeds} seeds, {:.0}/s, {} failed", before + sum.seeds, sum.rate(), sum.failures.len());
        }
    }
}

fn report(sum: &Summary, options: &Options) -> Result<(), String> {
    println!("{}\n\n{}", sum.coverage.table(), sum.line());
    let rarest = sum.coverage.rarest().into_iter().take(RAREST);
    let rarest: Vec<String> = rarest.map(|(count, state, fault)| format!("{state:?}/{fault:?} {count}")).collect();
    println!("rarest cells: {}", rarest.join(", "));
    if let Some((seed, broken)) = sum.failures.first() {
        let lines = Bench::new(InjectedBugs::default())?.replay(*seed, options.theme).transcript;
        println!("\nthe end of seed {seed}:");
        lines.iter().skip(lines.len().saturating_sub(LAST_LINES)).for_each(|line| println!("{line}"));
        println!("\n{}: {}", broken.invariant, broken.detail);
        for (seed, broken) in &sum.failures {
            println!("  {:<16} {}", broken.invariant, replay_command(*seed, options.theme));
        }
        println!("\nOnce it is mended, add the seed to tests/engine/simulation/seeds.txt.");
        return Err(format!("\n{} of {} seeds failed", sum.failures.len(), sum.seeds));
    }
    let unreached = sum.coverage.unreached();
    if sum.seeds >= COVERING && options.theme.is_none() && !unreached.is_empty() {
        let cells: Vec<String> = unreached
            .iter()
            .map(|(state, fault)| format!("  no {fault:?} struck a client that was {state:?}"))
            .collect();
        return Err(format!(
            "\nevery seed passed, but {} required cells of the table were not reached in {} seeds:\n{}\n\
             Make a mix reach them (src/mix.rs, src/fault_injection.rs), or exclude the ones that can't be reached (`required` in src/coverage.rs).",
            cells.len(),
            sum.seeds,
            cells.join("\n")
        ));
    }
    Ok(())
}

fn replay_command(seed: u64, theme: Option<Theme>) -> String {
    match theme {
        None => format!("cargo xtask simulate --seed {seed}"),
        Some(theme) => format!("cargo run -p leasehold-simulation --profile sim -- --seed {seed} --mix {theme:?}"),
    }
}

fn replay(seed: u64, options: &Options) -> Result<(), String> {
    let report = Bench::new(InjectedBugs::default())?.replay(seed, options.theme);
    if !options.quiet {
        report.transcript.iter().for_each(|line| println!("{line}"));
    }
    println!("\n{:?}", report.counts);
    match report.broken {
        None => Ok(()),
        Some(broken) => Err(format!("{}: {}", broken.invariant, broken.detail)),
    }
}
