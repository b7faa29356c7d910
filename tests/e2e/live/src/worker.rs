use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use leasehold_servers::{Error, Process, Server};
use tokio::sync::mpsc;

use crate::waiting::soon;

/// Another process that takes a lock, does what it is told, and reports what happens. See `src/bin/live-worker.rs`.
#[derive(Debug)]
pub struct Worker {
    process: Process,
    orders: ChildStdin,
    reports: mpsc::UnboundedReceiver<String>,
}

impl Worker {
    /// Starts `program`, the path of `live-worker`. It begins at once to acquire the lock `[mode, name]`, where the
    /// mode is `write` or `read`, with `[ttl, claim window]`.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn start(program: &str, server: &Server, lock: [&str; 2], times: [Duration; 2]) -> Result<Self, Error> {
        let mut command = Command::new(program);
        command
            .arg(server.port().to_string())
            .args(lock)
            .args(times.map(|time| time.as_millis().to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = Process::spawn(&mut command)?;
        let (Some(orders), Some(output)) = (process.take_stdin(), process.take_stdout()) else {
            return Err(Error::NotStarted("no pipes to the worker".to_owned()));
        };
        let (sender, reports) = mpsc::unbounded_channel();
        thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok());
        });
        Ok(Self { process, orders, reports })
    }

    /// Its next report.
    ///
    /// # Panics
    /// If none comes in time.
    pub async fn report(&mut self) -> String {
        soon("a report of the worker", self.reports.recv()).await.unwrap_or_else(|| "it has ended".to_owned())
    }

    /// Tells it to do something: `write <key> <value>` or `release`.
    ///
    /// # Errors
    /// If it has ended.
    pub fn order(&mut self, order: &str) -> std::io::Result<()> {
        writeln!(self.orders, "{order}")
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}
