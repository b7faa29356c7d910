use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use leasehold_servers::{Server, find};
use serde_json::Value;

use crate::tools::cargo::{cargo, root, run, target};
use crate::tools::error::{Error, Result};
use crate::tools::log::say;
use crate::tools::ratios::{self, Program, Ratios};
use crate::tools::{chart, component, node, package, peers};

/// Measure what locks cost, in one run with bare calls and other libraries
#[derive(Args)]
pub(crate) struct Options {
    /// Measure the npm package instead of the crate
    #[arg(long)]
    node: bool,
    /// Measure the component in wasmtime. The first time, this builds an optimised wasmtime, which takes many minutes
    #[arg(long, conflicts_with_all = ["node", "sections"])]
    component: bool,
    /// Measure against libraries of other languages, each in its own process. Needs Go, Node, and Java with Maven
    #[arg(long, conflicts_with_all = ["node", "component", "sections"])]
    peers: bool,
    /// Measure rates and semaphores against rate-limiter-flexible and Redisson. Needs Node, and Java with Maven
    #[arg(long, conflicts_with_all = ["node", "component", "peers", "sections"])]
    limits: bool,
    /// Only compare the crate and the npm package with their peers, in the rows that the README shows
    #[arg(long, conflicts_with_all = ["node", "component", "peers", "limits", "sections", "json", "svg"])]
    quick: bool,
    /// Take the median of three quick runs, and fail if a ratio is more than 20 % worse than the one in bench/ratios.json
    #[arg(long, requires = "quick")]
    check: bool,
    /// Take the median of three quick runs, and write it to bench/ratios.json
    #[arg(long, requires = "quick", conflicts_with = "check")]
    save: bool,
    /// Also write the numbers to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also draw the tables into this directory, as SVG
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Only these sections; all by default. `first-lock`, `alone` and `runtimes` exist only for the npm package, `renewals`, `cost` and
    /// `scale` only for the crate
    #[arg(value_parser = ["first-lock", "alone", "runtimes", "uncontended", "hot-key", "fleet", "renewals", "cost", "scale"])]
    sections: Vec<String>,
}

/// The runs whose median is compared or kept.
const RUNS: usize = 3;

pub(crate) fn measure(options: &Options) -> Result {
    if options.quick {
        return compare(options);
    }
    let mut command;
    // Kept until the end, because dropping it stops the server.
    let server;
    if options.node {
        say!("building the npm package");
        let project = node::project(&root().join("bench/node"), &package::tarball()?)?;
        server = Server::start()?;
        command = node::node(&project, &["main.mjs"]);
        command.env("REDIS_URL", server.url());
    } else if options.component {
        say!("building the component and its host, optimised");
        let lock = component::all()?;
        server = Server::start()?;
        command = component::host(&["run", "--release", "--package", "leasehold-bench-component", "--"]);
        command.env("REDIS_URL", server.url()).env("LEASEHOLD_LOCK_WASM", lock);
    } else if options.peers || options.limits {
        let peers = peers::build(if options.limits { &peers::LIMITED } else { &peers::MEASURED })?;
        say!("building the benchmark and our own peer, optimised");
        // Built together and started by path: building one of them alone uses other features, and would rebuild
        // everything.
        run(&mut cargo(&["build", "--release", "--package", "leasehold-bench", "--package", "leasehold-interop"]))?;
        command = Command::new(target().join("release/leasehold-bench"));
        command.env("LEASEHOLD_PEERS", peers).env("LEASEHOLD_PEER", target().join("release/leasehold-peer"));
        command.env("LEASEHOLD_SERVER", find()?);
        if options.limits {
            say!("building the npm package");
            let project = node::project(&root().join("tests/e2e/interop/peers/node"), &package::tarball()?)?;
            command.env("LEASEHOLD_NPM_PEER", project.join("main.mjs"));
        }
    } else {
        say!("building the benchmark, optimised");
        command = cargo(&["run", "--release", "--package", "leasehold-bench", "--"]);
    }
    // The benchmark runs in another directory, but the paths are relative to this one.
    let json = options.json.as_deref().map(std::path::absolute).transpose()?;
    let measured = json.clone().unwrap_or(std::path::absolute(target().join("bench.json"))?);
    if json.is_some() || options.svg.is_some() {
        command.arg("--json").arg(&measured);
    }
    let others = options.peers.then_some("peers").or(options.limits.then_some("limits"));
    run(command.args(&options.sections).args(others))?;
    match &options.svg {
        Some(directory) => draw(options, &measured, directory),
        None => Ok(()),
    }
}

/// Compares leasehold with its peers, as the README does.
fn compare(options: &Options) -> Result {
    say!("building the benchmark, optimised, and the npm package");
    run(&mut cargo(&["build", "--release", "--package", "leasehold-bench"]))?;
    let project = node::project(&root().join("bench/node"), &package::tarball()?)?;
    let mut runs = Vec::new();
    for _ in 0..if options.check || options.save { RUNS } else { 1 } {
        runs.push(quickly(&project)?);
    }
    let measured = ratios::median(&runs);
    ratios::print(&measured)?;
    if options.save {
        ratios::save(&measured)?;
    }
    if options.check { ratios::check(&measured) } else { Ok(()) }
}

/// One quick run of both benchmarks.
fn quickly(project: &Path) -> Result<Ratios> {
    let server = Server::start()?;
    let mut node = node::node(project, &["main.mjs"]);
    node.env("REDIS_URL", server.url());
    let programs = [(Program::Rust, Command::new(target().join("release/leasehold-bench"))), (Program::Node, node)];
    let mut all = Ratios::new();
    for (program, mut command) in programs {
        let path = target().join("bench-quick.json");
        run(command.arg("--json").arg(&path).arg("--quick").args(ratios::sections(program)))?;
        all.extend(ratios::of(program, &read(&path)?)?);
    }
    Ok(all)
}

fn read(path: &Path) -> Result<Value> {
    serde_json::from_str(&fs::read_to_string(path)?).map_err(|error| Error::new(format!("{}: {error}", path.display())))
}

/// Draws what was measured. The files' names begin with what the benchmark is about.
fn draw(options: &Options, measured: &Path, directory: &Path) -> Result {
    let (about, flag) = match options {
        Options { node: true, .. } => ("node", " --node"),
        Options { component: true, .. } => ("component", " --component"),
        Options { peers: true, .. } => ("languages", " --peers"),
        Options { limits: true, .. } => ("limits", " --limits"),
        _ => ("rust", ""),
    };
    let sections: String = options.sections.iter().map(|section| format!(" {section}")).collect();
    let report = read(measured)?;
    fs::create_dir_all(directory)?;
    for (name, svg) in chart::all(&report, &format!("cargo xtask bench{flag}{sections}")) {
        let path = directory.join(format!("{about}-{name}.svg"));
        fs::write(&path, svg)?;
        say!("drew {}", path.display());
    }
    Ok(())
}
