use clap::Args;

use crate::tools::cargo::{cargo, root, run, target};
use crate::tools::error::Result;
use crate::tools::{node, package};

/// Let processes in Rust and Node share locks on real servers while faults strike, and judge what they recorded
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// Options of the program: see `cargo xtask torture --help`. With `--node 0`, no npm package is built
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Options {
    /// What `test --full` runs.
    pub(crate) fn of_a_release() -> Self {
        Self::of(&["--minutes=10"])
    }

    /// What `ci` runs: the same work on every machine, however slow. The faults are always the same, so that a failure
    /// comes from the change.
    pub(crate) fn of_a_commit() -> Self {
        Self::of(&["--faults=5", "--seed=1"])
    }

    /// What `test --timed` runs: all drills, a minute each.
    pub(crate) fn of_drills() -> Self {
        Self::of(&["--minutes=3", "--drill=election", "--drill=once", "--drill=limits"])
    }

    fn of(arguments: &[&str]) -> Self {
        Self { arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect() }
    }

    /// Whether workers in Node take part. They need the npm package.
    fn needs_node(&self) -> bool {
        let words: Vec<&str> = self.arguments.iter().flat_map(|argument| argument.split('=')).collect();
        let runs = !words.iter().any(|word| ["--help", "-h", "--check"].contains(word));
        runs && !words.windows(2).any(|pair| pair == ["--node", "0"])
    }
}

pub(crate) fn torture(options: &Options) -> Result {
    run(&mut cargo(&["build", "--quiet", "--package", "leasehold-torture", "--bins"]))?;
    run_built(options)
}

/// Runs the programs that `cargo test` has built together with others. Alone they would have other features, and their
/// dependencies would be built again.
pub(crate) fn run_built(options: &Options) -> Result {
    let mut command = std::process::Command::new(target().join("debug").join("leasehold-torture"));
    command.arg("--directory").arg(target().join("torture")).args(&options.arguments);
    if options.needs_node() {
        let project = node::project(&root().join("tests/e2e/torture/node"), &package::tarball()?)?;
        command.arg("--node-worker").arg(project.join("worker.mjs"));
    }
    run(&mut command)
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn only_workers_in_node_need_the_package() {
        for arguments in [&["--node=0"][..], &["--minutes", "1", "--node", "0"], &["--check", "file"], &["--help"]] {
            assert!(!Options::of(arguments).needs_node(), "{arguments:?}");
        }
        assert!(Options::of(&["--node", "2"]).needs_node() && Options::of_a_commit().needs_node());
    }
}
