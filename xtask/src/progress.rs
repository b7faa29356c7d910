//! Long work in a child process, with one line that shows what it does and for how long.

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// How often the line changes on a terminal, and elsewhere.
const ON_A_TERMINAL: Duration = Duration::from_millis(500);
const ELSEWHERE: Duration = Duration::from_secs(15);
/// The longest step that is shown: the line must fit into a terminal.
const WIDTH: usize = 50;

/// Runs a command, shows how long it has been running and the last line that it printed. Its whole output is shown only if it fails.
pub(crate) fn watched(what: &str, command: &mut Command) -> Result {
    let began = Instant::now();
    let mut shown = Shown { what, began, terminal: io::stdout().is_terminal(), drawn: None };
    shown.draw("");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Error::new(format!("{what}: can't start {}: {error}", command.get_program().display())))?;
    let (outbox, inbox) = channel();
    if let Some(output) = child.stdout.take() {
        forward(output, outbox.clone());
    }
    if let Some(output) = child.stderr.take() {
        forward(output, outbox);
    }
    let mut lines: Vec<String> = Vec::new();
    loop {
        match inbox.recv_timeout(ON_A_TERMINAL) {
            Ok(line) => lines.push(line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        shown.draw(lines.last().map_or("", |line| line.trim()));
    }
    let status = child.wait()?;
    shown.end(status.success());
    if status.success() {
        return Ok(());
    }
    lines.iter().for_each(|line| eprintln!("{line}"));
    Err(Error::new(format!("{what}: failed after {} s ({status})", began.elapsed().as_secs())))
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

struct Shown<'a> {
    what: &'a str,
    began: Instant,
    terminal: bool,
    drawn: Option<Instant>,
}

impl Shown<'_> {
    fn draw(&mut self, step: &str) {
        let pace = if self.terminal { ON_A_TERMINAL } else { ELSEWHERE };
        if self.drawn.is_some_and(|drawn| drawn.elapsed() < pace) {
            return;
        }
        self.drawn = Some(Instant::now());
        let step: String = step.chars().take(WIDTH).collect();
        let line = format!("{:<36} {:>4} s  {step}", self.what, self.began.elapsed().as_secs());
        self.write(line.trim_end(), "");
    }

    fn end(&self, succeeded: bool) {
        let result = if succeeded { "done" } else { "FAILED" };
        self.write(&format!("{:<36} {:>4} s  {result}", self.what, self.began.elapsed().as_secs()), "\n");
    }

    fn write(&self, line: &str, end: &str) {
        if self.terminal {
            print!("\r\x1b[2K{line}{end}");
        } else {
            println!("{line}");
        }
        let _ = io::stdout().flush();
    }
}

#[cfg(test)]
mod tests {
    use super::watched;
    use std::process::Command;

    #[test]
    fn a_failure_tells_what_was_done_and_how_it_ended() {
        watched("building nothing", &mut Command::new("true")).unwrap();
        let text = watched("building nothing", &mut Command::new("false")).unwrap_err().to_string();
        assert!(text.contains("building nothing: failed after 0 s") && text.contains("exit status: 1"), "{text}");
        let text = watched("building it", &mut Command::new("no-such-program")).unwrap_err().to_string();
        assert!(text.contains("building it: can't start no-such-program"), "{text}");
    }
}
