//! The npm package for the demo's workers. It is built in a fraction of the time, in its own directory, and never
//! published.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::cargo::{cargo, root, run, target, unlinted};
use super::error::{Error, Result};
use super::log::say;
use super::node::{self, node, npm};
use super::package::{self, WASM};
use super::stamp::Stamp;
use super::wasm::{self, TARGET};

/// The path of the demo's worker in JavaScript. [`make`] puts it there.
pub(crate) fn worker() -> PathBuf {
    place().join(WORKER)
}

const WORKER: &str = "demo-worker.mjs";

/// Puts the worker, ioredis and the package side by side. The package is built without optimisation, wasm-bindgen's
/// tool, `wasm-opt` and size limits.
pub(crate) fn make() -> Result {
    node::check()?;
    let worker = node::examples().join(WORKER);
    let mut sources: Vec<PathBuf> = WASM.iter().map(|path| root().join(path)).collect();
    sources.extend([node::package(), worker.clone(), node::examples().join("package.json")]);
    let stamp = Stamp::over(place().with_extension("stamp"), &sources, &["rustc", "node"])?;
    if stamp.is_current() {
        return Ok(());
    }
    stamp.remove();
    fs::create_dir_all(place())?;
    fs::copy(worker, self::worker())?;
    fs::write(place().join("package.json"), manifest()?)?;
    // npm mostly waits for the network, and cargo for the processor.
    let mut packages = npm(&place(), &INSTALL).spawn()?;
    let built = build();
    if packages.try_wait()?.is_none() {
        say!("npm is installing ioredis and esbuild");
    }
    let installed = packages.wait()?;
    let (engine, scripts) = built?;
    if !installed.success() {
        return Err(Error::new(format!("`npm install` failed ({installed})")));
    }
    say!("bundling the package for Node");
    let script = node::package().join("build/demo/bundle.mjs");
    run(node(&place(), &[]).args([script, engine, scripts, place().join("node_modules/leasehold")]))?;
    stamp.set()
}

/// Builds the WebAssembly, and writes the scripts' texts.
fn build() -> Result<(PathBuf, PathBuf)> {
    wasm::add_target()?;
    // In a directory of its own, because the demo's workers in Rust are built at the same time. Without `--quiet`, so that the demo can show what is compiled.
    run(&mut cargo_apart(&["build", "--package", "leasehold-js", "--target", TARGET]))?;
    let scripts = target().join("demo").join("scripts.ts");
    let writer = ["run", "--package", "leasehold-js-bindgen", "--no-default-features", "--"];
    run(cargo_apart(&writer).arg(&scripts))?;
    Ok((package::directory().join(TARGET).join("debug").join("leasehold_js.wasm"), scripts))
}

/// As a newcomer's, by the compiler itself.
fn cargo_apart(arguments: &[&str]) -> Command {
    package::apart(unlinted(cargo(arguments)))
}

const INSTALL: [&str; 5] = ["install", "--no-fund", "--no-audit", "--no-package-lock", "--prefer-offline"];

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

fn place() -> PathBuf {
    target().join("demo").join("node")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_has_the_versions_of_the_examples_and_of_the_package() {
        let manifest: Value = serde_json::from_str(&manifest().unwrap()).unwrap();
        for name in ["ioredis", "esbuild"] {
            assert!(manifest["dependencies"][name].as_str().is_some_and(|version| !version.is_empty()), "{manifest}");
        }
    }
}
