use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use leasehold_servers::Process;

use crate::error::{Error, Result};
use crate::event::Event;

/// How long a lease lasts unless it is renewed. A crash or a pause blocks the other workers no longer than this.
pub(crate) const TTL: Duration = Duration::from_secs(2);
pub(crate) const WRITERS: usize = 8;
pub(crate) const READERS: usize = 2;

/// The workers' programs.
#[derive(Debug)]
pub struct Workers {
    /// The worker in Rust.
    pub rust: PathBuf,
    /// The worker in JavaScript. Without it, those workers are in Rust, too.
    pub node: Option<PathBuf>,
    /// The worker that uses the WASI component. Without it, that worker is in Rust.
    pub component: Option<Component>,
}

/// A worker that uses the WASI component, and the component.
#[derive(Debug)]
pub struct Component {
    /// The worker.
    pub program: PathBuf,
    /// The component.
    pub lock: PathBuf,
}

/// The workers' programs, and the server where they meet.
pub(crate) struct Place {
    pub(crate) workers: Workers,
    pub(crate) url: String,
    pub(crate) prefix: String,
    pub(crate) ttl: Duration,
}

/// What a worker process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Changes the shared state under an exclusive lock.
    Writer,
    /// Reads it under a shared lock.
    Reader,
    /// Sets up the state, and reads and removes it at the end.
    Judge,
}

/// A worker's language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// The crate.
    Rust,
    /// The npm package.
    Node,
    /// The WASI component.
    Wasi,
}

impl Language {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Node => "Node",
            Self::Wasi => "WASI",
        }
    }
}

/// How many of the writers run in Node: the last ones.
const NODE_WRITERS: usize = 2;
/// The writer that runs the WASI component: the one before those.
const WASI_WRITER: usize = WRITERS - NODE_WRITERS - 1;

impl Place {
    pub(crate) fn language(&self, number: usize) -> Language {
        match number {
            WASI_WRITER if self.workers.component.is_some() => Language::Wasi,
            number if number > WASI_WRITER && number < WRITERS && self.workers.node.is_some() => Language::Node,
            _ => Language::Rust,
        }
    }

    fn program(&self, number: usize) -> Command {
        match (self.language(number), &self.workers.node, &self.workers.component) {
            (Language::Node, Some(program), _) => {
                let mut command = Command::new("node");
                command.arg(program);
                command
            }
            (Language::Wasi, _, Some(component)) => {
                let mut command = Command::new(&component.program);
                command.env("LEASEHOLD_LOCK_WASM", &component.lock);
                command
            }
            _ => Command::new(&self.workers.rust),
        }
    }
}

/// A worker process. It takes orders from its standard input and ends when that is closed.
pub(crate) struct Worker {
    pub(crate) process: Process,
    orders: Option<ChildStdin>,
}

impl Worker {
    /// Starts one. Its events are sent with its number.
    pub(crate) fn start(place: &Place, role: Role, number: usize, events: &Sender<(usize, Event)>) -> Result<Self> {
        let mut command = place.program(number);
        command
            .arg(match role {
                Role::Writer => "writer",
                Role::Reader => "reader",
                Role::Judge => "judge",
            })
            .args([&place.prefix, &place.ttl.as_millis().to_string()])
            // Not an argument: other users can read the arguments, and the URL may hold a password.
            .env("REDIS_URL", &place.url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = Process::spawn(&mut command)?;
        let orders = process.take_stdin();
        let output = process.take_stdout().ok_or_else(|| Error::new("a worker has no output"))?;
        let events = events.clone();
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(std::result::Result::ok);
            let told = lines.filter_map(|line| Event::parse(&line)).chain([Event::Ended]);
            for event in told {
                if events.send((number, event)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { process, orders })
    }

    /// Tells it to stay in its next critical section until its lease ends.
    pub(crate) fn linger(&mut self) -> Result {
        let orders = self.orders.as_mut().ok_or_else(|| Error::new("the worker has already been stopped"))?;
        Ok(writeln!(orders, "linger")?)
    }

    /// Lets it finish its turn and end.
    pub(crate) fn stop(&mut self) {
        self.orders = None;
    }

    /// Waits until it ends. Returns an error if that takes too long, or if it fails.
    pub(crate) fn join(&mut self, limit: Duration) -> Result {
        self.stop();
        let began = Instant::now();
        while began.elapsed() < limit {
            match self.process.ended()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(Error::new(format!("a worker failed ({status})"))),
                None => thread::sleep(Duration::from_millis(5)),
            }
        }
        Err(Error::new(format!("a worker did not end within {limit:?}")))
    }
}
