//! Short runs on real servers. Those with faults must break no promise, and those with a deliberate bug of a worker must
//! break one.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use leasehold_torture::checker::{Figures, Rule, Verdict, judge};
use leasehold_torture::drill::Drill;
use leasehold_torture::history::{self, Event};
use leasehold_torture::limits::Limits;
use leasehold_torture::report;
use leasehold_torture::run::{End, Settings, run};
use leasehold_torture::topologies::Kind;
use leasehold_torture::worker::Lie;

type Tested = Result<(), Box<dyn Error>>;

/// What the workers do.
enum Work {
    /// They take locks of all kinds on these servers.
    Locks(Kind),
    Drill(Drill),
}

/// Runs three workers in Rust for a little work. If there is a bug, the first worker has it, and there are no other
/// faults. Rules about time are not judged, because they depend on the machine.
fn torture(name: &str, work: Work, end: End, lie: Option<Lie>) -> Result<(Vec<Event>, Verdict), Box<dyn Error>> {
    let (kind, drill) = match work {
        Work::Locks(kind) => (kind, None),
        Work::Drill(drill) => (Kind::Single, Some(drill)),
    };
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("torture").join(name);
    fs::create_dir_all(&directory)?;
    let settings = Settings {
        kind,
        drill,
        limits: Limits::BRIEF,
        seed: 1,
        end,
        rust: (PathBuf::from(env!("CARGO_BIN_EXE_torture-worker")), 3),
        node: None,
        lie,
        calm: lie.is_some(),
        directory,
    };
    let history = run(&settings, &mut |line| println!("{line}"))?;
    let mut verdict = judge(&history);
    println!("{name}: {} times something was late or out of turn", verdict.forgive_delays());
    history::write(&settings.directory.join("history.jsonl"), &history)?;
    Ok((history, verdict))
}

fn keeps_every_promise(kind: Kind) -> Tested {
    let (history, verdict) = torture(&kind.to_string(), Work::Locks(kind), End::Done { faults: 8, leases: 400 }, None)?;
    print!("{}", report::figures(&verdict.figures, &verdict.documented, verdict.violations.len()));
    assert!(verdict.violations.is_empty(), "{}", report::violations(&history, &verdict));
    assert!(verdict.figures.leases >= 400 && verdict.figures.faults.len() > 2, "{:?}", verdict.figures);
    let Figures { conversions, several, entered_again, queue_grants, .. } = verdict.figures;
    let judged = if kind == Kind::Quorum { queue_grants > 0 } else { conversions.min(several).min(entered_again) > 0 };
    assert!(judged, "{:?}", verdict.figures);
    Ok(())
}

#[test]
fn a_single_server_under_faults_keeps_every_promise() -> Tested {
    keeps_every_promise(Kind::Single)
}

#[test]
fn a_primary_behind_sentinel_under_faults_keeps_every_promise() -> Tested {
    keeps_every_promise(Kind::Sentinel)
}

#[test]
fn a_cluster_under_faults_keeps_every_promise() -> Tested {
    keeps_every_promise(Kind::Cluster)
}

#[test]
fn a_quorum_under_faults_keeps_every_promise() -> Tested {
    keeps_every_promise(Kind::Quorum)
}

fn survives(drill: Drill, leases: u64) -> Result<Figures, Box<dyn Error>> {
    let name = format!("drill-{drill}");
    let (history, verdict) = torture(&name, Work::Drill(drill), End::Done { faults: 4, leases }, None)?;
    print!("{}", report::figures(&verdict.figures, &verdict.documented, verdict.violations.len()));
    assert!(verdict.violations.is_empty(), "{}", report::violations(&history, &verdict));
    Ok(verdict.figures)
}

#[test]
fn an_election_whose_leaders_are_struck_has_one_leader_at_a_time_and_one_at_the_end() -> Tested {
    let figures = survives(Drill::Election, 3)?;
    assert!(figures.leases >= 3 && figures.observed > 0, "{figures:?}");
    Ok(())
}

#[test]
fn all_callers_of_once_get_one_result_while_those_that_work_are_struck() -> Tested {
    let figures = survives(Drill::Once, 20)?;
    assert!(figures.onces > 5 && figures.answers > figures.onces, "{figures:?}");
    Ok(())
}

#[test]
fn jobs_of_processes_that_are_killed_never_have_more_permits_than_the_limits() -> Tested {
    let figures = survives(Drill::Limits, 60)?;
    assert!(figures.limits.reads > 0 && figures.queue_grants > 0, "{figures:?}");
    let used: Vec<_> =
        figures.limits.used.iter().map(|(name, used)| (name.as_str(), used.names, used.fewest > 0)).collect();
    assert_eq!(used, [("starts", 1, true), ("tenant", 8, true), ("total", 1, true)], "each is granted");
    Ok(())
}

/// The rules that a bug breaks.
fn breaks(name: &str, lie: Lie) -> Result<Vec<Rule>, Box<dyn Error>> {
    let (work, leases) = match lie {
        Lie::DoubleLimits => (Work::Drill(Drill::Limits), 60),
        _ => (Work::Locks(Kind::Single), 40),
    };
    let (_, verdict) = torture(name, work, End::Done { faults: 0, leases }, Some(lie))?;
    let mut rules: Vec<Rule> = verdict.violations.iter().map(|violation| violation.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    Ok(rules)
}

#[test]
fn a_worker_that_goes_on_after_its_lease_has_ended_is_found() -> Tested {
    let rules = breaks("keeps-working", Lie::KeepsWorking)?;
    assert!(rules.contains(&Rule::MutualExclusion), "{rules:?}");
    Ok(())
}

#[test]
fn a_worker_that_frees_the_locks_of_others_is_found() -> Tested {
    let rules = breaks("frees-others", Lie::FreesOthers)?;
    assert!(rules.contains(&Rule::MutualExclusion), "{rules:?}");
    Ok(())
}

#[test]
fn a_worker_that_asks_for_more_than_the_limit_is_found() -> Tested {
    let rules = breaks("double-limits", Lie::DoubleLimits)?;
    assert!(rules.contains(&Rule::Limits), "{rules:?}");
    Ok(())
}
