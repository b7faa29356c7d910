//! The demo: real processes, in Rust, in Node and as a WebAssembly component, share a real lock through a crash and a pause, and nothing is lost.

mod event;
mod fleet;
mod reach;
mod report;
mod screen;
mod stage;

use std::env;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use leasehold_servers::Server;

use crate::cargo::{cargo, root, run as run_command, target};
use crate::error::{Error, Result};
use crate::{component, node, package};
use fleet::{Component, Place};
use stage::Stage;

/// What a lease lasts without renewal: also the longest that a crash or a pause may hold up the others.
pub(crate) const TTL: Duration = Duration::from_secs(2);
/// What a crash or a pause may really cost: the rest of the lease, and the way there on a busy machine.
pub(crate) const STALL_LIMIT: Duration = Duration::from_secs(3);
pub(crate) const WRITERS: usize = 8;
pub(crate) const READERS: usize = 2;

const KILLED: usize = 2;
/// One in Node, if it is here.
const PAUSED: usize = 6;

/// Watch eight processes, in Rust, in Node and as a component, share one lock while one is killed and another is paused
///
/// Uses the server at REDIS_URL under a random prefix, and flushes nothing there; else starts one of its own.
#[derive(Args, Default)]
pub(crate) struct Options {
    /// Build no host for the component, wasmtime included, which takes some minutes once: without one no worker is a component
    #[arg(long)]
    pub(crate) quick: bool,
    /// Also write the result to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result {
    let theirs = env::var("REDIS_URL").ok();
    if let Some(url) = &theirs {
        println!("using the server at {}, from REDIS_URL", reach::reach(url)?);
    }
    println!("building the worker");
    run_command(&mut cargo(&["build", "--package", "leasehold-examples", "--bin", "demo-worker"]))?;
    let node = node_worker()?;
    let component = component_worker(options.quick)?;
    // Kept until the end: the server ends with it.
    let mut server = None;
    let url = match theirs {
        Some(url) => url,
        None => server.insert(Server::start()?).url(),
    };
    let rust = target().join("debug").join("demo-worker");
    let place = Place { rust, node, component, url, prefix: random_prefix(), ttl: TTL };

    let mut stage = Stage::open(&place)?;
    stage.play_for(Duration::from_secs(3))?;
    stage.kill_in_section(KILLED)?;
    stage.play_for(TTL + Duration::from_secs(2))?;
    stage.pause_in_section(PAUSED)?;
    stage.play_for(TTL + Duration::from_millis(1500))?;
    stage.resume(PAUSED)?;
    stage.play_until_refused(PAUSED)?;
    stage.play_for(Duration::from_secs(2))?;
    let report = stage.close()?;

    report.print();
    if let Some(path) = &options.json {
        fs::write(path, format!("{:#}\n", report.to_json()))
            .map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
    }
    report.verdict()
}

/// The worker in JavaScript, with the npm package installed beside it; `None` if there is no Node.
fn node_worker() -> Result<Option<PathBuf>> {
    if let Err(missing) = node::check() {
        println!("{missing}\nso all workers are in Rust this time");
        return Ok(None);
    }
    println!("building the npm package");
    let project = node::project(&root().join("examples").join("node"), &package::tarball()?)?;
    Ok(Some(project.join("demo-worker.mjs")))
}

/// The worker that is a component in wasmtime; `None` if that was never built, and there is no time for it.
fn component_worker(quick: bool) -> Result<Option<Component>> {
    let program = component::host_target().join("debug").join("demo-worker");
    if !program.exists() {
        if quick {
            println!(
                "none of the workers is a WebAssembly component: without --quick its host is built, in some minutes"
            );
            return Ok(None);
        }
        println!(
            "building the component and its host, wasmtime included: some minutes this once (--quick leaves it out)"
        );
    }
    let lock = component::lock()?;
    run_command(&mut component::host(&["build", "--workspace", "--bin", "demo-worker"]))?;
    Ok(Some(Component { program, lock }))
}

/// Keys of a server that is not ours must not meet ours.
fn random_prefix() -> String {
    format!("leasehold-demo-{:016x}:", RandomState::new().build_hasher().finish())
}
