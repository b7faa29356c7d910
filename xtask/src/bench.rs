use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use leasehold_servers::{Server, find};

use crate::cargo::{cargo, root, run, target};
use crate::error::Result;
use crate::{component, node, package, peers};

/// Measure what locks cost, beside bare calls and other libraries, in one run
#[derive(Args)]
pub(crate) struct Options {
    /// Measure the npm package instead of the crate
    #[arg(long)]
    node: bool,
    /// Measure the component in wasmtime, which is built for it, optimised: many minutes, once
    #[arg(long, conflicts_with_all = ["node", "sections"])]
    component: bool,
    /// Measure beside libraries of other languages, in processes of their own: Go, Node, and Java with Maven are needed
    #[arg(long, conflicts_with_all = ["node", "component", "sections"])]
    peers: bool,
    /// Also write the numbers to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only these; all if none is named. `first-lock` is of the npm package only, `renewals` of the crate
    #[arg(value_parser = ["first-lock", "uncontended", "hot-key", "fleet", "renewals"])]
    sections: Vec<String>,
}

pub(crate) fn measure(options: &Options) -> Result {
    let mut command;
    // Kept until the end: the server ends with it.
    let server;
    if options.node {
        println!("building the npm package");
        let project = node::project(&root().join("tests").join("bench-node"), &package::tarball()?)?;
        server = Server::start()?;
        command = node::node(&project, &["main.mjs"]);
        command.env("REDIS_URL", server.url());
    } else if options.component {
        println!("building the component, and its host, optimised");
        let lock = component::all()?;
        server = Server::start()?;
        command = component::host(&["run", "--release", "--package", "leasehold-bench-component", "--"]);
        command.env("REDIS_URL", server.url()).env("LEASEHOLD_LOCK_WASM", lock);
    } else if options.peers {
        let peers = peers::build(&peers::MEASURED)?;
        println!("building the benchmark and our own peer, optimised");
        // Both at once, and started by hand: a build of one of them has other features, and builds everything anew.
        run(&mut cargo(&["build", "--release", "--package", "leasehold-bench", "--package", "leasehold-interop"]))?;
        command = Command::new(target().join("release/leasehold-bench"));
        command.env("LEASEHOLD_PEERS", peers).env("LEASEHOLD_PEER", target().join("release/leasehold-peer"));
        command.env("LEASEHOLD_SERVER", find()?);
    } else {
        println!("building the benchmark, optimised");
        command = cargo(&["run", "--release", "--package", "leasehold-bench", "--"]);
    }
    if let Some(path) = &options.json {
        // The benchmark runs in a directory of its own, and the path is meant from here.
        command.arg("--json").arg(std::path::absolute(path)?);
    }
    run(command.args(&options.sections).args(options.peers.then_some("peers")))
}
