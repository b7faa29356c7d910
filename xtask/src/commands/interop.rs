use clap::Args;
use leasehold_servers::find;

use crate::tools::cargo::{cargo, run, run_counted, target};
use crate::tools::error::{Error, Result};
use crate::tools::peers::{self, Language};

/// Run real clients of other libraries together with ours, on the same keys of one server
///
/// Needs Go, Python, Node, and Java with Maven. If you name libraries, only their languages are needed.
#[derive(Args)]
pub(crate) struct Options {
    /// Only these libraries; all by default
    #[arg(value_parser = LIBRARIES.map(|(name, _)| name))]
    libraries: Vec<String>,
}

const LIBRARIES: [(&str, Language); 5] = [
    ("redsync", Language::Go),
    ("redis-py", Language::Python),
    ("redlock", Language::Node),
    ("redis-semaphore", Language::Node),
    ("redisson", Language::Java),
];

pub(crate) fn run_all(options: &Options) -> Result {
    let wanted = |name: &str| options.libraries.is_empty() || options.libraries.iter().any(|library| library == name);
    let (names, mut languages): (Vec<_>, Vec<_>) = LIBRARIES.into_iter().filter(|(name, _)| wanted(name)).unzip();
    languages.dedup();
    let peers = peers::build(&languages).map_err(|error| {
        Error::new(format!(
            "{error}\n       or name only libraries whose languages are installed: `cargo xtask interop --help`"
        ))
    })?;
    println!("building our own peer");
    // Optimised, as users have it. The first client to ask gets Redisson's lock, and a debug build asks late.
    run(&mut cargo(&["build", "--release", "--package", "leasehold-interop"]))?;

    let mut command = cargo(&["test", "--package", "leasehold-interop", "--test", "suite", "--"]);
    // One after the other, so that the result depends on the locks and not on the processor.
    command.args(["--test-threads", "1", "--nocapture"]);
    command.args(names.iter().map(|name| format!("{}::", name.replace('-', "_"))));
    command.env("LEASEHOLD_PEERS", peers).env("LEASEHOLD_PEER", target().join("release/leasehold-peer"));
    let (tally, outcome) = run_counted(command.env("LEASEHOLD_SERVER", find()?));
    outcome?;
    println!("{} passed with {}", tally.passed, names.join(", "));
    Ok(())
}
