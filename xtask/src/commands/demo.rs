use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use leasehold_demo::{Build, Component, Language, Latecomers, Workers};

use crate::tools::cargo::{cargo, ourselves, target};
use crate::tools::error::Result;
use crate::tools::log::say;
use crate::tools::workspace::programs;
use crate::tools::{component, node, quick_package};

/// Watch ten processes, in Rust and in Node, share one lock while one is killed and one is paused
///
/// Eight processes write and two read. The demo uses the server at REDIS_URL, under a random prefix, or starts its own
/// server. The processes in Rust begin. Two writers in Node join when they are built. If they are not ready in time,
/// the demo ends without them. At the end it draws a picture of who held the lock when.
#[derive(Args, Default)]
pub(crate) struct Options {
    /// Wait for the writers in Node before one process is killed and one is paused
    #[arg(long)]
    node: bool,
    /// Also run a writer on the WASI component, and wait for it. This first builds wasmtime, which takes several minutes
    #[arg(long)]
    wasi: bool,
    /// Build the Rust worker together with the programs that the tests build
    #[arg(long, hide = true)]
    beside_tests: bool,
    /// Write the picture (SVG) to this file instead of target/demo.svg
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// Starts the demo. It builds the workers itself, because those in Rust run while the others are built.
pub(crate) fn run(options: &Options) -> Result {
    let began = begin();
    // A separate crate, which needs few dependencies that this program has not already built.
    let alone = ["build", "--package", "leasehold-demo-worker"];
    let worker = if options.beside_tests { programs()? } else { cargo(&alone) };
    let first = Build { what: "building the Rust worker", command: worker };
    let mut workers = Workers { rust: target().join("debug").join("demo-worker"), node: None, component: None };
    let mut latecomers = Vec::new();
    if has_node(options.node)? {
        workers.node = Some(quick_package::worker());
        let command = behind_others(ourselves(&["package", "--for-demo"])?, options.node);
        let builds = vec![Build { what: "building the Node writers", command }];
        latecomers.push(Latecomers { language: Language::Node, builds, awaited: options.node });
    }
    if options.wasi {
        let host = component::host(&["build", "--workspace", "--bin", "demo-worker"]);
        let lock = ourselves(&["component", "--lock-only"])?;
        workers.component = Some(Component {
            program: component::host_target().join("debug").join("demo-worker"),
            lock: component::place("lock.wasm"),
        });
        // wasmtime first: it has its own target directory, so the Rust worker doesn't wait for it.
        let builds = vec![
            Build { what: "building wasmtime and its worker", command: host },
            Build { what: "building the WASI component", command: lock },
        ];
        latecomers.push(Latecomers { language: Language::Wasi, builds, awaited: true });
    }
    let picture = options.picture.clone().unwrap_or_else(|| target().join("demo.svg"));
    let options = leasehold_demo::Options { began, workers, first, latecomers, picture };
    leasehold_demo::run(options)
}

/// Whether workers in JavaScript can run here. An error if they can't, but are needed.
fn has_node(needed: bool) -> Result<bool> {
    match node::check() {
        Ok(()) => Ok(true),
        Err(missing) if needed => Err(missing),
        Err(missing) => {
            say!("{missing}. All workers are in Rust this time");
            Ok(false)
        }
    }
}

/// The command with a low priority, unless the demo waits for it. So the processor is free for the Rust worker's build
/// and for the processes that share the lock.
fn behind_others(command: Command, awaited: bool) -> Command {
    if awaited {
        return command;
    }
    let mut nice = Command::new("nice");
    nice.args(["-n", "15"]).arg(command.get_program()).args(command.get_args());
    nice
}

/// When the user started cargo. Cargo builds this program and then becomes it, in the same process.
fn begin() -> Instant {
    let now = Instant::now();
    age().and_then(|age| now.checked_sub(age)).unwrap_or(now)
}

/// How long this process has existed. Only Linux reports it.
fn age() -> Option<Duration> {
    age_from(&fs::read_to_string("/proc/self/stat").ok()?, &fs::read_to_string("/proc/uptime").ok()?)
}

/// The 22nd word of `stat` is when the process started, in hundredths of a second since the machine started. The second
/// word can contain spaces.
fn age_from(stat: &str, uptime: &str) -> Option<Duration> {
    let started: f64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let now: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64(now - started / 100.0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_a_process_is_read() {
        let stat = "17 (a (strange) name) S 1 17 17 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 1000 2 3";
        assert_eq!(age_from(stat, "200.45 300.00"), Some(Duration::from_millis(77_000)));
        assert_eq!(age_from("", "1"), None);
        assert_eq!(age_from(stat, "1.00 2.00"), None, "the process starts in the future");
    }
}
