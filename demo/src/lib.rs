//! The demo: processes in Rust and in Node share a real lock on a real server. One is killed, one is paused, and no update is lost.
//!
//! `cargo xtask demo` starts it. That command knows how the workers' programs are built.

mod error;
mod event;
mod fleet;
mod latecomers;
mod picture;
mod progress;
mod reach;
mod report;
mod screen;
mod stage;
mod story;

use std::env;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::time::Instant;

use leasehold_servers::Server;

use error::Result;
use fleet::{Place, TTL};
use latecomers::Arrival;
use progress::watched;
use stage::Stage;
use story::Pace;

pub use error::Error;
pub use fleet::{Component, Language, Workers};
pub use latecomers::Latecomers;
pub use progress::Build;

/// What the demo needs, and where it leaves its results.
#[derive(Debug)]
pub struct Options {
    /// When the demo was started. It shows all times from here.
    pub began: Instant,
    /// The programs of the workers. They need not be built yet.
    pub workers: Workers,
    /// Builds the worker in Rust.
    pub first: Build,
    /// The other workers. Their builds begin at once. Meanwhile, the workers in Rust share the lock.
    pub latecomers: Vec<Latecomers>,
    /// The file of the picture, an SVG.
    pub picture: PathBuf,
}

/// Runs the demo with the server at `REDIS_URL`, or with one of its own.
///
/// # Errors
/// If there is no server, if something that the story needs can't be built, if a worker fails, or if a promise was
/// broken.
pub fn run(options: Options) -> Result {
    let Options { began, workers, mut first, latecomers, picture } = options;
    let theirs = env::var("REDIS_URL").ok();
    if let Some(url) = &theirs {
        println!("using the server at {}, from REDIS_URL", reach::reach(url)?);
    }
    let arrivals = latecomers.into_iter().map(Arrival::begin).collect::<Result<Vec<_>>>()?;
    // The demo finds or installs a server, and builds what its workers need.
    let mut own = None;
    let url = match theirs {
        Some(url) => url,
        None => own.insert(Server::start()?).url(),
    };
    watched(&mut first)?;
    let place = Place { workers, url, prefix: random_prefix(), ttl: TTL };
    let report = story::tell(Stage::open(&place, began, arrivals)?, &Pace::default())?;

    report.print();
    fs::write(&picture, picture::draw(&report))
        .map_err(|error| Error::new(format!("can't write {}: {error}", picture.display())))?;
    println!("\n  Who held the lock when: {}", std::path::absolute(&picture)?.display());
    println!("  Open it in a browser.");
    println!("  To press the buttons yourself: cargo xtask playground, then open docs/playground/index.html");
    report.verdict()
}

/// The server may hold other keys, which the demo must not touch.
fn random_prefix() -> String {
    format!("leasehold-demo-{:016x}:", RandomState::new().build_hasher().finish())
}
