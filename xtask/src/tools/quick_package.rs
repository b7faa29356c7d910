//! The npm package for the demo's workers: built in a fraction of the time, in a place of its own, and never published.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::cargo::{cargo, root, run, target};
use super::error::{Error, Result};
use super::log::say;
use super::node::{self, node, npm};
use super::package::{self, WASM};
use super::stamp::Stamp;
use super::wasm::{self, TARGET};

/// The demo's worker in JavaScript, once it is made.
pub(crate) fn worker() -> PathBuf {
    place().join(WORKER)
}

const WORKER: &str = "demo-worker.mjs";

/// Puts the worker, ioredis and the package side by side. The package is the tarball if that is up to date. Otherwise it is built
/// without optimisation, without `wasm-opt` and without limits of size.
pub(crate) fn make() -> Result {
    node::check()?;
    let tarball = package::current_tarball();
    let worker = node::examples().join(WORKER);
    let mut sources: Vec<PathBuf> = WASM.iter().map(|path| root().join(path)).collect();
    sources.extend([node::package(), worker.clone(), node::examples().join("package.json")]);
    sources.extend(tarball.clone());
    let stamp = Stamp::over(place().with_extension("stamp"), &sources, &["rustc", "node"])?;
    if stamp.is_current() {
        return Ok(());
    }
    stamp.remove();
    fs::create_dir_all(place())?;
    fs::copy(worker, self::worker())?;
    fs::write(place().join("package.json"), manifest()?)?;
    // npm leaves a package that it doesn't know alone, or removes it.
    let _ = fs::remove_dir_all(place().join(LEASEHOLD));
    match tarball {
        Some(tarball) => run(install().arg(tarball))?,
        None => build()?,
    }
    stamp.set()
}

fn build() -> Result {
    // npm mostly waits for the network, and cargo for the processor.
    let mut packages = install().spawn()?;
    let bound = bind();
    let installed = packages.wait()?;
    bound?;
    if !installed.success() {
        return Err(Error::new(format!("`npm install` failed ({installed})")));
    }
    say!("bundling the package for Node");
    let script = node::package().join("build/demo.mjs");
    run(node(&place(), &[]).arg(script).arg(generated()).arg(place().join(LEASEHOLD)))
}

/// Builds the WebAssembly, its JavaScript and the scripts' texts.
fn bind() -> Result {
    wasm::add_target()?;
    // Without `--quiet`, so that the demo can show what is compiled.
    run(&mut cargo_beside(&["build", "--package", "leasehold-js", "--target", TARGET]))?;
    run(&mut cargo_beside(&["build", "--package", BINDGEN]))?;
    let module = built().join(TARGET).join("debug").join("leasehold_js.wasm");
    let bindgen = built().join("debug").join(BINDGEN);
    fs::create_dir_all(generated())?;
    run(Command::new(&bindgen).arg(module).arg(generated()))?;
    run(Command::new(&bindgen).arg(generated().join("scripts.ts")))
}

const BINDGEN: &str = "leasehold-js-bindgen";
const LEASEHOLD: &str = "node_modules/leasehold";

/// Cargo locks its target directory, and the demo's workers in Rust are built at the same time. This is the directory in which the
/// tests build the package's WebAssembly, so that they find `wasm-bindgen` there.
fn cargo_beside(arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    // Without debug information, which wasm-bindgen would have to read.
    command.env("CARGO_TARGET_DIR", built()).env("CARGO_PROFILE_DEV_DEBUG", "false");
    command
}

fn install() -> Command {
    npm(&place(), &["install", "--no-fund", "--no-audit", "--no-package-lock", "--prefer-offline"])
}

/// The worker's `package.json`: ioredis and esbuild, in the versions that the examples and the package use.
fn manifest() -> Result<String> {
    let ioredis = version(&node::examples(), "dependencies", "ioredis")?;
    let esbuild = version(&node::package(), "devDependencies", "esbuild")?;
    Ok(format!(r#"{{ "private": true, "dependencies": {{ "ioredis": "{ioredis}", "esbuild": "{esbuild}" }} }}"#))
}

fn version(directory: &Path, kind: &str, name: &str) -> Result<String> {
    let path = directory.join("package.json");
    let manifest: Option<Value> = serde_json::from_str(&fs::read_to_string(&path)?).ok();
    let version = manifest.and_then(|manifest| manifest[kind][name].as_str().map(str::to_owned));
    version.ok_or_else(|| Error::new(format!("{} has no {name} in its {kind}", path.display())))
}

fn built() -> PathBuf {
    root().join(target()).join("package")
}

fn generated() -> PathBuf {
    target().join("demo").join("generated")
}

fn place() -> PathBuf {
    target().join("demo").join("node")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_where_the_package_for_users_is_built() {
        for place in [place(), generated()] {
            assert!(!place.starts_with(node::package()), "{}", place.display());
            assert!(!package::place().starts_with(&place) && !place.starts_with(target().join("npm")));
        }
    }

    #[test]
    fn the_worker_has_the_versions_of_the_examples_and_of_the_package() {
        let manifest: Value = serde_json::from_str(&manifest().unwrap()).unwrap();
        for name in ["ioredis", "esbuild"] {
            assert!(manifest["dependencies"][name].as_str().is_some_and(|version| !version.is_empty()), "{manifest}");
        }
    }
}
