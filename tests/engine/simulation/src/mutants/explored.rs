//! Which mutants the explorer finds: those of locks on one server that two clients can expose.

use std::time::Instant;

use super::{Copy, choose};
use crate::theme::Theme;

/// A mutant that is not noticed within this many states of each scenario has survived.
const PATIENCE: &str = "40000";

/// Shows which of these mutants, or of all, the explorer finds.
///
/// # Errors
/// If a mutant survives that two clients can expose, or no mutant has such a name.
pub fn explore_all(names: &[String], jobs: usize) -> Result<(), String> {
    let chosen = choose(names)?;
    let copy = Copy::build("leasehold-explorer")?;
    let began = Instant::now();
    let (mut found, mut survivors) = (0, Vec::new());
    println!("{:<32}{:<18}{:<20}{:>9}{:>8}", "mutant", "noticed by", "scenario", "states", "seconds");
    for mutant in chosen.iter().filter(|mutant| mutant.is_in_copy() && is_explored(mutant.theme)) {
        let at = Instant::now();
        let mut noticed = None;
        for faults in ["1", "2"] {
            let mut command = copy.command(mutant);
            command.args(["--brief", "--slow", "--faults", faults, "--states", PATIENCE, "--jobs", &jobs.to_string()]);
            let output = command.output().map_err(|error| error.to_string())?;
            if !output.status.success() {
                noticed = Some(String::from_utf8_lossy(&output.stderr).trim().to_owned());
                break;
            }
        }
        let line = noticed.clone().unwrap_or_else(|| "NOBODY".to_owned());
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (by, scenario, states) = (word(), word(), word());
        println!("{:<32}{by:<18}{scenario:<20}{states:>9}{:>8.1}", mutant.name, at.elapsed().as_secs_f64());
        match noticed {
            Some(_) => found += 1,
            None => survivors.push(*mutant),
        }
    }
    println!("{found} mutants found in {:.0} s", began.elapsed().as_secs_f64());
    println!("not found: {:?}", survivors.iter().map(|mutant| mutant.name).collect::<Vec<_>>());
    Ok(())
}

/// Whether the explorer has locks of this theme at all. It has one server, one name, and no other kinds.
fn is_explored(theme: Theme) -> bool {
    !matches!(
        theme,
        Theme::Multi | Theme::Quorum | Theme::Semaphore | Theme::Reentrant | Theme::Keeping | Theme::Foreign
    )
}
