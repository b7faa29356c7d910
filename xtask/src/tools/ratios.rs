//! How leasehold compares with its peers: the rows that the README shows, each as one ratio. `bench/ratios.json` holds those of the
//! last measurement on a quiet machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::cargo::root;
use super::error::{Error, Result};
use super::log::say;

/// What is compared with the committed ratios may be this much worse.
const TOLERATED: f64 = 0.8;

/// One ratio: above 1, leasehold is ahead.
struct Ratio {
    name: &'static str,
    measured_by: Program,
    section: &'static str,
    /// The number of tasks, calls or processes, by its name in the report.
    size: (&'static str, u64),
    peer: &'static str,
    measure: &'static str,
    better: Better,
    /// Whether it hardly differs between runs. What a peer that polls needs under contention differs by a factor of two, so such
    /// ratios are shown and not checked.
    is_steady: bool,
}

/// The benchmark that measures a ratio.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    Rust,
    Node,
}

enum Better {
    More,
    Less,
}

const RATIOS: [Ratio; 7] = [
    Ratio {
        name: "Rust, no contention, one task: locks/s to rslock",
        measured_by: Program::Rust,
        section: "uncontended",
        size: ("tasks", 1),
        peer: "rslock",
        measure: "cycles_per_s",
        better: Better::More,
        is_steady: true,
    },
    Ratio {
        name: "Rust, no contention, 64 tasks: locks/s to rslock",
        measured_by: Program::Rust,
        section: "uncontended",
        size: ("tasks", 64),
        peer: "rslock",
        measure: "cycles_per_s",
        better: Better::More,
        is_steady: true,
    },
    Ratio {
        name: "Rust, one hot key, 10 tasks: hand-overs/s to rslock",
        measured_by: Program::Rust,
        section: "hot_key",
        size: ("tasks", 10),
        peer: "rslock",
        measure: "handovers_per_s",
        better: Better::More,
        is_steady: false,
    },
    Ratio {
        name: "Rust, one hot key, 8 processes: the longest wait to rslock's",
        measured_by: Program::Rust,
        section: "fleet",
        size: ("processes", 8),
        peer: "rslock",
        measure: "wait_longest_us",
        better: Better::Less,
        is_steady: false,
    },
    Ratio {
        name: "Rust, one hot key, 8 processes: commands for a hand-over to rslock's",
        measured_by: Program::Rust,
        section: "fleet",
        size: ("processes", 8),
        peer: "rslock",
        measure: "commands_a_remote_handover",
        better: Better::Less,
        is_steady: false,
    },
    Ratio {
        name: "Node, no contention, one task: median time to redis-semaphore's",
        measured_by: Program::Node,
        section: "alone",
        size: ("calls", 1),
        peer: "redis-semaphore",
        measure: "p50_us",
        better: Better::Less,
        is_steady: true,
    },
    Ratio {
        name: "Node, no contention, 64 locks at once: locks/s to redis-semaphore",
        measured_by: Program::Node,
        section: "alone",
        size: ("calls", 64),
        peer: "redis-semaphore",
        measure: "cycles_per_s",
        better: Better::More,
        is_steady: true,
    },
];

impl Ratio {
    /// Reads it from the report of its program.
    fn read(&self, report: &Value) -> Result<f64> {
        let [ours, peers] = ["leasehold", self.peer].map(|contender| {
            let (size, count) = self.size;
            let rows = report[self.section].as_array().into_iter().flatten();
            let mut row = rows.filter(|row| row["contender"] == contender && row[size] == count);
            let measured = &row.next()?[self.measure];
            measured["median"].as_f64().or(measured.as_f64())
        });
        let (Some(ours), Some(peers)) = (ours, peers) else {
            return Err(Error::new(format!("the benchmark has not measured \"{}\"", self.name)));
        };
        Ok(match self.better {
            Better::More => ours / peers,
            Better::Less => peers / ours,
        })
    }
}

/// The ratios of one run, by name.
pub(crate) type Ratios = BTreeMap<String, f64>;

/// Reads what a program measured.
pub(crate) fn of(program: Program, report: &Value) -> Result<Ratios> {
    let its = RATIOS.iter().filter(|ratio| ratio.measured_by == program);
    its.map(|ratio| Ok((ratio.name.to_owned(), ratio.read(report)?))).collect()
}

/// The sections of a program that have a ratio.
pub(crate) fn sections(program: Program) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for ratio in RATIOS.iter().filter(|ratio| ratio.measured_by == program) {
        // The command line's word for it.
        let section = ratio.section.replace('_', "-");
        if !all.contains(&section) {
            all.push(section);
        }
    }
    all
}

/// The median of several runs, each ratio by itself.
pub(crate) fn median(runs: &[Ratios]) -> Ratios {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, ratio) in runs.iter().flatten() {
        all.entry(name.clone()).or_default().push(*ratio);
    }
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    all.into_iter().map(|(name, values)| (name, middle(values))).collect()
}

