//! The demo: processes in Rust and in Node share a real lock on a real server. One is killed, one is paused, and no update is lost.

mod event;
mod fleet;
mod picture;
mod reach;
mod report;
mod screen;
mod stage;

use std::env;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use leasehold_servers::Server;

use crate::cargo::{cargo, root, target};
use crate::error::{Error, Result};
use crate::progress::{Work, watched};
use crate::{component, node, package};
use fleet::{Component, Place};
use stage::Stage;

/// How long a lease lasts unless it is renewed. A crash or a pause blocks the other workers no longer than this.
pub(crate) const TTL: Duration = Duration::from_secs(2);
/// The longest time without a grant after a crash or a pause: the rest of the lease, and some time for a busy machine.
pub(crate) const STALL_LIMIT: Duration = Duration::from_secs(3);
pub(crate) const WRITERS: usize = 8;
pub(crate) const READERS: usize = 2;

const KILLED: usize = 2;
/// A writer in Node, if there is one.
const PAUSED: usize = 6;

/// Watch ten processes, in Rust and in Node, share one lock while one is killed and one is paused
///
/// Eight processes write and two read. The demo uses the server at REDIS_URL, under a random prefix, or starts its own server.
/// At the end it draws a picture of who held the lock when.
#[derive(Args, Default)]
pub(crate) struct Options {
    /// Also run a writer on the WASI component. This first builds wasmtime, which takes several minutes
    #[arg(long)]
    pub(crate) wasi: bool,
    /// Write the picture (SVG) to this file instead of target/demo.svg
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result {
    let began = Instant::now();
    let theirs = env::var("REDIS_URL").ok();
    if let Some(url) = &theirs {
        println!("using the server at {}, from REDIS_URL", reach::reach(url)?);
    }
    // The demo finds or installs a server, and builds what its workers need.
    let mut own = None;
    let url = match theirs {
        Some(url) => url,
        None => own.insert(Server::start()?).url(),
    };
    let worker = ["build", "--package", "leasehold-examples", "--bin", "demo-worker"];
    watched("building the Rust worker", &mut cargo(&worker))?;
    let node = has_node();
    let rust = target().join("debug").join("demo-worker");
    let mut place =
        Place { rust, node: None, component: None, url, prefix: random_prefix(), ttl: TTL, plan: (node, options.wasi) };

    // The workers in Rust already share the lock while the others are built.
    let mut stage = Stage::open(&place, began)?;
    if node {
        stage.play_while(Work::start("building the npm package", &mut ourselves(&["package", "--for-demo"])?)?)?;
        place.node = Some(node::project(&node_programs(), &package::place())?.join("demo-worker.mjs"));
    }
    if options.wasi {
        stage
            .play_while(Work::start("building the WASI component", &mut ourselves(&["component", "--lock-only"])?)?)?;
        let host = ["build", "--workspace", "--bin", "demo-worker"];
        stage.play_while(Work::start("building wasmtime and its worker", &mut component::host(&host))?)?;
        place.component = Some(Component {
            program: component::host_target().join("debug").join("demo-worker"),
            lock: component::place("lock.wasm"),
        });
    }
    stage.complete(&place)?;
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
        write(path, &format!("{:#}\n", report.to_json()))?;
    }
    let picture = options.picture.clone().unwrap_or_else(|| target().join("demo.svg"));
    write(&picture, &picture::draw(&report))?;
    println!("\n  Who held the lock when: {}", std::path::absolute(&picture)?.display());
    println!("  Open it in a browser.");
    report.verdict()
}

fn write(path: &PathBuf, text: &str) -> Result {
    fs::write(path, text).map_err(|error| Error::new(format!("can't write {}: {error}", path.display())))
}

/// Whether workers in JavaScript can run here.
fn has_node() -> bool {
    match node::check() {
        Ok(()) => true,
        Err(missing) => {
            println!("{missing}. All workers are in Rust this time");
            false
        }
    }
}

/// Where the worker in JavaScript is.
pub(crate) fn node_programs() -> PathBuf {
    root().join("examples").join("node")
}

/// Another command of this program.
fn ourselves(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args(arguments);
    Ok(command)
}

/// The server may hold other keys, which the demo must not touch.
fn random_prefix() -> String {
    format!("leasehold-demo-{:016x}:", RandomState::new().build_hasher().finish())
}
