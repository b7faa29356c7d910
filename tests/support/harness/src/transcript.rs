//! The transcript of a run: one line for each event. It is written only when a seed is replayed.

use std::fmt;

use crate::clock::Micros;

/// The record of one run, or nothing.
#[derive(Debug, Default)]
pub struct Transcript {
    lines: Option<Vec<String>>,
}

impl Transcript {
    /// A transcript that is written, or one that does nothing.
    pub fn new(written: bool) -> Self {
        Self { lines: written.then(Vec::new) }
    }

    /// Adds a line: when, who, what.
    pub fn line(&mut self, at: Micros, who: impl fmt::Display, what: fmt::Arguments<'_>) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>5}.{:06} {who:<4} {what}", at / 1_000_000, at % 1_000_000));
        }
    }

    /// Whether it is written, to skip work that only it needs.
    pub fn is_written(&self) -> bool {
        self.lines.is_some()
    }

    /// The lines, if it was written.
    pub fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
