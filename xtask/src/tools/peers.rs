//! The programs that use other libraries, in their own languages: `tests/e2e/interop/peers`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cargo::{root, run, target};
use super::error::{Error, Result};
use super::log::say;
use super::node;
use super::stamp::Stamp;

/// The language of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Go,
    Python,
    Node,
    Java,
}

/// The languages of the libraries that the benchmark measures.
pub(crate) const MEASURED: [Language; 3] = [Language::Go, Language::Node, Language::Java];
/// The same for rates and semaphores.
pub(crate) const LIMITED: [Language; 2] = [Language::Node, Language::Java];

/// Builds the peers of these languages into one directory, with a folder for each language.
pub(crate) fn build(languages: &[Language]) -> Result<PathBuf> {
    let missing: Vec<String> = languages.iter().filter_map(|language| language.missing()).collect();
    if !missing.is_empty() {
        return Err(Error::new(missing.join("\n       ")));
    }
    let peers = target().join("peers");
    for language in languages {
        say!("building the peers in {language:?}");
        language
            .build(&root().join("tests/e2e/interop/peers").join(language.folder()), &peers.join(language.folder()))?;
    }
    Ok(peers)
}

impl Language {
    fn folder(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Python => "python",
            Self::Node => "node",
            Self::Java => "java",
        }
    }

    /// What is missing, and where to get it.
    fn missing(self) -> Option<String> {
        match self {
            Self::Go => lacks(&[("go", "version")], "install Go 1.21 or newer (https://go.dev/dl)"),
            Self::Python => lacks(&[("python3", "--version")], "install Python 3.10 or newer (https://python.org)"),
            Self::Node => node::check().err().map(|error| error.to_string()),
            Self::Java => lacks(
                &[("java", "-version"), ("javac", "-version"), ("mvn", "--version")],
                "install a JDK 17 or newer and Maven (Debian, Ubuntu: openjdk-17-jdk-headless and maven)",
            ),
        }
    }

    /// Fetches what the lock files name, and builds, unless it is up to date.
    fn build(self, sources: &Path, place: &Path) -> Result {
        let programs: &[&str] = match self {
            Self::Go => &["go"],
            Self::Python => &["python3"],
            Self::Node => &["node", "npm"],
            Self::Java => &["java"],
        };
        let stamp = Stamp::over(place.with_extension("stamp"), &[sources.to_owned()], programs)?;
        if stamp.is_current() {
            return Ok(());
        }
        stamp.remove();
        let _ = fs::remove_dir_all(place);
        // Built from a copy, because most tools write next to the sources.
        copy(sources, place)?;
        match self {
            Self::Go => run(Command::new("go").current_dir(place).args(["build", "-o", "peer", "."]))?,
            Self::Python => environment(place)?,
            Self::Node => node::install(place)?,
            Self::Java => {
                let quietly = ["--batch-mode", "--quiet", "--no-transfer-progress"];
                let goals = ["compile", "dependency:copy-dependencies"];
                run(Command::new("mvn").current_dir(place).args(quietly).args(goals))?;
            }
        }
        stamp.set()
    }
}

/// Installs Python's packages in a virtual environment.
fn environment(place: &Path) -> Result {
    let made = run(Command::new("python3").current_dir(place).args(["-m", "venv", "environment"]));
    made.map_err(|error| Error::new(format!("{error}: Python's `venv` is needed (Debian, Ubuntu: python3-venv)")))?;
    let mut pip = Command::new(place.join("environment/bin/python"));
    run(pip.current_dir(place).args(["-m", "pip", "install", "--quiet", "--requirement", "requirements.txt"]))
}

fn lacks(programs: &[(&str, &str)], advice: &str) -> Option<String> {
    let absent = |(program, argument): &&(&str, &str)| Command::new(program).arg(argument).output().is_err();
    let names: Vec<_> = programs.iter().filter(absent).map(|(program, _)| format!("`{program}`")).collect();
    (!names.is_empty()).then(|| format!("{} not found: {advice}", names.join(" and ")))
}

fn copy(from: &Path, to: &Path) -> Result {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let copied = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &copied)?;
        } else {
            fs::copy(&path, &copied)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_program_is_named_with_advice() {
        let told = lacks(&[("cargo", "--version"), ("no-such-a", "x"), ("no-such-b", "x")], "install it");
        assert_eq!(told.as_deref(), Some("`no-such-a` and `no-such-b` not found: install it"));
        assert_eq!(lacks(&[("cargo", "--version")], "install it"), None);
    }
}
