//! Measures what locks cost. Each measurement alternates with one to compare with, in the same run.
//!
//! `leasehold-bench [--json FILE] [--quick] [sections]`; `cargo xtask bench` builds and starts it.

mod clock;
mod contender;
mod cost;
mod fleet;
mod hot_key;
mod limits;
mod peers;
mod renewals;
mod report;
mod scale;
mod server;
mod uncontended;

use std::alloc::System;
use std::env;
use std::error::Error;
use std::fs;

use report::Report;
use server::Bench;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Counts the allocations of this process.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How often this process has asked for memory so far.
fn allocations() -> usize {
    let stats = ALLOCATOR.stats();
    stats.allocations + stats.reallocations
}

const USAGE: &str = "usage: leasehold-bench [--json FILE] [--quick] [uncontended] [hot-key] [fleet] [renewals] [cost] [scale] [peers] [limits]";

#[tokio::main]
async fn main() -> Result {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["busy"] => loop {
            std::hint::spin_loop();
        },
        ["worker", rest @ ..] => fleet::work(rest).await,
        ["--json", path, rest @ ..] => run(Some(path), rest).await,
        rest => run(None, rest).await,
    }
}

/// Measures these sections, or all if none is given. With `--quick` before them, only the rows that the README shows.
async fn run(json: Option<&str>, arguments: &[&str]) -> Result {
    let (quick, sections) = match arguments {
        ["--quick", sections @ ..] => (true, sections),
        sections => (false, sections),
    };
    const ALL: [&str; 6] = ["uncontended", "hot-key", "fleet", "renewals", "cost", "scale"];
    if sections.iter().any(|section| !ALL.contains(section) && !["peers", "limits"].contains(section)) {
        return Err(USAGE.into());
    }
    let bench = Bench::start(quick).await?;
    let mut report = Report::new(&bench.name);
    for section in ALL.iter().filter(|section| sections.is_empty() || sections.contains(section)) {
        match *section {
            "uncontended" => uncontended::measure(&bench, &mut report).await?,
            "hot-key" => hot_key::measure(&bench, &mut report).await?,
            "fleet" => fleet::measure(&bench, &mut report).await?,
            "renewals" => renewals::measure(&bench, &mut report).await?,
            "scale" => scale::measure(&bench, &mut report).await?,
            _ => cost::measure(&bench, &mut report).await?,
        }
    }
    // Never by default, because it needs programs in other languages.
    if sections.contains(&"peers") {
        peers::measure(&bench, &mut report)?;
    }
    if sections.contains(&"limits") {
        limits::measure(&bench, &mut report)?;
    }
    report.print_aims();
    if let Some(path) = json {
        fs::write(path, format!("{:#}\n", report.to_json()))?;
    }
    Ok(())
}
