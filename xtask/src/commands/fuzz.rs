//! Fuzzing: libFuzzer makes inputs for a target and keeps those that reach new code.
//!
//! The targets are tests that use `bolero`. For fuzzing, they are built in a target directory of their own, with
//! libFuzzer and with the compiler's coverage counters. Both work with a stable compiler.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::tools::cargo::{built_program, cargo, root, target};
use crate::tools::error::{Error, Result};
use crate::tools::libfuzzer::{self, Ended, Fuzzer};
use crate::tools::log::say;

/// Look for inputs that break a promise: replies, messages, bytes, URLs, options, commands, and what crosses to JavaScript
///
/// An input that breaks one is written to a file, and the command that replays it is printed. New inputs that reach new code
/// stay in the target directory, and later runs begin with them. `cargo test` replays the corpus.
#[derive(Args)]
pub(crate) struct Options {
    /// Only these targets; without names, all of them
    #[arg(value_parser = PossibleValuesParser::new(TARGETS.iter().map(|target| target.name)), hide_possible_values = true)]
    targets: Vec<String>,
    /// How long to fuzz each target
    #[arg(long, value_name = "M", default_value_t = 1.0)]
    minutes: f64,
    /// Run only this input of one target, and show what happens
    #[arg(long, value_name = "FILE", conflicts_with = "minutes")]
    input: Option<PathBuf>,
    /// Then add the inputs that reach new code to the corpus in the repository, the shortest ones first
    #[arg(long, conflicts_with = "input")]
    keep: bool,
    /// List the targets
    #[arg(long)]
    list: bool,
}

/// A test that is a fuzz target.
struct Target {
    name: &'static str,
    about: &'static str,
    build: Build,
    /// The test's path in its program.
    test: &'static str,
    /// The folder with the corpus.
    folder: &'static str,
}

/// What to build: the package, its features, and which program of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Build(&'static [&'static str]);

const ENGINE: Build = Build(&["--package", "leasehold-fuzz", "--test", "targets"]);
const COMPONENT: Build = Build(&["--package", "leasehold-tcp-connection", "--lib"]);
const NPM: Build = Build(&["--package", "leasehold-js", "--features", "quorum", "--lib"]);

const ENGINE_FOLDER: &str = "tests/engine/fuzz/tests/targets/__fuzz__";
const COMPONENT_FOLDER: &str = "bindings-wasi/tcp-connection/src/net/__fuzz__";
const NPM_FOLDER: &str = "bindings-js/src/__fuzz__";

static TARGETS: [Target; 8] = [
    engine("replies", "replies::replies", "any answer of a server, to the engine"),
    engine("messages", "messages::messages", "any bytes on any channel, to the engine and the labels"),
    engine("urls", "urls::urls", "any address of a server, to the crate"),
    engine("options", "options::options", "any option of a manager and a lock, to the crate"),
    engine("commands", "commands::commands", "any command, to the server in memory"),
    component("resp", "net::fuzz::resp", "the bytes of a server, to the component's parser"),
    component("addresses", "net::fuzz::addresses", "any address of a server, to the component"),
    Target {
        name: "crossing",
        about: "any record and text from JavaScript, to the npm package's engine",
        build: NPM,
        test: "fuzz::crossing",
        folder: NPM_FOLDER,
    },
];

const fn engine(name: &'static str, test: &'static str, about: &'static str) -> Target {
    Target { name, about, build: ENGINE, test, folder: ENGINE_FOLDER }
}

const fn component(name: &'static str, test: &'static str, about: &'static str) -> Target {
    Target { name, about, build: COMPONENT, test, folder: COMPONENT_FOLDER }
}

/// Longer inputs are not added to the corpus, and no target has more bytes in it.
const LONGEST: u64 = 600;
const MOST_BYTES: u64 = 12_000;

impl Options {
    /// Every target.
    pub(crate) fn all(minutes: f64) -> Self {
        Self { targets: Vec::new(), minutes, input: None, keep: false, list: false }
    }
}

pub(crate) fn run_all(options: &Options) -> Result {
    if options.list {
        TARGETS.iter().for_each(|target| say!("{:<10} {}", target.name, target.about));
        return Ok(());
    }
    if options.minutes.is_nan() || !(0.0..=10_000.0).contains(&options.minutes) {
        return Err(Error::new(format!("--minutes is {}: choose 0 to 10,000", options.minutes)));
    }
    let is_chosen =
        |target: &&Target| options.targets.is_empty() || options.targets.iter().any(|name| name == target.name);
    let chosen: Vec<&Target> = TARGETS.iter().filter(is_chosen).collect();
    if let Some(input) = &options.input {
        let [target] = chosen[..] else { return Err(Error::new("--input needs one target: name it")) };
        return replay(target, input);
    }
    let programs = build(chosen.iter().map(|target| target.build))?;
    let mut broken = Vec::new();
    for target in chosen {
        let fuzzer = target.fuzzer(&programs[&target.build])?;
        target.seed(&fuzzer)?;
        match fuzzer.run(Duration::from_secs_f64(options.minutes * 60.0))? {
            Ended::InTime => {}
            Ended::Broken { file, report } => {
                say!("{report}");
                tell(target, &fuzzer.shorten(&file)?);
                broken.push(target.name);
            }
        }
        if options.keep {
            target.keep(&fuzzer)?;
        }
    }
    if broken.is_empty() { Ok(()) } else { Err(Error::new(format!("broken: {}", broken.join(", ")))) }
}

