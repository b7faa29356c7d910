//! Runs a test that is built with libFuzzer.
//!
//! <https://llvm.org/docs/LibFuzzer.html>

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::error::{Error, Result};
use super::log::say;

/// How often to print the progress.
const PROGRESS: Duration = Duration::from_secs(10);
/// So many lines of a failed run are shown.
const REPORT_LINES: usize = 40;
/// How long to shorten an input that breaks a target.
const SHORTENING: Duration = Duration::from_secs(30);
/// A longer word is no good word of a dictionary.
const LONGEST_WORD: usize = 24;

/// How a run ended.
pub(crate) enum Ended {
    /// Nothing was found.
    InTime,
    Broken {
        /// The input.
        file: PathBuf,
        /// The end of what the run printed.
        report: String,
    },
}

/// One target, with a folder for what it finds.
pub(crate) struct Fuzzer {
    name: &'static str,
    test: &'static str,
    program: PathBuf,
    folder: PathBuf,
}

/// The flags of the compiler: counters of what the code has reached, and a condition for `bolero`.
pub(crate) fn flags() -> String {
    let coverage = ["level=4", "inline-8bit-counters", "pc-table", "trace-compares"];
    let coverage = coverage.map(|flag| format!("-Cllvm-args=-sanitizer-coverage-{flag}"));
    let own = ["--cfg=fuzzing", "--cfg=fuzzing_libfuzzer", "-Cpasses=sancov-module", "-Ccodegen-units=1"];
    [own.join(" "), coverage.join(" ")].join(" ")
}

/// libFuzzer is C++.
pub(crate) fn check_compiler() -> Result {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    match Command::new(&compiler).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Error::new(format!(
            "fuzzing needs a C++ compiler, and `{compiler}` does not run: install one (on Debian: apt-get install g++), \
             or name it with CXX"
        ))),
    }
}

/// The machine that the compiler builds for.
pub(crate) fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Error::new("`rustc -vV` names no host"))
}

/// The words of an input, for a dictionary.
pub(crate) fn words(input: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let words = input.split(|byte| b" \n\r,|=".contains(byte));
    words.filter(|word| (2..=LONGEST_WORD).contains(&word.len())).map(<[u8]>::to_vec)
}

impl Fuzzer {
    pub(crate) fn new(name: &'static str, test: &'static str, program: &Path, folder: &Path) -> Result<Self> {
        let fuzzer = Self { name, test, program: program.to_owned(), folder: folder.to_owned() };
        for part in ["corpus", "found"] {
            fs::create_dir_all(folder.join(part))?;
        }
        Ok(fuzzer)
    }

    /// The working corpus.
    pub(crate) fn corpus(&self) -> PathBuf {
        self.folder.join("corpus")
    }

    pub(crate) fn set_dictionary(&self, words: &BTreeSet<Vec<u8>>) -> Result {
        let mut text = String::new();
        for word in words {
            let escaped: String = word.iter().map(|byte| format!("\\x{byte:02x}")).collect();
            let _ = writeln!(text, "\"{escaped}\"");
        }
        Ok(fs::write(self.folder.join("words.dict"), text)?)
    }

    /// Makes inputs for this long.
    pub(crate) fn run(&self, time: Duration) -> Result<Ended> {
        let seconds = time.as_secs().max(1);
        self.start(&format!(
            "corpus -dict=words.dict -artifact_prefix=found/ -timeout=25 -rss_limit_mb=4096 -print_final_stats=1 \
             -max_total_time={seconds}"
        ))
    }

    /// Runs one input.
    pub(crate) fn replay(&self, input: &[u8]) -> Result<Ended> {
        fs::write(self.folder.join("input"), input)?;
        self.start("-artifact_prefix=found/ -timeout=25 input")
    }

    /// Leaves out lines and then bytes, as long as the input still breaks the target. Returns the file with what is left.
    pub(crate) fn shorten(&self, file: &Path) -> Result<PathBuf> {
        let until = Instant::now() + SHORTENING;
        let breaks = |input: &[u8]| {
            let written = fs::write(self.folder.join("input"), input);
            let status = self.command("-artifact_prefix=found/ -timeout=25 input").stderr(Stdio::null()).status();
            written.is_ok() && status.is_ok_and(|status| !status.success())
        };
        let whole = fs::read(file)?;
        let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
        let lines = without(lines, until, |lines| breaks(&lines.concat())).concat();
        let bytes = without(lines, until, breaks);
        let short = file.with_extension("short");
        fs::write(&short, bytes)?;
        Ok(short)
    }

    /// The inputs of the working corpus that reach new code when the shortest ones run first.
    pub(crate) fn useful(&self, longest: u64) -> Result<Vec<PathBuf>> {
        let short = self.folder.join("short");
        let _ = fs::remove_dir_all(&short);
        fs::create_dir_all(&short)?;
        for entry in fs::read_dir(self.corpus())?.flatten() {
            if entry.metadata()?.len() <= longest {
                fs::copy(entry.path(), short.join(entry.file_name()))?;
            }
        }
        // libFuzzer's own `-merge` starts the program anew, without the name of the test. Without counters of how often a place is reached,
        // fewer inputs are useful.
        let output =
            self.command("-runs=0 -use_counters=0 -print_corpus_stats=1 -artifact_prefix=found/ short").output()?;
        if !output.status.success() {
            return Err(Error::new(format!("{}: an input of an earlier run breaks it; run it again", self.name)));
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let files = text.lines().filter_map(sha1_of_input).map(|sha1| short.join(sha1));
        // The corpus of the repository has other names.
        Ok(files.filter(|file| file.exists()).collect())
    }

    /// The program with these words for libFuzzer. Paths are relative to the target's folder, because no word may contain a
    /// space.
    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args([self.test, "--exact", "--nocapture", "--test-threads=1"]).current_dir(&self.folder);
        command.env("BOLERO_LIBFUZZER_ARGS", words.split_whitespace().collect::<Vec<_>>().join(" "));
        command.stdout(Stdio::null());
        command
    }

