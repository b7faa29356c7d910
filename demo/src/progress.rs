//! Long work in a child process, with one line that shows what it does and for how long.

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_servers::Process;

use crate::error::{Error, Result};

/// How often the line changes on a terminal, and elsewhere.
const ON_A_TERMINAL: Duration = Duration::from_millis(500);
const ELSEWHERE: Duration = Duration::from_secs(15);
/// The longest step that is shown: the line must fit into a terminal.
const WIDTH: usize = 50;

/// A command that builds something.
#[derive(Debug)]
pub struct Build {
    /// What is shown while it runs.
    pub what: &'static str,
    /// The command.
    pub command: Command,
}

/// Runs a command, shows how long it has been running and the last line that it printed. Its whole output is shown only if it fails.
pub(crate) fn watched(build: &mut Build) -> Result {
    let mut work = Work::start(build.what, &mut build.command)?;
    let mut shown = Shown { terminal: io::stdout().is_terminal(), drawn: None };
    loop {
        shown.draw(&work.line());
        if let Some(outcome) = work.poll(ON_A_TERMINAL) {
            shown.end(&work.result(outcome.is_ok()));
            if outcome.is_err() {
                eprintln!("\n{}", work.output());
            }
            return outcome;
        }
    }
}

/// A child process whose output is read.
pub(crate) struct Work {
    what: String,
    began: Instant,
    process: Process,
    inbox: Receiver<String>,
    lines: Vec<String>,
}

impl Work {
    /// Starts a command.
    pub(crate) fn start(what: &str, command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::spawn(command).map_err(|error| Error::new(format!("{what}: {error}")))?;
        let (outbox, inbox) = channel();
        if let Some(output) = process.take_stdout() {
            forward(output, outbox.clone());
        }
        if let Some(output) = process.take_stderr() {
            forward(output, outbox);
        }
        Ok(Self { what: what.to_owned(), began: Instant::now(), process, inbox, lines: Vec::new() })
    }

    /// Reads the output for at most this long. Returns the outcome once the process has ended.
    pub(crate) fn poll(&mut self, limit: Duration) -> Option<Result> {
        let end = Instant::now() + limit;
        loop {
            match self.inbox.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => self.lines.push(line),
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = match self.process.wait() {
            Ok(status) if status.success() => return Some(Ok(())),
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let seconds = self.began.elapsed().as_secs();
        Some(Err(Error::new(format!("{}: failed after {seconds} s ({status})", self.what))))
    }

    /// Everything that it printed.
    pub(crate) fn output(&self) -> String {
        self.lines.join("\n")
    }

    /// What it does, for how long, and its last line.
    pub(crate) fn line(&self) -> String {
        self.result_line(&short(self.lines.last().map_or("", String::as_str)))
    }

    fn result(&self, succeeded: bool) -> String {
        self.result_line(if succeeded { "done" } else { "FAILED" })
    }

    fn result_line(&self, text: &str) -> String {
        format!("{:<36} {:>4} s  {text}", self.what, self.began.elapsed().as_secs()).trim_end().to_owned()
    }
}

/// The line, shortened. Cargo adds the directory of our crates: `Compiling leasehold v0.1.0 (/home/..)`.
fn short(line: &str) -> String {
    let line = line.trim();
    let what = line.strip_suffix(')').and_then(|line| line.split_once(" (/")).map_or(line, |(what, _)| what);
    what.chars().take(WIDTH).collect()
}

/// Sends each line of a child's output.
fn forward(output: impl Read + Send + 'static, outbox: Sender<String>) {
    thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(std::result::Result::ok);
        for line in lines {
            if outbox.send(line).is_err() {
                return;
            }
        }
    });
}

struct Shown {
    terminal: bool,
    drawn: Option<Instant>,
}

impl Shown {
    fn draw(&mut self, line: &str) {
        let pace = if self.terminal { ON_A_TERMINAL } else { ELSEWHERE };
        if self.drawn.is_none_or(|drawn| drawn.elapsed() >= pace) {
            self.drawn = Some(Instant::now());
            self.write(line, "");
        }
    }

    fn end(&self, line: &str) {
        self.write(line, "\n");
    }

    fn write(&self, line: &str, end: &str) {
        if self.terminal {
            print!("\r\x1b[2K\x1b[?7l{line}\x1b[?7h{end}");
        } else {
            println!("{line}");
        }
        let _ = io::stdout().flush();
    }
}

#[cfg(test)]
mod tests {
    use super::{Build, Work, short, watched};
    use std::process::Command;

    #[test]
    fn the_line_says_what_runs_now() {
        assert_eq!(short("   Compiling leasehold v0.1.0 (/home/me/leasehold/native)"), "Compiling leasehold v0.1.0");
        assert_eq!(short("   Compiling syn v3.0.9"), "Compiling syn v3.0.9");
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'info: downloading' >&2; echo '   Compiling it v1.0.0' >&2; sleep 3600"]);
        let mut work = Work::start("building it", &mut command).unwrap();
        while !work.line().ends_with("Compiling it v1.0.0") {
            assert!(work.poll(std::time::Duration::from_millis(10)).is_none());
        }
    }

    #[test]
    fn a_failure_tells_what_was_done_and_how_it_ended() {
        let build = |what, program| watched(&mut Build { what, command: Command::new(program) });
        build("building nothing", "true").unwrap();
        let text = build("building nothing", "false").unwrap_err().to_string();
        assert!(text.contains("building nothing: failed after ") && text.contains("exit status: 1"), "{text}");
        let text = build("building it", "no-such-program").unwrap_err().to_string();
        assert!(text.contains("building it: starting no-such-program: "), "{text}");
    }
}