/// Runs one input.
fn replay(target: &Target, input: &Path) -> Result {
    let bytes = fs::read(input).map_err(|error| Error::new(format!("{}: {error}", input.display())))?;
    let programs = build([target.build].into_iter())?;
    let fuzzer = target.fuzzer(&programs[&target.build])?;
    match fuzzer.replay(&bytes)? {
        Ended::InTime => {
            say!("{} holds for {}", target.name, input.display());
            Ok(())
        }
        Ended::Broken { report, .. } => {
            say!("{report}");
            Err(Error::new(format!("{} breaks {}", input.display(), target.name)))
        }
    }
}

fn tell(target: &Target, file: &Path) {
    let bytes = fs::read(file).unwrap_or_default();
    let (name, place) = (target.name, file.display());
    say!("{name}: this input breaks it: {place} ({} bytes)", bytes.len());
    for line in String::from_utf8_lossy(&bytes).lines().take(40) {
        say!("    {}", line.escape_debug());
    }
    say!("Replay it:  cargo xtask fuzz {name} --input {place}");
    say!("Once it is mended, move it to {}/{name}/corpus, and write a test that names the case.", target.folder);
}

/// Builds the programs with libFuzzer and coverage counters.
fn build(wanted: impl Iterator<Item = Build>) -> Result<BTreeMap<Build, PathBuf>> {
    libfuzzer::check_compiler()?;
    let host = libfuzzer::host()?;
    let mut programs = BTreeMap::new();
    for build in wanted.collect::<BTreeSet<_>>() {
        say!("building: {}", build.0.join(" "));
        // With a target, the flags are not for build scripts and macros.
        let mut command = cargo(&["test", "--quiet", "--no-run", "--profile", "sim", "--target", &host]);
        command.args(build.0).env("CARGO_TARGET_DIR", place()).env("RUSTFLAGS", libfuzzer::flags());
        programs.insert(build, built_program(&mut command)?);
    }
    Ok(programs)
}

/// The target directory of these builds, and of what the runs leave.
fn place() -> PathBuf {
    root().join(target()).join("fuzz")
}

impl Target {
    fn corpus(&self) -> PathBuf {
        root().join(self.folder).join(self.name).join("corpus")
    }

    fn fuzzer(&self, program: &Path) -> Result<Fuzzer> {
        Fuzzer::new(self.name, self.test, program, &place().join("runs").join(self.name))
    }

    /// Puts the corpus of the repository into the working corpus. Its words become the dictionary.
    fn seed(&self, fuzzer: &Fuzzer) -> Result {
        let mut words = BTreeSet::new();
        for file in files(&self.corpus())? {
            let bytes = fs::read(&file)?;
            words.extend(libfuzzer::words(&bytes));
            fs::write(fuzzer.corpus().join(file.file_name().unwrap_or_default()), bytes)?;
        }
        fuzzer.set_dictionary(&words)
    }

    /// Adds what reaches new code to the corpus of the repository.
    fn keep(&self, fuzzer: &Fuzzer) -> Result {
        let corpus = self.corpus();
        let before = files(&corpus)?;
        let mut bytes = before.iter().map(|file| fs::metadata(file).map_or(0, |data| data.len())).sum::<u64>();
        let mut added = 0;
        for file in fuzzer.useful(LONGEST)? {
            let name = file.file_name().unwrap_or_default();
            if corpus.join(name).exists() {
                continue;
            }
            let length = fs::metadata(&file)?.len();
            if bytes + length > MOST_BYTES {
                break;
            }
            bytes += length;
            added += 1;
            fs::copy(&file, corpus.join(name))?;
        }
        say!("{}: {added} inputs added, {bytes} bytes in all", self.name);
        Ok(())
    }
}

/// The files of a folder, by name. Empty if it does not exist.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = match fs::read_dir(folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect(),
        Err(_) => Vec::new(),
    };
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_small_corpus() {
        for target in &TARGETS {
            let files = files(&target.corpus()).unwrap();
            let bytes: u64 = files.iter().map(|file| fs::metadata(file).unwrap().len()).sum();
            assert!(!files.is_empty(), "{} has no corpus in {}", target.name, target.folder);
            assert!(bytes <= 16_000, "{} has {bytes} bytes of corpus", target.name);
        }
    }

    #[test]
    fn every_corpus_is_that_of_a_target() {
        for folder in [ENGINE_FOLDER, COMPONENT_FOLDER, NPM_FOLDER] {
            for entry in fs::read_dir(root().join(folder)).unwrap().flatten() {
                let name = entry.file_name();
                let is_known = TARGETS.iter().any(|target| target.folder == folder && *target.name == *name);
                assert!(is_known, "{folder} has a folder for {}", name.display());
            }
        }
    }
}
