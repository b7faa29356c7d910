//! The events of the console, under the names of the signals that mean the same.

use std::fmt;

use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_logoff, ctrl_shutdown};
use tokio::sync::mpsc;

use crate::report::{Failure, Outcome};

/// A signal, with its number on Unix.
#[allow(clippy::upper_case_acronyms, reason = "the names that everybody knows")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The console is closed, or the user logs off.
    SIGHUP = 1,
    /// Ctrl-C or Ctrl-Break.
    SIGINT = 2,
    SIGKILL = 9,
    /// The system shuts down.
    SIGTERM = 15,
    SIGCONT = 18,
}

impl Signal {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::SIGHUP => "SIGHUP",
            Self::SIGINT => "SIGINT",
            Self::SIGKILL => "SIGKILL",
            Self::SIGTERM => "SIGTERM",
            Self::SIGCONT => "SIGCONT",
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The signals that this process gets.
pub(crate) struct Signals(mpsc::UnboundedReceiver<Signal>);

/// Sends `signal` each time that the console has the event.
macro_rules! forward {
    ($signal:expr, $event:ident, $to:expr) => {{
        let mut events = $event().map_err(|error| Failure::system("can't wait for the console's events", error))?;
        let sender = $to.clone();
        tokio::spawn(async move { while events.recv().await.is_some() && sender.send($signal).is_ok() {} });
    }};
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen(to: &[Signal]) -> Outcome<Self> {
        let (sender, receiver) = mpsc::unbounded_channel();
        if to.contains(&Signal::SIGHUP) {
            forward!(Signal::SIGHUP, ctrl_close, sender);
            forward!(Signal::SIGHUP, ctrl_logoff, sender);
        }
        if to.contains(&Signal::SIGINT) {
            forward!(Signal::SIGINT, ctrl_c, sender);
            forward!(Signal::SIGINT, ctrl_break, sender);
        }
        if to.contains(&Signal::SIGTERM) {
            forward!(Signal::SIGTERM, ctrl_shutdown, sender);
        }
        Ok(Self(receiver))
    }

    /// The next signal that ends a process by default: any.
    pub(crate) async fn ending(&mut self) -> Signal {
        self.next().await
    }

    pub(crate) async fn next(&mut self) -> Signal {
        match self.0.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }
}
