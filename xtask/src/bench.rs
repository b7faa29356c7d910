use std::path::PathBuf;

use clap::Args;

use crate::cargo::{cargo, run};
use crate::error::Result;

/// Measure what locks cost, beside bare calls and another library, in one run
#[derive(Args)]
pub(crate) struct Options {
    /// Also write the numbers to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only these; all if none is named
    #[arg(value_parser = ["uncontended", "hot-key", "fleet", "renewals"])]
    sections: Vec<String>,
}

pub(crate) fn measure(options: &Options) -> Result {
    println!("building the benchmark, optimised");
    let mut command = cargo(&["run", "--release", "--package", "leasehold-bench", "--"]);
    if let Some(path) = &options.json {
        // The benchmark runs in the workspace's root, and the path is meant from here.
        command.arg("--json").arg(std::path::absolute(path)?);
    }
    run(command.args(&options.sections))
}
