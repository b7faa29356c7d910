//! The demo: processes in Rust and in Node share a real lock on a real server. One is killed, one is paused, and no update is lost.
//!
//! `cargo xtask demo` starts it. That command knows how the workers' programs are built.

mod error;
mod event;
mod fleet;
mod picture;
mod progress;
mod reach;
mod report;
mod screen;
mod stage;

use std::env;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use leasehold_servers::Server;

use error::Result;
use fleet::{Place, TTL};
use progress::{Work, watched};
use stage::Stage;

pub use error::Error;
pub use fleet::{Component, Workers};

/// A writer in Rust.
const KILLED: usize = 2;
/// A writer in Node, if there is one.
const PAUSED: usize = 6;

/// What the demo needs, and where it leaves its results.
#[derive(Debug)]
pub struct Options {
    /// When the demo was started. It shows all times from here.
    pub began: Instant,
    /// The programs of the workers. They need not be built yet.
    pub workers: Workers,
    /// Builds the worker in Rust.
    pub first: Build,
    /// Build the other workers. Those in Rust share the lock meanwhile.
    pub others: Vec<Build>,
    /// The file of the picture, an SVG.
    pub picture: PathBuf,
    /// A file for the figures.
    pub json: Option<PathBuf>,
}

/// A command that builds something.
#[derive(Debug)]
pub struct Build {
    /// What is shown while it runs.
    pub what: &'static str,
    /// The command.
    pub command: Command,
}

/// Runs the demo with the server at `REDIS_URL`, or with one of its own.
///
/// # Errors
/// If there is no server, if something can't be built, if a worker fails, or if a promise was broken.
pub fn run(options: Options) -> Result {
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
    let Options { began, workers, mut first, others, picture, json } = options;
    watched(first.what, &mut first.command)?;
    let place = Place { workers, url, prefix: random_prefix(), ttl: TTL };

    // The workers in Rust already share the lock while the others are built.
    let mut stage = Stage::open(&place, began)?;
    for mut build in others {
        stage.play_while(Work::start(build.what, &mut build.command)?)?;
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
    if let Some(path) = &json {
        write(path, &format!("{:#}\n", report.to_json()))?;
    }
    write(&picture, &picture::draw(&report))?;
    println!("\n  Who held the lock when: {}", std::path::absolute(&picture)?.display());
    println!("  Open it in a browser.");
    println!("  To press the buttons yourself: cargo xtask playground, then open docs/playground/index.html");
    report.verdict()
}

fn write(path: &Path, text: &str) -> Result {
    fs::write(path, text).map_err(|error| Error::new(format!("can't write {}: {error}", path.display())))
}

/// The server may hold other keys, which the demo must not touch.
fn random_prefix() -> String {
    format!("leasehold-demo-{:016x}:", RandomState::new().build_hasher().finish())
}
