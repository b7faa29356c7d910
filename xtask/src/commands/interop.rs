use std::process::Command;

use clap::Args;
use leasehold_servers::find;

use crate::tools::cargo::{cargo, run, target};
use crate::tools::error::{Error, Result};
use crate::tools::log::say;
use crate::tools::peers::{self, Language};
use crate::tools::steps::Steps;

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

/// The languages of all libraries.
pub(crate) const ALL: [Language; 4] = [Language::Go, Language::Python, Language::Node, Language::Java];

/// The crate with the tests.
pub(crate) const PACKAGE: &str = "leasehold-interop";

pub(crate) fn run_all(options: &Options) -> Result {
    let wanted = |name: &str| options.libraries.is_empty() || options.libraries.iter().any(|library| library == name);
    let (names, mut languages): (Vec<_>, Vec<_>) = LIBRARIES.into_iter().filter(|(name, _)| wanted(name)).unzip();
    languages.dedup();
    let mut steps = Steps::default();
    steps.one_by_one = true;
    steps.step(&names.join(", "), || {
        let mut command = cargo(&["test", "--package", PACKAGE, "--test", "suite"]);
        prepare(&languages, &mut command)?;
        // One after the other: the programs of four languages start slowly if they start at the same time.
        command.args(["--", "--test-threads", "1"]);
        command.args(names.iter().map(|name| format!("{}::", name.replace('-', "_"))));
        run(command.env("LEASEHOLD_SERVER", find()?))
    });
    steps.finish()
}

/// Builds the programs that the tests start, and passes their places to the tests.
pub(crate) fn prepare(languages: &[Language], tests: &mut Command) -> Result {
    let peers = peers::build(languages).map_err(|error| {
        Error::new(format!(
            "{error}\n       or name only libraries whose languages are installed: `cargo xtask interop --help`"
        ))
    })?;
    say!("building our own peer");
    // Optimised, as users have it. The first client to ask gets Redisson's lock, and a debug build is slower to ask.
    run(&mut cargo(&["build", "--release", "--package", PACKAGE]))?;
    tests.env("LEASEHOLD_PEERS", peers).env("LEASEHOLD_PEER", target().join("release/leasehold-peer"));
    Ok(())
}
