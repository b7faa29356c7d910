//! The signals of Unix.

use std::fs;

pub(crate) use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::report::{Failure, Outcome};

/// The signals that this process gets.
pub(crate) struct Signals(mpsc::UnboundedReceiver<Signal>);

impl Signals {
    /// Listens from now on. Signals that this process ignores stay ignored.
    pub(crate) fn listen(to: &[Signal]) -> Outcome<Self> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let ignored = ignored();
        for &number in to {
            // `nohup` ignores SIGHUP, and the command inherits that. A handler here would undo it.
            if ignored & (1 << (number as u32 - 1)) != 0 {
                continue;
            }
            let failed = |error| Failure::system("can't wait for signals", error);
            let mut stream = signal(SignalKind::from_raw(number as i32)).map_err(failed)?;
            let sender = sender.clone();
            tokio::spawn(async move { while stream.recv().await.is_some() && sender.send(number).is_ok() {} });
        }
        Ok(Self(receiver))
    }

    /// The next signal that ends a process by default.
    pub(crate) async fn ending(&mut self) -> Signal {
        loop {
            match self.next().await {
                // The terminal has another size.
                Signal::SIGWINCH => {}
                signal => return signal,
            }
        }
    }

    pub(crate) async fn next(&mut self) -> Signal {
        match self.0.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }
}

/// The signals that this process inherited as ignored, a bit each. Only Linux tells it without `unsafe`.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
