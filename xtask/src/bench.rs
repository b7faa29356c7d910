use std::path::PathBuf;

use clap::Args;
use leasehold_servers::Server;

use crate::cargo::{cargo, root, run};
use crate::error::Result;
use crate::{component, node, package};

/// Measure what locks cost, beside bare calls and other libraries, in one run
#[derive(Args)]
pub(crate) struct Options {
    /// Measure the npm package instead of the crate
    #[arg(long)]
    node: bool,
    /// Measure the component in wasmtime, which is built for it, optimised: many minutes, once
    #[arg(long, conflicts_with_all = ["node", "sections"])]
    component: bool,
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
    } else {
        println!("building the benchmark, optimised");
        command = cargo(&["run", "--release", "--package", "leasehold-bench", "--"]);
    }
    if let Some(path) = &options.json {
        // The benchmark runs in a directory of its own, and the path is meant from here.
        command.arg("--json").arg(std::path::absolute(path)?);
    }
    run(command.args(&options.sections))
}
