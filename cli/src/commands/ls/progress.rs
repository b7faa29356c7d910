//! How far the search is, on a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use crate::report::Output;

/// A search that is shorter shows nothing.
const INTERVAL: Duration = Duration::from_millis(500);

/// One line of standard error that is written again and again. Nothing without a terminal, and with `--json`.
pub(super) struct Progress {
    shows: bool,
    seen: u64,
    /// None if a server doesn't tell how many keys it has.
    all: Option<u64>,
    last: Instant,
    /// Whether the line is on the terminal.
    shown: bool,
}

impl Progress {
    pub(super) fn new(output: Output) -> Self {
        let shows = !output.json && io::stderr().is_terminal();
        Self { shows, seen: 0, all: Some(0), last: Instant::now(), shown: false }
    }

    /// One more server has so many keys.
    pub(super) fn expect(&mut self, keys: Option<u64>) {
        self.all = self.all.zip(keys).map(|(all, keys)| all + keys);
    }

    /// The server has looked at so many keys more.
    pub(super) fn advance(&mut self, keys: usize) {
        self.seen += u64::try_from(keys).unwrap_or(0);
        if self.shows && self.last.elapsed() >= INTERVAL {
            self.last = Instant::now();
            self.shown = true;
            // A terminal that is gone ends the program by a signal.
            let _ = write!(io::stderr(), "\r\x1b[Ksearching: {}", self.seen());
        }
    }

    /// Removes the line, before another one is printed.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// `about 3.2 of 10.0 million keys`.
    pub(super) fn seen(&self) -> String {
        match self.all {
            Some(all) => format!("about {} of {} million keys", millions(self.seen.min(all)), millions(all)),
            None => format!("about {} million keys", millions(self.seen)),
        }
    }
}

fn millions(keys: u64) -> String {
    let tenths = keys / 100_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}
