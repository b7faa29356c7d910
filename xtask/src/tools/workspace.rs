//! The crates of the repository, and what their manifests say about their tests.
//!
//! A crate is tested and checked unless its manifest says otherwise:
//!
//! ```toml
//! [package.metadata.leasehold]
//! tests = "optimised"                # the tests run in their own step, `optimised` or `component`: see `Tests`
//! tests = "none: a demo runs it"     # or the reason why there are none
//! tests = "apart: WebAssembly needs it"  # the same, for a crate that isn't built together with the others
//! folders = "free: generated code"   # the reason why its folders may import each other in both directions
//! ```

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::cargo::{cargo, root};
use super::error::{Error, Result};

/// A crate.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    #[cfg(test)]
    pub(crate) directory: std::path::PathBuf,
    /// Whether it is in the workspace of the root. The tests of the others run in steps of their own.
    pub(crate) is_at_root: bool,
    /// Whether it goes to crates.io.
    pub(crate) is_published: bool,
    pub(crate) tests: Tests,
    /// Whether its folders must import each other in one direction only.
    #[cfg(test)]
    pub(crate) has_ordered_folders: bool,
    pub(crate) test_targets: Vec<String>,
    /// The targets that `cargo test` leaves out.
    #[cfg(test)]
    pub(crate) left_out: Vec<String>,
}

/// Where the tests of a crate run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tests {
    /// Together with those of most crates.
    Together,
    /// With optimisation and assertions, in the simulation's target directory.
    Optimised,
    /// With the component, which needs wasmtime.
    Component,
    /// It has none.
    None,
    /// It has none, and is built apart from the others.
    Apart,
}

impl Package {
    /// Whether it has tests that measure.
    pub(crate) fn has_timed_tests(&self) -> bool {
        self.test_targets.iter().any(|name| name == TIMED)
    }
}

/// The test target with the tests that measure.
pub(crate) const TIMED: &str = "timed";

/// The workspaces of the repository: that of the root, that of the component's tests, and that of the web service.
pub(crate) const WORKSPACES: [&str; 3] =
    ["Cargo.toml", "tests/e2e/component/Cargo.toml", "examples/service/Cargo.toml"];

/// All crates of all workspaces.
pub(crate) fn packages() -> Result<Vec<Package>> {
    let mut packages = Vec::new();
    for workspace in WORKSPACES {
        packages.extend(of(&root().join(workspace))?);
    }
    Ok(packages)
}

/// The crates of the root's workspace whose tests run this way.
pub(crate) fn tested(tests: Tests) -> Result<Vec<String>> {
    let there = packages()?.into_iter().filter(|package| package.is_at_root && package.tests == tests);
    Ok(there.map(|package| package.name).collect())
}

/// One selection of crates for all steps of a long run: those whose tests run together, and those without tests, whose programs
/// other steps run. A smaller selection has other features, and then most other libraries are built again.
pub(crate) fn everything() -> Result<Vec<String>> {
    let all = packages()?.into_iter().filter(|package| package.is_at_root);
    let all = all.filter(|package| matches!(package.tests, Tests::Together | Tests::None));
    Ok(all.map(|package| package.name).collect())
}

/// Builds the programs of this selection, and the test targets that only other commands run.
pub(crate) fn programs() -> Result<Command> {
    let mut command = cargo(&["build", "--bins", "--test", "suite", "--test", TIMED]);
    select(&mut command, &everything()?);
    Ok(command)
}

/// Lets a command build these crates, with the features that only users turn on.
pub(crate) fn select(command: &mut Command, packages: &[String]) {
    const QUORUM: (&str, &str) = ("leasehold-js", "leasehold-js/quorum");
    command.args(packages.iter().flat_map(|package| ["--package", package]));
    command
        .args(packages.iter().any(|package| package == QUORUM.0).then_some(["--features", QUORUM.1]).iter().flatten());
}

fn of(workspace: &Path) -> Result<Vec<Package>> {
    let mut command = cargo(&["metadata", "--no-deps", "--format-version", "1", "--manifest-path"]);
    let output = command.arg(workspace).output()?;
    if !output.status.success() {
        return Err(Error::new(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| Error::new(error.to_string()))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages.map(|package| read(package, workspace)).collect()
}

fn read(package: &Value, workspace: &Path) -> Result<Package> {
    let name = package["name"].as_str().unwrap_or_default().to_owned();
    let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
    let said = |key: &str| package["metadata"]["leasehold"][key].as_str();
    let unknown = |key: &str, value: &str| Error::new(format!("{}: unknown {key} \"{value}\"", manifest.display()));
    let tests = match said("tests") {
        None => Tests::Together,
        Some("optimised") => Tests::Optimised,
        Some("component") => Tests::Component,
        Some(reason) if reason.starts_with("none: ") => Tests::None,
        Some(reason) if reason.starts_with("apart: ") => Tests::Apart,
        Some(other) => return Err(unknown("tests", other)),
    };
    #[cfg(test)]
    let has_ordered_folders = match said("folders") {
        None => true,
        Some(reason) if reason.starts_with("free: ") => false,
        Some(other) => return Err(unknown("folders", other)),
    };
    let targets = package["targets"].as_array().into_iter().flatten();
    #[cfg(test)]
    let left_out = targets.clone().filter(|target| {
        let is_tested = target["test"] == true && target["required-features"].is_null();
        !is_tested && !["custom-build", "example", "bench"].iter().any(|kind| target["kind"][0] == *kind)
    });
    #[cfg(test)]
    let left_out = left_out.map(|target| target["name"].as_str().unwrap_or_default().to_owned()).collect();
    let tests_of =
        |target: &Value| (target["kind"][0] == "test").then(|| target["name"].as_str().unwrap_or_default().to_owned());
    Ok(Package {
        name,
        #[cfg(test)]
        directory: manifest.parent().unwrap_or(manifest).to_owned(),
        is_at_root: workspace == root().join(WORKSPACES[0]),
        is_published: package["publish"].is_null(),
        tests,
        #[cfg(test)]
        has_ordered_folders,
        test_targets: targets.filter_map(tests_of).collect(),
        #[cfg(test)]
        left_out,
    })
}
