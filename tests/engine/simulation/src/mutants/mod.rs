//! Tests of the tests: deliberate bugs, one for each hazard. Some invariant must notice each of them.

#[macro_use]
mod table;

mod copy;
mod draining;
mod election;
mod engine;
mod exchange;
mod explored;
mod kinds;
mod once;
mod rate;
mod scripts;
mod waiters;

use std::time::Instant;

use crate::campaign::Campaign;
use crate::injected_bugs::InjectedBugs;
use crate::theme::Theme;

use copy::{Change, Copy};

pub use explored::explore_all;

/// A mutant that is not noticed within this many seeds has survived.
const PATIENCE: u64 = 5_000;

/// One deliberate bug.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// Its name.
    pub name: &'static str,
    /// The rule that it breaks.
    pub rule: &'static str,
    /// The bug, if it is in the engine.
    engine: &'static [Change],
    /// The bug, if it is elsewhere.
    pub bugs: InjectedBugs,
    /// The theme that is likely to notice it.
    pub theme: Theme,
    /// If few seeds show it: one that does. It is tried before the others. If the engine or the simulation has changed since,
    /// another one has to be found: `cargo xtask mutants NAME` prints it.
    seed: Option<u64>,
}

/// Every mutant.
pub fn all() -> impl Iterator<Item = &'static Mutant> {
    [
        engine::TABLE,
        scripts::TABLE,
        kinds::TABLE,
        once::TABLE,
        rate::TABLE,
        table::TABLE,
        exchange::TABLE,
        draining::TABLE,
        election::TABLE,
        waiters::TABLE,
    ]
    .into_iter()
    .flatten()
}

/// Runs the mutants of these names, or all of them, and prints which invariant noticed each.
///
/// # Errors
/// If a mutant survives, or no mutant has such a name.
pub fn run_all(names: &[String], jobs: usize) -> Result<(), String> {
    let chosen = choose(names)?;
    let chosen = || chosen.iter().copied();
    let began = Instant::now();
    let mut survivors = Vec::new();
    let is_one = copy::is_switched_on();
    let copy = if !is_one && chosen().any(|mutant| mutant.is_in_copy()) {
        Some(Copy::build("leasehold-simulation")?)
    } else {
        None
    };
    if !is_one {
        println!("{:<40}{:<22}{:>5}{:>8}  rule that it breaks", "mutant", "noticed by", "seed", "seconds");
    }
    for mutant in chosen() {
        let noticed = match copy.as_ref().filter(|_| mutant.is_in_copy()) {
            Some(copy) => {
                let mut command = copy.command(mutant);
                command.args(["mutants", mutant.name, "--jobs", &jobs.to_string()]);
                command.status().map_err(|error| error.to_string())?.success()
            }
            None => mutant.is_noticed(jobs)?,
        };
        if !noticed {
            survivors.push(mutant.name);
        }
    }
    if is_one {
        return if survivors.is_empty() { Ok(()) } else { Err(String::new()) };
    }
    println!("{} mutants in {:.0} s", chosen().count(), began.elapsed().as_secs_f64());
    if survivors.is_empty() { Ok(()) } else { Err(format!("\nsurvived {PATIENCE} seeds: {survivors:?}")) }
}

/// The mutants of these names, or all.
fn choose(names: &[String]) -> Result<Vec<&'static Mutant>, String> {
    if let Some(unknown) = names.iter().find(|name| all().all(|mutant| mutant.name != name.as_str())) {
        let known: Vec<&str> = all().map(|mutant| mutant.name).collect();
        return Err(format!("there is no mutant `{unknown}`; there are {}", known.join(", ")));
    }
    let is_chosen = |name: &str| names.is_empty() || names.iter().any(|chosen| chosen == name);
    Ok(all().filter(|mutant| is_chosen(mutant.name)).collect())
}

impl Mutant {
    /// Whether the copy has it.
    const fn is_in_copy(&self) -> bool {
        !self.engine.is_empty()
    }

    /// Runs seeds until an invariant notices the mutant, and prints which.
    fn is_noticed(&self, jobs: usize) -> Result<bool, String> {
        let known = self.seed.map(|seed| self.campaign(seed, 1, jobs));
        let (mut seconds, mut noticed) = (0.0, None);
        for campaign in known.into_iter().chain([self.campaign(0, PATIENCE, jobs)]) {
            let summary = campaign.run(|_| ())?;
            seconds += summary.took.as_secs_f64();
            noticed = summary.failures.first().map(|(seed, broken)| (broken.invariant, seed.to_string()));
            if noticed.is_some() {
                break;
            }
        }
        let (by, seed) = noticed.clone().unwrap_or(("NOBODY", String::new()));
        println!("{:<40}{by:<22}{seed:>5}{seconds:>8.1}  {}", self.name, self.rule);
        Ok(noticed.is_some())
    }

    fn campaign(&self, start: u64, seeds: u64, jobs: usize) -> Campaign {
        Campaign { start, seeds, theme: Some(self.theme), jobs, bugs: self.bugs, first_only: true }
    }
}

#[cfg(test)]
mod tests {
    use super::all;
    use crate::injected_bugs::InjectedBugs;
    use crate::run::Bench;
    use crate::theme::Theme;

    #[test]
    fn every_mutant_has_its_own_name_and_fits_the_scripts() {
        for (place, mutant) in all().enumerate() {
            assert!(all().take(place).all(|other| other.name != mutant.name), "{}", mutant.name);
            if let Err(problem) = Bench::new(mutant.bugs) {
                panic!("{}: {problem}", mutant.name);
            }
        }
    }

    #[test]
    fn a_bug_in_a_script_is_noticed_in_a_quorum() {
        let bugs = all().find(|mutant| mutant.name == "raise-writes-nothing").unwrap().bugs;
        let [mut with, mut without] = [bugs, InjectedBugs::default()].map(|bugs| Bench::new(bugs).unwrap());
        let theme = Some(Theme::Quorum);
        let seed = (0..500).find(|seed| with.run(*seed, theme).broken.is_some()).expect("a seed notices it");
        assert_eq!(without.run(seed, theme).broken, None, "seed {seed} breaks without it");
    }
}
