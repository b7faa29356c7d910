//! The output of a step. It is kept while the step runs, and a terminal shows its last line.
//!
//! Outside a step, everything goes straight to the terminal.

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_servers::Process;

use super::error::Result;

/// A line of output, and when it came.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) at: Instant,
    pub(crate) text: String,
}

/// The output of the step that runs now. Steps run one after the other, so there is at most one.
static CURRENT: Mutex<Option<Vec<Line>>> = Mutex::new(None);

/// How often the line on a terminal changes.
const PACE: Duration = Duration::from_millis(500);

/// Tests run at the same time, but there is one log.
#[cfg(test)]
static ALONE: Mutex<()> = Mutex::new(());

/// Does the work of a step, and returns its output.
pub(crate) fn during<T>(step: &str, work: impl FnOnce() -> T) -> (T, Vec<Line>) {
    #[cfg(test)]
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    *current() = Some(Vec::new());
    let outcome = thread::scope(|scope| {
        let began = Instant::now();
        if io::stdout().is_terminal() {
            scope.spawn(move || while show(step, began) {});
        }
        // The thread above ends when the log is taken. That happens even if the work panics.
        let taken = Taken;
        (work(), taken.lines())
    });
    if io::stdout().is_terminal() {
        print!("\r\x1b[2K");
    }
    outcome
}

/// Prints lines, or adds them to the output of the step that runs.
pub(crate) fn add(text: impl Display) {
    text.to_string().lines().for_each(push);
}

fn push(line: &str) {
    match current().as_mut() {
        Some(lines) => lines.push(Line { at: Instant::now(), text: line.to_owned() }),
        None => println!("{line}"),
    }
}

/// Runs a command to its end. What it prints goes where [`add`] puts it. A step's command ends with us, however we end.
pub(crate) fn status(command: &mut Command) -> Result<ExitStatus> {
    if current().is_none() {
        return Ok(command.status()?);
    }
    // One pipe for both, so that the lines keep their order.
    let (output, input) = io::pipe()?;
    let mut process = Process::spawn(command.stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input))?;
    // Drops the command's copies of the pipe's input. The pipe closes when the last program that writes to it ends.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let reader = thread::spawn(move || {
        BufReader::new(output)
            .split(b'\n')
            .map_while(io::Result::ok)
            .for_each(|line| push(String::from_utf8_lossy(&line).trim_end_matches('\r')));
    });
    let status = process.finish();
    let _ = reader.join();
    Ok(status?)
}

/// The output of the step so far.
pub(crate) fn so_far() -> Vec<Line> {
    current().clone().unwrap_or_default()
}

/// Prints a line, as [`add`] does, with the arguments of `format!`.
macro_rules! say {
    ($($arguments:tt)*) => { $crate::tools::log::add(format_args!($($arguments)*)) };
}
pub(crate) use say;

/// Ends the log when it is dropped.
struct Taken;

impl Taken {
    fn lines(self) -> Vec<Line> {
        current().take().unwrap_or_default()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        current().take();
    }
}

/// Shows what the step does now. Returns whether it still runs.
fn show(step: &str, began: Instant) -> bool {
    let last = match current().as_ref() {
        Some(lines) => lines.last().map(|line| plain(line.text.trim())).unwrap_or_default(),
        None => return false,
    };
    // A line that is too long for the terminal is cut.
    print!("\r\x1b[2K\x1b[?7l{}  {step}  {last}\x1b[?7h", clock(began.elapsed()));
    let _ = io::stdout().flush();
    thread::park_timeout(PACE);
    true
}

/// The text without colours, and without anything else that moves the cursor.
pub(crate) fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    let text = parts.fold(first, |text, part| text + part.split_once(char::is_alphabetic).map_or("", |(_, rest)| rest));
    text.replace(char::is_control, " ")
}

/// Minutes and seconds.
pub(crate) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{:>3}:{:02}", seconds / 60, seconds % 60)
}

fn current() -> MutexGuard<'static, Option<Vec<Line>>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn codes_for_terminals_are_left_out() {
        assert_eq!(plain("    \x1b[1;31mred\x1b[0m is ré\rd\x1b[?7h"), "    red is ré d");
        assert_eq!(plain("\x1b[31"), "");
    }
}
