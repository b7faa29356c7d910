//! Node and npm on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cargo::{root, run, target};
use super::error::{Error, Result};
use super::stamp::Stamp;

/// The oldest Node that the package supports.
const OLDEST: u32 = 20;

/// Fails with advice if Node is missing or too old.
pub(crate) fn check() -> Result {
    let advice = format!("install Node {OLDEST} or newer (https://nodejs.org), npm included");
    let version = Command::new("node").arg("--version").output();
    let version = version.map_err(|_| Error::new(format!("`node` not found: {advice}")))?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    if major(&version).is_none_or(|major| major < OLDEST) {
        return Err(Error::new(format!("`node` is {version}: {advice}")));
    }
    let npm = Command::new("npm").arg("--version").output();
    npm.map(drop).map_err(|_| Error::new(format!("`npm` not found: {advice}")))
}

/// The examples in JavaScript. One of them is a worker of the demo.
pub(crate) fn examples() -> PathBuf {
    root().join("examples/node")
}

/// The sources of the npm package.
pub(crate) fn package() -> PathBuf {
    root().join("bindings-js")
}

/// An npm command in a directory.
pub(crate) fn npm(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.current_dir(directory).args(["--loglevel", "error"]).args(arguments);
    command
}

/// A JavaScript program in a directory.
pub(crate) fn node(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("node");
    command.current_dir(directory).args(arguments);
    command
}

/// A JavaScript program in a directory, run by the Node of its `node-<system>-<architecture>` package. Without such a
/// package, the machine's Node runs it.
pub(crate) fn brought(directory: &Path, arguments: &[&str]) -> Command {
    let system = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let brought = directory.join(format!("node_modules/node-{system}-{architecture}/bin/node"));
    let mut command = Command::new(if brought.exists() { brought } else { "node".into() });
    command.current_dir(directory).args(arguments);
    command
}

/// Installs the packages of a directory's lock file, unless they are installed already.
pub(crate) fn install(directory: &Path) -> Result {
    let modified = |name: &str| directory.join(name).metadata().and_then(|data| data.modified()).ok();
    // npm writes this file last.
    let installed = modified("node_modules/.package-lock.json");
    if installed.is_some() && installed > modified("package-lock.json") {
        return Ok(());
    }
    run(&mut npm(directory, &["ci", "--no-fund", "--no-audit"]))
}

/// A copy of a directory of programs, with the packages of its `package.json` and the tarball installed.
pub(crate) fn project(programs: &Path, tarball: &Path) -> Result<PathBuf> {
    project_with(programs, Some(tarball))
}

/// A copy of a directory of programs, with the packages of its `package.json` installed, and the tarball if there is
/// one.
pub(crate) fn project_with(programs: &Path, tarball: Option<&Path>) -> Result<PathBuf> {
    let project = place(programs);
    let sources: Vec<PathBuf> = [programs].into_iter().chain(tarball).map(Path::to_owned).collect();
    let stamp = Stamp::over(project.with_extension("stamp"), &sources, &["node", "npm"])?;
    if stamp.is_current() {
        return Ok(project);
    }
    stamp.remove();
    // npm doesn't install a package again if its version is the same, even if its content has changed.
    let _ = fs::remove_dir_all(project.join("node_modules").join("leasehold"));
    let _ = fs::remove_file(project.join("package-lock.json"));
    fs::create_dir_all(&project)?;
    for entry in fs::read_dir(programs)? {
        let path = entry?.path();
        if path.is_file() {
            fs::copy(&path, project.join(path.file_name().unwrap_or_default()))?;
        }
    }
    run(npm(&project, &["install", "--no-fund", "--no-audit", "--prefer-offline"]).args(tarball))?;
    stamp.set()?;
    Ok(project)
}

/// Where the copy of a directory of programs is, once it is made.
pub(crate) fn place(programs: &Path) -> PathBuf {
    // `examples/node` and `bench/node` are different projects.
    let name = programs.strip_prefix(root()).unwrap_or(programs).to_string_lossy().replace('/', "-");
    target().join("npm").join("projects").join(name)
}

/// Reads the `20` of `v20.20.2`.
fn major(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read() {
        assert_eq!(major("v20.20.2"), Some(20));
        assert_eq!(major("20"), None);
        assert_eq!(major(""), None);
    }
}
