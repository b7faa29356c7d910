use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::time::{Duration, Instant};

use crate::fleet::{READERS, Role, TTL, WRITERS};
use crate::report::{Report, State, name};

/// Shows the progress: redrawn in place on a terminal, one line a second elsewhere.
pub(crate) struct Screen {
    began: Instant,
    terminal: bool,
    drawn: Option<Instant>,
    lines: usize,
    notes: Vec<String>,
    pulse: Vec<usize>,
    turns: usize,
    /// What is being built meanwhile.
    pub(crate) building: Vec<String>,
}

const FRAME: Duration = Duration::from_millis(100);
/// How often a line is printed where there is no terminal.
const LINE: Duration = Duration::from_secs(1);
/// The same, while something is built.
const WHILE_BUILDING: Duration = Duration::from_secs(5);
const BAR: usize = 32;
const PULSE: usize = 60;

impl Screen {
    /// A screen that counts the time from `began`.
    pub(crate) fn new(began: Instant) -> Self {
        Self {
            began,
            terminal: io::stdout().is_terminal(),
            drawn: None,
            lines: 0,
            notes: Vec::new(),
            pulse: Vec::new(),
            turns: 0,
            building: Vec::new(),
        }
    }

    /// Adds a line about what happened to a worker.
    pub(crate) fn note(&mut self, text: String) {
        let note = format!("{:>5.1} s  {text}", self.began.elapsed().as_secs_f64());
        if !self.terminal {
            println!("{note}");
        }
        self.notes.push(note);
    }

    /// Redraws if it is time to.
    pub(crate) fn show(&mut self, report: &Report) {
        let pace = match (self.terminal, self.building.is_empty()) {
            (true, _) => FRAME,
            (false, true) => LINE,
            (false, false) => WHILE_BUILDING,
        };
        if self.drawn.is_none_or(|drawn| drawn.elapsed() >= pace) {
            self.drawn = Some(Instant::now());
            self.draw(report);
        }
    }

    /// Draws the last frame.
    pub(crate) fn end(&mut self, report: &Report) {
        self.draw(report);
    }

    fn draw(&mut self, report: &Report) {
        if self.terminal {
            self.redraw(report)
        } else {
            self.say(report)
        }
        let _ = io::stdout().flush();
    }

    fn say(&mut self, report: &Report) {
        let grants: Vec<String> = report.workers.iter().map(|worker| worker.turns.to_string()).collect();
        let building = self.building.join("; ");
        let building: Vec<&str> = building.split_whitespace().collect();
        println!("{:>5.1} s  grants {}  {}", self.began.elapsed().as_secs_f64(), grants.join(" "), building.join(" "));
    }

    fn redraw(&mut self, report: &Report) {
        self.pulse.push(report.turns().len() - self.turns);
        self.turns = report.turns().len();
        let frame = self.frame(report);
        if self.lines > 0 {
            print!("\x1b[{}A", self.lines);
        }
        // A line that is too long for the terminal is cut, since wrapped lines would make the picture jump.
        print!("\x1b[?7l");
        for line in frame.lines() {
            println!("\x1b[2K{line}");
        }
        print!("\x1b[?7h\x1b[J");
        self.lines = frame.lines().count();
    }

    fn frame(&self, report: &Report) -> String {
        let mut frame = format!(
            "\n  \x1b[1mleasehold\x1b[0m  {}  ·  {WRITERS} writers, {READERS} readers, one lock  ·  lease {TTL:?}  ·  {:.1} s\n\n",
            report.server,
            self.began.elapsed().as_secs_f64()
        );
        let most = report.workers.iter().map(|worker| worker.turns).max().unwrap_or(0).max(1);
        for (number, worker) in report.workers.iter().enumerate() {
            let (colour, state) = match worker.state {
                State::Starting => (90, "not joined yet"),
                State::Missing => (90, "missing"),
                State::Working => (if worker.role == Role::Writer { 32 } else { 36 }, ""),
                State::Lingering => (33, "holds the lock"),
                State::Killed => (31, "killed"),
                State::Paused => (33, "paused"),
                State::Resumed => (32, "resumed"),
            };
            let filled = usize::try_from(worker.turns * BAR as u64 / most).unwrap_or(BAR);
            let bar = "█".repeat(filled) + &"·".repeat(BAR - filled);
            let _ = writeln!(
                frame,
                "  {} {:<4}  \x1b[{colour}m{bar}\x1b[0m {:>6}  {state}",
                name(number),
                worker.language.name(),
                worker.turns
            );
        }
        let _ = writeln!(frame, "\n  grants    {}", pulse(&self.pulse));
        let _ = writeln!(
            frame,
            "  updates {}  ·  reads {}, half updates seen {}  ·  late writes refused {}\n",
            report.updates(),
            report.reads(),
            report.torn(),
            report.refused
        );
        for note in &self.notes {
            let _ = writeln!(frame, "  {note}");
        }
        if !self.building.is_empty() {
            frame.push('\n');
        }
        for line in &self.building {
            let _ = writeln!(frame, "  {line}");
        }
        frame
    }
}

/// The grants of the last frames as a row of small bars. A stall is a gap.
fn pulse(counts: &[usize]) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let recent = &counts[counts.len().saturating_sub(PULSE)..];
    let most = recent.iter().copied().max().unwrap_or(0).max(1);
    recent.iter().map(|count| BARS[(count * 8).div_ceil(most).min(8)]).collect()
}
