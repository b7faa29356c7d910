//! What came out, for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::checker::{Figures, Used, Verdict, Violation};
use crate::history::{Event, HARNESS, What, names};

/// How many lines of a history a violation shows.
const LINES: usize = 40;
/// How much of a history a violation shows, before and after it, in microseconds.
const AROUND: (u64, u64) = (1_500_000, 300_000);
/// How many violations of one run are shown.
const SHOWN: usize = 5;

/// The figures of one run or of several.
pub fn figures(figures: &Figures, documented: &BTreeMap<&'static str, u64>, violations: usize) -> String {
    let mut text = String::new();
    let list = |counts: &BTreeMap<String, u64>| {
        let list: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        if list.is_empty() { "none".to_owned() } else { list.join(", ") }
    };
    let seconds = |micros: u64| format!("{}.{:02} s", micros / 1_000_000, micros % 1_000_000 / 10_000);
    let faults: u64 = figures.faults.values().sum();
    let followed = |(fault, (count, longest)): (&String, &(u64, u64))| {
        format!("{} ms after a {fault} ({count} in calm times)", longest / 1_000)
    };
    let followed: Vec<String> = figures.followed.iter().map(followed).collect();
    let is_drill = figures.observed + figures.onces > 0 || !figures.limits.used.is_empty();
    let lines = [
        ("operations", figures.operations.to_string()),
        ("leases", format!("{} held; lost: {}", figures.leases, list(&figures.losses))),
        (
            "kinds",
            format!(
                "{} conversions, {} leases of several names, {} times an owner entered again",
                figures.conversions, figures.several, figures.entered_again
            ),
        ),
        ("faults", format!("{faults}: {}", list(&figures.faults))),
        ("order", format!("{} grants compared with the server's queue", figures.queue_grants)),
        ("wipes", format!("{} renewed leases that nothing else struck meanwhile", figures.wiped)),
        ("longest stall", format!("{} without a grant to anybody", seconds(figures.longest_stall))),
        ("longest free", format!("{} without a fault, while a caller waited", seconds(figures.longest_free))),
        ("longest acquire", seconds(figures.longest_acquire)),
        ("latest end", format!("{} ms after a call's documented time", figures.latest_end / 1_000)),
    ];
    let kinds = ["kinds", "wipes", "longest acquire"];
    let lines = lines.into_iter().filter(|(what, _)| !is_drill || !kinds.contains(what));
    let of_elections = [
        ("takeovers", format!("{}; observers learned {} changes", figures.takeovers, figures.observed)),
        ("without a leader", format!("at most {}", followed.join(", "))),
    ];
    let repeated = format!("{} times work was done whose result was not stored", figures.repeated);
    let of_onces =
        [("once", format!("{} names with a result, {} calls got it, {repeated}", figures.onces, figures.answers))];
    let of_limits = limits(figures);
    let of_elections = of_elections.into_iter().filter(|_| figures.observed > 0);
    let of_onces = of_onces.into_iter().filter(|_| figures.onces > 0);
    for (what, value) in lines.chain(of_elections).chain(of_onces).chain(of_limits) {
        let _ = writeln!(text, "  {what:<16} {value}");
    }
    for (what, count) in documented {
        let _ = writeln!(text, "  {:<16} {count} times {what}", "documented");
    }
    let _ = writeln!(text, "  {:<16} {violations}", "violations");
    text
}

fn limits(figures: &Figures) -> Vec<(&'static str, String)> {
    let seen = &figures.limits;
    if seen.used.is_empty() {
        return Vec::new();
    }
    let used = |(kind, used): (&String, &Used)| {
        let Used { names, limit, per, most, grants, fewest, closest, free } = *used;
        let window = per.map(|per| format!(" in {per} ms")).unwrap_or_default();
        let each = if names > 1 { format!(" of {names} semaphores, at least {fewest} of each") } else { String::new() };
        let next = closest.map(|closest| format!("; one more took at least {} us", closest)).unwrap_or_default();
        let free = format!("free for at most {} ms while somebody waited", free / 1_000);
        format!("{kind}: at most {most} of {limit} permits{window}{next}; {free}; {grants} grants{each}")
    };
    let mut lines: Vec<_> = seen.used.iter().map(|kind| ("limits", used(kind))).collect();
    let (count, longest) = seen.given_back;
    lines.push(("after a kill", format!("{count} leases ended, the last one after {} ms", longest / 1_000)));
    let (silent, longest) = (seen.silent.0, seen.silent.1 / 1_000);
    let silent = format!("the server was silent {silent} times without a fault, at most {longest} ms");
    lines.push(("reads", format!("{} times a script read what the log says; {silent}", seen.reads)));
    lines
}

/// The violations of a run, with what happened around the first ones.
pub fn violations(history: &[Event], verdict: &Verdict) -> String {
    let mut text = String::new();
    for violation in verdict.violations.iter().take(SHOWN) {
        let _ = writeln!(text, "\nVIOLATION ({}) at {}: {}", violation.rule, violation.at, violation.text);
        text += &around(history, violation);
    }
    if verdict.violations.len() > SHOWN {
        let _ = writeln!(text, "\nand {} more violations", verdict.violations.len() - SHOWN);
    }
    text
}

/// What happened around a violation: the faults, and what is about its lock.
fn around(history: &[Event], violation: &Violation) -> String {
    let Violation { at, name, .. } = violation;
    let near = history.iter().filter(|event| event.at + AROUND.0 >= *at && event.at <= *at + AROUND.1);
    // The names of leases and calls are in the events that begin them.
    let mut calls: BTreeMap<(&str, u64), &str> = BTreeMap::new();
    let mut leases: BTreeMap<(&str, u64), &str> = BTreeMap::new();
    for event in history.iter().take_while(|event| event.at <= *at + AROUND.1) {
        match &event.what {
            What::Began { call, name, .. } => {
                calls.insert((&event.by, *call), name);
            }
            What::Granted { call, lease, .. } => {
                let name = calls.get(&(event.by.as_str(), *call)).copied().unwrap_or_default();
                leases.insert((&event.by, *lease), name);
            }
            _ => {}
        }
    }
    let is_named = |of: &str| of == name || names(of).any(|of| of == name);
    let is_about = |event: &&Event| {
        let of_call = |call: &u64| calls.get(&(event.by.as_str(), *call)).is_some_and(|it| is_named(it));
        let of_lease = |lease: &u64| leases.get(&(event.by.as_str(), *lease)).is_some_and(|it| is_named(it));
        match &event.what {
            What::Began { name: of, .. } => is_named(of),
            What::Granted { call, .. }
            | What::Ended { call, .. }
            | What::Wrote { call, .. }
            | What::Answered { call, .. } => of_call(call),
            What::Observed { name: of, .. } => is_named(of),
            What::Held { lease, .. } | What::Lost { lease, .. } => of_lease(lease),
            What::Server { .. } => serde_json::to_string(&event.what).is_ok_and(|text| text.contains(name.as_str())),
            _ => event.by == HARNESS,
        }
    };
    let lines: Vec<&Event> = near.filter(is_about).collect();
    // The latest ones before the violation matter most.
    let split = lines.partition_point(|event| event.at <= *at);
    let first = split.saturating_sub(LINES * 3 / 4);
    let mut text = String::new();
    for event in lines.iter().skip(first).take(LINES) {
        let what = serde_json::to_string(&event.what).unwrap_or_default();
        let away = (i128::from(event.at) - i128::from(*at)) as f64 / 1e3;
        let _ = writeln!(text, "  {away:>9.1} ms  {:<12} {what}", event.by);
    }
    text
}