/// Prints the ratios beside the committed ones.
pub(crate) fn print(measured: &Ratios) -> Result {
    let committed = committed()?;
    say!("{:>8}  {:>9}  above 1, leasehold is ahead", "measured", "committed");
    for (name, ratio) in measured {
        let before = committed.get(name).map_or("none".to_owned(), |before| format!("{before:.2}"));
        say!("{ratio:>8.2}  {before:>9}  {name}");
    }
    Ok(())
}

/// Fails if a ratio is much worse than the committed one.
pub(crate) fn check(measured: &Ratios) -> Result {
    let worse = worse(measured, &committed()?);
    if worse.is_empty() { Ok(()) } else { Err(Error::new(worse.join("\n"))) }
}

fn worse(measured: &Ratios, committed: &Ratios) -> Vec<String> {
    let steady =
        committed.iter().filter(|(name, _)| !RATIOS.iter().any(|ratio| ratio.name == *name && !ratio.is_steady));
    let compared = steady.map(|(name, before)| (name, before, measured.get(name)));
    let lines = compared.filter_map(|(name, before, now)| match now {
        None => Some(format!("{name}: {before:.2} is committed, and nothing measures it any more")),
        Some(now) if *now < before * TOLERATED => {
            Some(format!("{name}: {now:.2} is more than 20 % below {before:.2} in bench/ratios.json"))
        }
        Some(_) => None,
    });
    lines.collect()
}

/// Writes the ratios to the committed file.
pub(crate) fn save(measured: &Ratios) -> Result {
    let rounded: Ratios =
        measured.iter().map(|(name, ratio)| (name.clone(), (ratio * 100.0).round() / 100.0)).collect();
    let text = serde_json::to_string_pretty(&rounded).map_err(|error| Error::new(error.to_string()))?;
    Ok(fs::write(path(), text + "\n")?)
}

fn committed() -> Result<Ratios> {
    let text = fs::read_to_string(path())?;
    serde_json::from_str(&text).map_err(|error| Error::new(format!("{}: {error}", path().display())))
}

fn path() -> PathBuf {
    root().join("bench/ratios.json")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A report in which leasehold is twice as good as the peer.
    fn report(ratio: &Ratio) -> Value {
        let (ours, peers) = match ratio.better {
            Better::More => (2.0, 1.0),
            Better::Less => (1.0, 2.0),
        };
        let row = |contender: &str, value: f64| json!({ "contender": contender, ratio.size.0: ratio.size.1, ratio.measure: { "median": value } });
        json!({ ratio.section: [row("leasehold", ours), row(ratio.peer, peers)] })
    }

    #[test]
    fn a_ratio_above_one_says_that_we_are_ahead_whatever_is_measured() -> Result {
        for ratio in &RATIOS {
            assert_eq!(ratio.read(&report(ratio))?, 2.0, "{}", ratio.name);
        }
        Ok(())
    }

    #[test]
    fn a_ratio_that_was_not_measured_is_an_error() {
        assert!(RATIOS.iter().all(|ratio| ratio.read(&json!({})).is_err()));
    }

    #[test]
    fn a_ratio_may_be_a_fifth_worse() {
        let committed = Ratios::from([("a".to_owned(), 1.0), ("b".to_owned(), 1.0)]);
        assert_eq!(
            worse(&Ratios::from([("a".to_owned(), 0.81), ("b".to_owned(), 2.0)]), &committed),
            Vec::<String>::new()
        );
        let told = worse(&Ratios::from([("a".to_owned(), 0.79)]), &committed);
        assert_eq!(told.len(), 2, "{told:?}");
    }

    #[test]
    fn what_a_polling_peer_needs_is_not_checked() {
        let committed: Ratios = RATIOS.iter().map(|ratio| (ratio.name.to_owned(), 2.0)).collect();
        let now: Ratios = RATIOS.iter().map(|ratio| (ratio.name.to_owned(), 1.0)).collect();
        let told = worse(&now, &committed);
        assert_eq!(told.len(), RATIOS.iter().filter(|ratio| ratio.is_steady).count());
        assert!(!told.iter().any(|line| line.contains("hot key")), "{told:?}");
    }

    #[test]
    fn the_committed_ratios_are_those_that_are_measured() -> Result {
        let mut names = RATIOS.map(|ratio| ratio.name.to_owned());
        names.sort();
        assert_eq!(committed()?.into_keys().collect::<Vec<_>>(), names);
        Ok(())
    }

    #[test]
    fn the_median_is_the_middle_of_each() {
        let runs = [3.0, 1.0, 2.0].map(|ratio| Ratios::from([("a".to_owned(), ratio)]));
        assert_eq!(median(&runs), Ratios::from([("a".to_owned(), 2.0)]));
    }
}
