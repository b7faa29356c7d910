use clap::Args;
use leasehold_servers::find;

use crate::cargo::{cargo, run, run_counted, target};
use crate::error::{Error, Result};
use crate::peers::{self, Language};

/// Run real clients of other libraries beside ours, on the same keys of one server
///
/// Go, Python, Node and Java with Maven are needed; name libraries to run only those, and need only their language.
#[derive(Args)]
pub(crate) struct Options {
    /// Only beside these; all if none is named
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
            "{error}\n       or name the libraries that you have the language of: `cargo xtask interop --help`"
        ))
    })?;
    println!("building our own peer");
    // As users have it: whoever asks first has Redisson's lock, and a debug build is late.
    run(&mut cargo(&["build", "--release", "--package", "leasehold-interop"]))?;

    let mut command = cargo(&["test", "--package", "leasehold-interop", "--test", "suite", "--"]);
    // One after the other: what is measured is who gets the lock, and not the processor.
    command.args(["--test-threads", "1", "--nocapture"]);
    command.args(names.iter().map(|name| format!("{}::", name.replace('-', "_"))));
    command.env("LEASEHOLD_PEERS", peers).env("LEASEHOLD_PEER", target().join("release/leasehold-peer"));
    let (tally, outcome) = run_counted(command.env("LEASEHOLD_SERVER", find()?));
    outcome?;
    println!("{} passed beside {}", tally.passed, names.join(", "));
    Ok(())
}
