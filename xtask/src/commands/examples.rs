//! Runs each example program to its end, and compares its output with the header of its source.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clap::Args;
use leasehold_servers::{Server, find};

use crate::tools::cargo::{cargo, root, run, target};
use crate::tools::error::{Error, Result};
use crate::tools::log::say;
use crate::tools::{node, package};

/// The most time that one program may take. It is alone with its server, but the machine may be busy.
const LIMIT: Duration = Duration::from_secs(60);

/// Run the programs of examples/native and examples/node, and compare their output with what they announce
#[derive(Args)]
pub(crate) struct Options {
    /// Only the tests of examples/service, which need PostgreSQL
    #[arg(long)]
    service: bool,
}

pub(crate) fn run_chosen(options: &Options) -> Result {
    if options.service { service() } else { run_all(build()) }
}

/// Checks and tests the web service. It is a workspace of its own, because it has more dependencies than all the rest.
pub(crate) fn service() -> Result {
    let there = |command: &str| {
        let mut command = cargo(&[command, "--all-targets"]);
        command.current_dir(root().join("examples/service")).env("CARGO_TARGET_DIR", target().join("service"));
        command
    };
    run(there("clippy").args(["--", "-D", "warnings"]))?;
    run(there("test").env("LEASEHOLD_SERVER", find()?))
}

/// Builds the examples in Rust, and runs them and those for Node. `tests/e2e/component` runs those for WASI.
pub(crate) fn run_all(build: Command) -> Result {
    let programs = native(build)?.into_iter().chain(scripts()?);
    // The lines look like those of cargo's test runner, so that each program counts as a test.
    let (mut passed, mut failed) = (0, 0);
    say!("     Running all programs (examples)");
    for Program { source, command } in programs {
        let name = source.strip_prefix(root()).unwrap_or(&source).display().to_string();
        let outcome = play(&source, command);
        let (count, result) = if outcome.is_ok() { (&mut passed, "ok") } else { (&mut failed, "FAILED") };
        *count += 1;
        let took = outcome.as_ref().copied().unwrap_or_default();
        say!("test {name} ... {result} <{:.3}s>", took.as_secs_f64());
        if let Err(error) = outcome {
            say!("{error}");
        }
    }
    say!("test result: {}. {passed} passed; {failed} failed; 0 ignored", if failed == 0 { "ok" } else { "FAILED" });
    if failed == 0 { Ok(()) } else { Err(Error::new("some examples failed")) }
}

struct Program {
    source: PathBuf,
    command: Command,
}

/// The command that builds the programs in Rust, and nothing else.
pub(crate) fn build() -> Command {
    cargo(&["build", "--quiet", "--package", "leasehold-examples", "--bins"])
}

fn native(mut build: Command) -> Result<Vec<Program>> {
    run(&mut build)?;
    let built = root().join(target()).join("debug");
    let sources = sources(&root().join("examples/native/src/bin"), "rs")?;
    let programs = sources.into_iter().map(|source| {
        let command = Command::new(built.join(source.file_stem().unwrap_or_default()));
        Program { source, command }
    });
    Ok(programs.collect())
}

fn scripts() -> Result<Vec<Program>> {
    let directory = node::examples();
    let project = node::project(&directory, &package::tarball()?)?;
    let mut programs = Vec::new();
    for (extension, flags) in [("mjs", &[][..]), ("ts", &["--import", "tsx"][..])] {
        for source in sources(&directory, extension)? {
            let Some(file) = source.file_name().and_then(|file| file.to_str()) else { continue };
            // The demo starts this program and tells it what to do.
            if file == "demo-worker.mjs" {
                continue;
            }
            let command = node::node(&project, &[flags, &[file]].concat());
            programs.push(Program { source, command });
        }
    }
    Ok(programs)
}

/// The programs that are one file each, in sorted order.
fn sources(directory: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.collect::<std::io::Result<Vec<_>>>()?;
    let mut sources: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    sources.retain(|path| path.extension().is_some_and(|found| found == extension));
    sources.sort();
    Ok(sources)
}

