use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use clap::Args;
use leasehold_demo::{Build, Component, Workers};

use crate::tools::cargo::{cargo, target};
use crate::tools::error::Result;
use crate::tools::log::say;
use crate::tools::{component, node};

/// Watch ten processes, in Rust and in Node, share one lock while one is killed and one is paused
///
/// Eight processes write and two read. The demo uses the server at REDIS_URL, under a random prefix, or starts its own server.
/// At the end it draws a picture of who held the lock when.
#[derive(Args, Default)]
pub(crate) struct Options {
    /// Also run a writer on the WASI component. This first builds wasmtime, which takes several minutes
    #[arg(long)]
    wasi: bool,
    /// Write the picture (SVG) to this file instead of target/demo.svg
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Starts the demo. It builds the workers itself, because those in Rust run while the others are built.
pub(crate) fn run(options: &Options) -> Result {
    let began = Instant::now();
    let worker = ["build", "--package", "leasehold-examples", "--bin", "demo-worker"];
    let first = Build { what: "building the Rust worker", command: cargo(&worker) };
    let mut workers = Workers { rust: target().join("debug").join("demo-worker"), node: None, component: None };
    let mut others = Vec::new();
    if has_node() {
        workers.node = Some(node::place(&node::examples()).join("demo-worker.mjs"));
        others.push(Build { what: "building the npm package", command: ourselves(&["package", "--for-demo"])? });
    }
    if options.wasi {
        let host = ["build", "--workspace", "--bin", "demo-worker"];
        workers.component = Some(Component {
            program: component::host_target().join("debug").join("demo-worker"),
            lock: component::place("lock.wasm"),
        });
        others.push(Build { what: "building the WASI component", command: ourselves(&["component", "--lock-only"])? });
        others.push(Build { what: "building wasmtime and its worker", command: component::host(&host) });
    }
    let picture = options.picture.clone().unwrap_or_else(|| target().join("demo.svg"));
    let options = leasehold_demo::Options { began, workers, first, others, picture, json: options.json.clone() };
    Ok(leasehold_demo::run(options)?)
}

/// Whether workers in JavaScript can run here.
fn has_node() -> bool {
    match node::check() {
        Ok(()) => true,
        Err(missing) => {
            say!("{missing}. All workers are in Rust this time");
            false
        }
    }
}

/// Another command of this program.
fn ourselves(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args(arguments);
    Ok(command)
}
