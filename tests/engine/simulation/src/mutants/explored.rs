//! Which mutants of the engine the explorer finds: those that two clients of one server can expose with one name.

use std::time::Instant;

use super::{Copy, Mutant, choose};
use crate::theme::Theme;

/// Where a mutant is noticed: the explorer's arguments. They are tried first.
const KNOWN: &[(&str, &str)] = &[
    ("max-hold-ignored", "max-hold"),
    ("hand-over-after-loss", "max-hold"),
    ("renewal-ignores-gone", "writers"),
    ("releases-another-token", "readers --faults 0"),
    ("hand-over-unconfirmed", "two-users --faults 2"),
    ("no-heartbeats", "crashed-holder"),
    ("holder-death-ignored", "crashed-holder --faults 0"),
    ("grant-from-receipt", "writers --slow"),
    ("cancel-keeps-place", "gives-up --faults 0"),
    ("last-come-first-served", "two-users"),
    ("hand-over-past-block", "lingers-tries"),
    ("hand-over-past-budget", "two-users --faults 0"),
    ("waiting-ignored", "two-users --faults 0"),
    ("stranded-caller", "two-users --faults 0"),
    ("upgrade-from-sending", "upgrade"),
    ("used-forgotten", "two-users"),
    ("used-by-a-fast-clock", "two-users"),
    ("linger-without-end", "lingers"),
    ("lingers-though-wanted", "lingers-tries --faults 0"),
    ("try-unheard", "lingers-tries --faults 0"),
    ("stale-grant-taken", "crashed-holder"),
    ("batch-valid-from-reply", "two-users --slow --faults 0"),
    ("never-tombstone", "gives-up"),
    ("fast-release-no-tombstone", "writers"),
    ("stamp-kept", "writers --faults 0"),
    ("fast-release-forgets-used", "two-users --faults 0"),
    ("refill-lowers-fence", "refills"),
    ("convert-forgets-used", "two-users-downgrade"),
    ("convert-keeps-token", "downgrade --faults 0"),
    ("downgrade-from-answer", "downgrade"),
    ("renew-while-converting", "downgrade --slow"),
];

/// The same for what is not a plain lock: a once, an election, leases that are passed on, and clients that drain.
const KNOWN_OF_TASKS: &[(&str, &str)] = &[
    ("once-handed-over", "once-two-users --faults 0"),
    ("campaign-gives-up", "election"),
    ("observer-goes-back", "observer --faults 0"),
    ("old-answer-counts", "observer --faults 0"),
    ("asks-at-each-renewal", "observer --faults 0"),
    ("observers-stay", "observer-closes --faults 0"),
    ("detached-given-back", "detach"),
    ("detached-released", "adopt --faults 0"),
    ("detached-renewed", "adopt --faults 0"),
    ("detached-too-short", "detach --faults 0"),
    ("drain-grants", "drain-briefly --faults 0"),
    ("drain-waits-on", "drain-briefly --faults 0"),
    ("drain-lingers", "drain-lingers --faults 0"),
    ("drain-stops-renewing", "drain --faults 0"),
    ("drain-without-end", "drain-briefly --faults 0"),
    ("drain-outlasts-leases", "drain --faults 0"),
];

/// A mutant that is not noticed within this many states of a scenario has survived.
const PATIENCE: &str = "1000000";
/// The same, of each scenario.
const PATIENCE_IN_ALL: &str = "30000";