    /// Runs the program, and prints its progress.
    fn start(&self, words: &str) -> Result<Ended> {
        let mut child = self.command(words).stderr(Stdio::piped()).spawn()?;
        let mut progress = Progress { name: self.name, told: Instant::now(), last: String::new() };
        let (mut lines, mut file) = (Vec::new(), None);
        let output = child.stderr.take().map(|output| BufReader::new(output).split(b'\n'));
        for line in output.into_iter().flatten().map_while(std::result::Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if let Some((_, path)) = line.split_once("Test unit written to ") {
                file = Some(self.folder.join(path.trim()));
            }
            if !progress.takes(&line) {
                lines.push(line);
            }
        }
        let status = child.wait()?;
        if status.success() {
            progress.tell();
            return Ok(Ended::InTime);
        }
        let begin = lines.iter().rposition(|line| line.contains("Test Failure")).unwrap_or_default();
        let shown = lines[begin..].iter().filter(|line| !is_frame(line)).take(REPORT_LINES);
        let report = shown.map(String::as_str).collect::<Vec<_>>().join("\n");
        let file = file.unwrap_or_else(|| self.folder.join("input"));
        Ok(Ended::Broken { file, report })
    }
}

/// Leaves out as many items as possible: half of them at a time, then a quarter, and so on.
fn without<T: Clone>(mut items: Vec<T>, until: Instant, breaks: impl Fn(&[T]) -> bool) -> Vec<T> {
    let mut count = items.len() / 2;
    while count > 0 {
        let mut from = 0;
        while from < items.len() && Instant::now() < until {
            let to = items.len().min(from + count);
            let fewer = [&items[..from], &items[to..]].concat();
            if breaks(&fewer) { items = fewer } else { from = to }
        }
        count /= 2;
    }
    items
}

/// What a run has done so far.
struct Progress {
    name: &'static str,
    told: Instant,
    last: String,
}

impl Progress {
    /// Reads a line like `#4096 pulse  cov: 1063 ft: 4711 corp: 214/9Kb exec/s: 512 rss: 60Mb`. True if it is one.
    fn takes(&mut self, line: &str) -> bool {
        if let Some(shown) = status(line) {
            self.last = shown;
            if self.told.elapsed() >= PROGRESS {
                self.tell();
            }
            return true;
        }
        let chatter = ["stat::", "INFO", "Dictionary", "WARNING: Failed to find function"];
        chatter.iter().any(|begin| line.starts_with(begin))
    }

    fn tell(&mut self) {
        self.told = Instant::now();
        if !self.last.is_empty() {
            say!("{}: {}", self.name, self.last);
        }
    }
}

/// Whether a line is of a stack trace. Most of it is of the harness.
fn is_frame(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("at ") || line.split_once(": ").is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

/// Reads a line of statistics like `[ 12 3f78…] sz:   44 runs: …`. libFuzzer names its files by their SHA-1.
fn sha1_of_input(line: &str) -> Option<&str> {
    let (place, _) = line.trim_start().strip_prefix('[')?.split_once("] sz:")?;
    place.split_ascii_whitespace().nth(1)
}

fn status(line: &str) -> Option<String> {
    let inputs: u64 = line.strip_prefix('#')?.split_ascii_whitespace().next()?.parse().ok()?;
    let after = |label: &str| line.split_once(label).and_then(|(_, rest)| rest.split_ascii_whitespace().next());
    let (places, speed) = (after("cov: ")?, after("exec/s: ")?);
    Some(format!("{inputs} inputs, {speed} a second, {places} places reached"))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{sha1_of_input, status, without, words};

    #[test]
    fn what_does_not_matter_is_left_out() {
        let until = Instant::now() + Duration::from_secs(60);
        let breaks = |items: &[u32]| items.contains(&3) && items.contains(&17);
        assert_eq!(without((0..20).collect(), until, breaks), [3, 17]);
        assert_eq!(without(Vec::<u32>::new(), until, |_| true), [0; 0]);
    }

    #[test]
    fn a_line_of_progress_is_read() {
        let line = "#4096\tpulse  cov: 1063 ft: 4711 corp: 214/9Kb lim: 43 exec/s: 512 rss: 60Mb";
        assert_eq!(status(line).as_deref(), Some("4096 inputs, 512 a second, 1063 places reached"));
        assert_eq!(status("#x cov: 1"), None);
        assert_eq!(status("panicked"), None);
    }

    #[test]
    fn a_useful_input_is_named_by_its_sha_1() {
        let line = "  [  7 da39a3ee5e6b4b0d3255bfef95601890afd80709] sz:    44 runs:     0 succ:     0 focus: 0";
        assert_eq!(sha1_of_input(line), Some("da39a3ee5e6b4b0d3255bfef95601890afd80709"));
        assert_eq!(sha1_of_input("#5\tINITED cov: 7 ft: 8 corp: 2/3b exec/s: 0 rss: 45Mb"), None);
    }

    #[test]
    fn a_dictionary_has_the_words_of_the_corpus() {
        let found: Vec<_> = words(b"acquire a\nanswer entered 7").collect();
        assert_eq!(found, [&b"acquire"[..], b"answer", b"entered"]);
    }
}