/// Runs one program on a separate server, or on three if it uses several, and compares what it prints.
fn play(source: &Path, mut command: Command) -> Result<Duration> {
    let text = fs::read_to_string(source)?;
    let expected = promised(&text);
    if expected.is_empty() {
        return Err(Error::new("its header doesn't say `It prints:`"));
    }
    let wanted = if text.contains("REDIS_URLS") { 3 } else { 1 };
    let servers = (0..wanted).map(|_| Server::start()).collect::<std::result::Result<Vec<_>, _>>()?;
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    command.env("REDIS_URL", urls.first().map_or("", String::as_str)).env("REDIS_URLS", urls.join(","));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn()?;
    let (output, warnings) = (collected(child.stdout.take()), collected(child.stderr.take()));
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Err(Error::new(format!("it did not end within {} s", LIMIT.as_secs())));
        }
        thread::sleep(Duration::from_millis(5));
    };
    let unreadable = |_| Error::new("its output could not be read");
    let printed = output.join().map_err(unreadable)??;
    say!("{}", warnings.join().map_err(unreadable)??.trim_end());
    if !status.success() {
        return Err(Error::new(format!("it failed ({status}); it printed\n{printed}")));
    }
    let lines: Vec<_> = printed.lines().collect();
    if !fits(&expected, &lines) {
        let expected = expected.join("\n");
        return Err(Error::new(format!("it printed\n{printed}\nbut its header says\n{expected}")));
    }
    Ok(start.elapsed())
}

/// Reads everything that a process writes.
fn collected(output: Option<impl Read + Send + 'static>) -> JoinHandle<std::io::Result<String>> {
    thread::spawn(move || {
        let mut text = String::new();
        output.map(|mut output| output.read_to_string(&mut text)).transpose().map(|_| text)
    })
}

/// The lines after `It prints:` in the comment at the top.
fn promised(source: &str) -> Vec<String> {
    let head = source.lines().map_while(|line| line.strip_prefix("//"));
    let after = head.skip_while(|line| !line.ends_with("It prints:")).skip(1);
    let lines = after.map(|line| line.trim_start_matches('!').trim());
    lines.filter(|line| !line.is_empty() && !line.starts_with("```")).map(str::to_owned).collect()
}

/// Whether the lines match. `..` stands for any text in its line. On a line by itself it stands for any number of
/// lines.
fn fits(expected: &[String], lines: &[&str]) -> bool {
    match expected.split_first() {
        None => lines.is_empty(),
        Some((any, rest)) if any == ".." => (0..=lines.len()).any(|at| fits(rest, lines.get(at..).unwrap_or_default())),
        Some((pattern, rest)) => {
            lines.split_first().is_some_and(|(line, more)| fits_line(pattern, line) && fits(rest, more))
        }
    }
}

fn fits_line(pattern: &str, line: &str) -> bool {
    match pattern.split_once("..") {
        None => pattern == line,
        Some((before, after)) => line.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices().any(|(at, _)| fits_line(after, rest.get(at..).unwrap_or_default()))
                || fits_line(after, "")
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_prints_is_read_from_its_head() {
        let rust = "//! An idea.\n//!\n//! `run it`. It prints:\n//!\n//! ```text\n//! one ..\n//! two\n//! ```\n\nuse std;\n// three";
        assert_eq!(promised(rust), ["one ..", "two"]);
        assert_eq!(promised("// An idea.\n//\n// It prints:\n//   one\nimport one;\n"), ["one"]);
        assert!(promised("// An idea.\nimport one;\n").is_empty());
    }

    #[test]
    fn dots_stand_for_any_text_and_alone_for_any_lines() {
        let expected: Vec<_> = ["page 1, fence ..", "..", "the .. end"].map(str::to_owned).into();
        assert!(fits(&expected, &["page 1, fence 17", "page 2", "page 3", "the very end"]));
        assert!(fits(&expected, &["page 1, fence 17", "the  end"]));
        assert!(!fits(&expected, &["page 1, fence 17", "page 2"]));
        assert!(!fits(&expected, &["page 1, fence 17", "the very end", "and more"]));
        assert!(!fits(&["one".to_owned()], &["one more"]));
    }
}