/// Shows which of these mutants, or of all, the explorer finds.
///
/// # Errors
/// If a mutant survives that has been found before, or no mutant has such a name.
pub fn explore_all(names: &[String]) -> Result<(), String> {
    let chosen = choose(names)?;
    let copy = Copy::build("leasehold-explorer")?;
    let began = Instant::now();
    let (mut found, mut missed) = (0, Vec::new());
    println!("{:<32}{:<18}{:<20}{:>9}{:>8}", "mutant", "noticed by", "scenario", "states", "seconds");
    let is_sought = |mutant: &&&Mutant| !mutant.engine.is_empty() && is_explored(mutant.theme);
    for mutant in chosen.iter().filter(is_sought) {
        let reason = NOT_FOUND.iter().find(|(name, _)| *name == mutant.name).map(|(_, reason)| *reason);
        // Without names, what is known to survive costs no time.
        if let Some(reason) = reason.filter(|_| names.is_empty()) {
            println!("{:<32}{:<18}{reason}", mutant.name, "(not sought)");
            continue;
        }
        let at = Instant::now();
        let known =
            KNOWN.iter().chain(KNOWN_OF_TASKS).find(|(name, _)| *name == mutant.name).map(|(_, arguments)| *arguments);
        let noticed = known
            .map(|arguments| format!("{arguments} --states {PATIENCE}"))
            .into_iter()
            .chain(EVERYWHERE.map(|arguments| format!("{arguments} --states {PATIENCE_IN_ALL}")))
            .find_map(|arguments| is_noticed(&copy, mutant, &arguments).transpose());
        let line = noticed.transpose()?.unwrap_or_else(|| {
            missed.push(mutant.name);
            "NOBODY".to_owned()
        });
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (by, scenario, states) = (word(), word(), word());
        println!("{:<32}{by:<18}{scenario:<20}{states:>9}{:>8.1}", mutant.name, at.elapsed().as_secs_f64());
        found += usize::from(by != "NOBODY");
    }
    println!("{found} mutants found in {:.0} s", began.elapsed().as_secs_f64());
    if missed.is_empty() { Ok(()) } else { Err(format!("not found: {missed:?}")) }
}

/// Where any mutant may be noticed.
const EVERYWHERE: [&str; 3] = ["--faults 1", "--faults 1 --slow", "--faults 2 --slow"];

/// Runs the explorer with a mutant, on one thread, so every run is the same. Returns which invariant broke, in which scenario, and after how many states.
fn is_noticed(copy: &Copy, mutant: &Mutant, arguments: &str) -> Result<Option<String>, String> {
    let mut command = copy.command(mutant);
    command.args(["--brief", "--jobs", "1"]).args(arguments.split(' '));
    let output = command.output().map_err(|error| error.to_string())?;
    let line = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok((!output.status.success()).then_some(line))
}

/// Whether the explorer has what this theme is about. It has one server and one name, and no semaphores and reentrant locks.
fn is_explored(theme: Theme) -> bool {
    !matches!(
        theme,
        Theme::Multi
            | Theme::Quorum
            | Theme::QuorumHot
            | Theme::QuorumNames
            | Theme::QuorumReaders
            | Theme::Semaphore
            | Theme::Rate
            | Theme::Reentrant
            | Theme::Keeping
            | Theme::Foreign
    )
}

/// Mutants that the explorer does not find, and why.
const NOT_FOUND: &[(&str, &str)] = &[
    ("unbounded-in-flight", "needs more calls than two clients have"),
    ("queue-starves", "needs more calls than two clients have"),
    ("queue-counts-as-silence", "needs more calls than two clients have"),
    ("no-refill-while-untold", "needs a host without messages, and more hand-overs"),
    ("hand-over-past-its-number", "not within the states of a short run"),
    ("side-keys-shared", "needs two names"),
    ("batch-mixes-slots", "needs a cluster"),
    ("entered-is-again", "not within the states of a short run"),
    ("used-by-an-old-answer", "not within the states of a short run"),
    ("once-gone-counts-as-stored", "not within the states of a short run"),
    ("once-forgotten-answer", "needs a caller that comes later than a command at the same moment"),
    ("misses-a-break", "needs a subscription that breaks"),
    ("adoption-no-tombstone", "needs a holder that goes on after it has passed its lease on"),
    ("hand-over-after-passing-on", "needs a holder that goes on after it has passed its lease on"),
    ("batch-block-uncut", "needs a clock that is ahead of the counter"),
];

#[cfg(test)]
mod tests {
    use super::{KNOWN, KNOWN_OF_TASKS, NOT_FOUND, is_explored};
    use crate::mutants::all;

    #[test]
    fn every_name_is_that_of_a_mutant_of_the_engine_and_has_one_place() {
        let names: Vec<&str> = KNOWN.iter().chain(KNOWN_OF_TASKS).chain(NOT_FOUND).map(|(name, _)| *name).collect();
        for (place, name) in names.iter().enumerate() {
            let mutant = all().find(|mutant| mutant.name == *name);
            assert!(mutant.is_some_and(|it| !it.engine.is_empty() && is_explored(it.theme)), "{name}");
            assert!(!names[..place].contains(name), "{name}");
        }
    }
}
