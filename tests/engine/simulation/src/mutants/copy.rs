//! The mutants of the engine: all of them are put into one copy of the sources, each behind a switch.
//!
//! The product has no test code. A change says which text of a file to find and what to put there. The copy is built
//! once. A process of it runs with one mutant, whose number is in the environment.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use super::{Mutant, all};

/// A change to a file of the engine. `MUTANT` in `put` is true while the mutant is switched on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// The path below `core/src`.
    pub(super) file: &'static str,
    /// The text to find. It occurs exactly once in the file.
    pub(super) find: &'static str,
    /// The replacement.
    pub(super) put: &'static str,
}

/// The environment variable with the number of the mutant that a copy switches on.
const SWITCH: &str = "LEASEHOLD_MUTANT";

/// The word in [`Change::put`] that stands for the switch.
const WORD: &str = "MUTANT";

/// The folders of the copy. The rest of the workspace is not needed.
const COPIED: [&str; 7] = [
    "core",
    "lua",
    "memory",
    "tests/engine/explorer",
    "tests/engine/model",
    "tests/engine/simulation",
    "tests/support/harness",
];

/// A module that the engine gets.
const SWITCH_MODULE: &str = "//! Which mutant is switched on.

use std::sync::OnceLock;

pub(crate) fn is(number: usize) -> bool {
    static ON: OnceLock<Option<usize>> = OnceLock::new();
    let read = || std::env::var(\"LEASEHOLD_MUTANT\").ok()?.parse().ok();
    *ON.get_or_init(read) == Some(number)
}
";

/// What has mutants.
const ENGINE: &str = "core/src/";

/// Every change, with its mutant's name.
fn changes() -> impl Iterator<Item = (&'static str, &'static Change)> {
    all().flat_map(|mutant| mutant.engine.iter().map(|change| (mutant.name, change)))
}

/// The program of the copy, with all of its mutants.
pub(super) struct Copy {
    program: PathBuf,
}

impl Copy {
    /// Writes the copy into the target directory and builds this program of it, as far as it has changed.
    pub(super) fn build(package: &str) -> Result<Self, String> {
        let directory = target().join("mutants");
        write(&directory).map_err(|error| error.to_string())?;
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--profile", "sim", "--package", package]);
        // The directory of the program itself, for the sake of other libraries. Clippy may have compiled that one.
        cargo.env("CARGO_TARGET_DIR", target()).env_remove("RUSTC_WORKSPACE_WRAPPER");
        let status = cargo.current_dir(&directory).status();
        match status {
            Ok(status) if status.success() => {
                // The next build of the program itself replaces the file there.
                let program = directory.join(package);
                fs::copy(target().join("sim").join(package), &program).map_err(|error| error.to_string())?;
                Ok(Self { program })
            }
            Ok(status) => Err(format!("the mutants in {} can't be built: {status}", directory.display())),
            Err(error) => Err(format!("cargo can't be started: {error}")),
        }
    }

    /// A command that runs the program with this mutant.
    pub(super) fn command(&self, mutant: &Mutant) -> Command {
        let mut command = Command::new(&self.program);
        command.env(SWITCH, number(mutant.name).to_string());
        command
    }
}

/// The number of a mutant. 0 is none.
fn number(name: &str) -> usize {
    all().position(|mutant| mutant.name == name).map_or(0, |at| at + 1)
}

/// Whether this process is the copy, with a mutant switched on.
pub(crate) fn is_switched_on() -> bool {
    env::var_os(SWITCH).is_some()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Writes the reduced workspace with every change. Files that are already correct are not touched.
fn write(directory: &Path) -> io::Result<()> {
    let mut written = BTreeSet::new();
    let mut put = |path: &str, text: &[u8]| {
        let to = directory.join(path);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        if fs::read(&to).ok().as_deref() != Some(text) {
            fs::write(&to, text)?;
        }
        written.insert(to);
        io::Result::Ok(())
    };
    for part in COPIED {
        for path in files(&root().join(part))? {
            let name = path.strip_prefix(root()).map_err(io::Error::other)?.to_string_lossy().into_owned();
            let bytes = fs::read(&path)?;
            let changed = match (name.strip_prefix(ENGINE), name.ends_with("Cargo.toml")) {
                (Some(file), _) => mutated(file, &String::from_utf8_lossy(&bytes)).map_err(io::Error::other)?,
                (None, true) => without_tests(&String::from_utf8_lossy(&bytes)),
                (None, false) => {
                    put(&name, &bytes)?;
                    continue;
                }
            };
            put(&name, changed.as_bytes())?;
        }
    }
    put(&format!("{ENGINE}mutant.rs"), SWITCH_MODULE.as_bytes())?;
    put("Cargo.toml", workspace(&fs::read_to_string(root().join("Cargo.toml"))?).as_bytes())?;
    put("Cargo.lock", &fs::read(root().join("Cargo.lock"))?)?;
    // A file that was renamed would be built twice.
    for part in COPIED {
        for path in files(&directory.join(part))? {
            if !written.contains(&path) {
                fs::remove_file(path)?;
            }
        }
    }
    Ok(())
}

/// All files below a directory.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    found.sort();
    Ok(found)
}

/// The manifest of the workspace, with the copied members only. A mutant may break lints that the sources keep. For example, it may
/// never read a value.
fn workspace(manifest: &str) -> String {
    let mut section = "";
    let mut line = |line| match line {
        "[workspace.lints.rust]" => {
            section = line;
            format!("{line}\nwarnings = \"allow\"\n")
        }
        _ if line.starts_with('[') => {
            section = line;
            format!("{line}\n")
        }
        _ if section == "[workspace.lints.rust]" => String::new(),
        _ if line.starts_with("members ") => format!("members = {COPIED:?}\n"),
        _ if line.starts_with("exclude ") => String::new(),
        _ => format!("{line}\n"),
    };
    manifest.lines().map(&mut line).collect()
}

/// A manifest without its dev-dependencies.
fn without_tests(manifest: &str) -> String {
    manifest.split("[dev-dependencies]").next().unwrap_or_default().to_owned()
}

/// A file with every mutant's changes.
///
/// # Errors
/// If a change does not match exactly once, or two of them overlap.
fn mutated(file: &str, text: &str) -> Result<String, String> {
    let mut places = Vec::new();
    for (name, change) in changes().filter(|(_, change)| change.file == file) {
        let mut found = text.match_indices(change.find);
        let (Some((start, _)), None) = (found.next(), found.next()) else {
            let count = text.matches(change.find).count();
            return Err(format!("{name}: this text occurs {count} times in {ENGINE}{file}:\n{}", change.find));
        };
        let put = change.put.replace(WORD, &format!("crate::mutant::is({})", number(name)));
        places.push((start, start + change.find.len(), put, name));
    }
    places.sort();
    let (mut mutated, mut end, mut before) = (String::new(), 0, "");
    for (start, next, put, name) in places {
        if start < end {
            return Err(format!("{before} and {name} change the same text of {file}"));
        }
        mutated.push_str(text.get(end..start).unwrap_or_default());
        mutated.push_str(&put);
        (end, before) = (next, name);
    }
    mutated.push_str(text.get(end..).unwrap_or_default());
    Ok(if file == "lib.rs" {
        mutated.replace("extern crate alloc;", "extern crate alloc;\nextern crate std;\n\nmod mutant;")
    } else {
        mutated
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_matches_once_and_overlaps_no_other() {
        for (name, change) in changes() {
            let text = fs::read_to_string(root().join(ENGINE).join(change.file)).unwrap_or_default();
            assert!(mutated(change.file, &text).is_ok(), "{name}: {:?}", mutated(change.file, &text).err());
            assert_ne!(change.find, change.put, "{name}");
        }
    }

    #[test]
    fn a_change_that_does_not_match_or_overlaps_is_refused() {
        let (_, first) = changes().next().unwrap();
        let twice = format!("{0}{0}", first.find);
        assert!(mutated(first.file, &twice).is_err_and(|error| error.contains("2 times")));
        assert!(mutated(first.file, "").is_err_and(|error| error.contains("0 times")));
    }
}
