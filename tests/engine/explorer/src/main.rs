//! Explores every order of messages, replies, timers and faults: see `--help`.
//!
//! The engines and the server are the real ones. A state has all of them, what is in flight, and what the users have
//! still to do. The search takes every possible step from every state, and checks the invariants in each.

mod calls;
mod cli;
mod client;
mod clock;
mod commands;
mod draining;
mod faults;
mod fingerprint;
mod flight;
mod invariants;
mod keys;
mod network;
mod passing;
mod report;
mod results;
mod run_on;
mod scenario;
mod search;
mod step;
mod terms;
mod users;
mod verdict;
mod world;

use std::process::ExitCode;
use std::time::Instant;

use cli::{HELP, Options};
use scenario::Scenario;
use search::{Counterexample, Explored, Limits};
use step::Step;
use world::World;

/// States are many small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let outcome = match Options::read(std::env::args_os().skip(1)) {
        Err(error) => Err(format!("{error}\n\n{HELP}")),
        Ok(options) if options.help => {
            print!("{HELP}");
            Ok(())
        }
        Ok(options) if options.list => {
            scenario::ALL.iter().for_each(|it| println!("{:<18} {}", it.name, it.about));
            Ok(())
        }
        Ok(options) => run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let patience = if options.slow { world::SLOW } else { 0 };
    if let (Some(steps), [scenario]) = (&options.steps, options.scenarios.as_slice()) {
        let begin = World::new(scenario, options.faults, patience)?;
        return replay(&begin, steps);
    }
    let (began, mut explored_so_far) = (Instant::now(), 0);
    if !options.brief {
        println!("{TITLE}");
    }
    for (done, scenario) in options.scenarios.iter().enumerate() {
        let begin = World::new(scenario, options.faults, patience)?;
        let left = options.time.saturating_sub(began.elapsed());
        let rest = u32::try_from(options.scenarios.len() - done).unwrap_or(1);
        // What a small scenario leaves over is for the scenarios after it.
        let share = options.budget.saturating_sub(explored_so_far) / u64::from(rest);
        let states = options.states.min(share);
        let limits = Limits { states, time: left / rest, sample: options.sample, jobs: options.jobs };
        let (explored, found) = search::explore(begin.clone(), limits);
        explored_so_far += explored.states;
        if !options.brief {
            println!("{}", line(scenario, options.faults, &explored, found.is_some()));
        }
        if let Some(found) = found {
            return Err(broken(options, scenario, &begin, found, explored.states)?);
        }
    }
    Ok(())
}

/// What is printed of a counterexample.
fn broken(
    options: &Options,
    scenario: &Scenario,
    begin: &World,
    found: Counterexample,
    states: u64,
) -> Result<String, String> {
    if options.brief {
        return Ok(format!("{} {} {states}", found.broken.invariant, scenario.name));
    }
    let found = report::shorten(begin, found);
    let steps: Vec<String> = found.steps.iter().map(ToString::to_string).collect();
    let (told, _) = report::tell(begin, &found.steps)?;
    let (name, faults, slow) = (scenario.name, options.faults, if options.slow { " --slow" } else { "" });
    let steps = steps.join(" ");
    Ok(format!("\n{told}\n{}\n\ncargo xtask explore {name} --faults {faults}{slow} --steps \"{steps}\"", found.broken))
}

/// Takes steps that are given.
fn replay(begin: &World, steps: &[Step]) -> Result<(), String> {
    let (told, broken) = report::tell(begin, steps)?;
    println!("{told}");
    broken.map_or(Ok(()), |broken| Err(broken.to_string()))
}

const TITLE: &str = "\
scenario           faults      states        steps  depth   time/s   ran on   seconds  result";

fn line(scenario: &Scenario, faults: u8, explored: &Explored, is_broken: bool) -> String {
    let Explored { states, steps, ran_on, slowest, depth, time, is_complete, took } = *explored;
    let result = match (is_broken, is_complete) {
        (true, _) => "BROKEN",
        (_, true) => "exhausted",
        (_, false) => "stopped",
    };
    let (time, slowest) = (time as f64 / 1e6, slowest as f64 / 1e6);
    format!(
        "{:<18}{faults:>7}{states:>12}{steps:>13}{depth:>7}{time:>9.1}{ran_on:>9}{:>10.1}  {result}, all calls end within {slowest:.1} s",
        scenario.name,
        took.as_secs_f64()
    )
}
