use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_servers::Process;

use crate::Library;

/// What went wrong with a peer.
#[derive(Debug)]
pub struct Error(String);

impl Error {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<leasehold_servers::Error> for Error {
    fn from(error: leasehold_servers::Error) -> Self {
        Self(error.to_string())
    }
}

/// A line that a peer printed, and when it was read.
#[derive(Debug, Clone)]
pub struct Reply {
    /// One line.
    pub text: String,
    /// When it was read.
    pub at: Instant,
}

/// A process that uses one library for one lock, as it is told. Dropping it kills the process.
#[derive(Debug)]
pub struct Peer {
    library: Library,
    process: Process,
    orders: ChildStdin,
    replies: Receiver<Reply>,
}

/// A JVM needs time to start on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);

impl Peer {
    /// Starts a peer for the lock of this name, and waits until it is connected. For a quorum, the URL is a list with
    /// commas.
    ///
    /// # Errors
    /// If the peer was not built, or does not start.
    pub fn start(library: Library, url: &str, name: &str, ttl: Duration) -> Result<Self, Error> {
        let mut command = library.program()?;
        command.args([url, name, &ttl.as_millis().to_string()]);
        let mut process = Process::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let (Some(orders), Some(output)) = (process.take_stdin(), process.take_stdout()) else {
            return Err(Error::new("no pipes to the peer"));
        };
        let (sender, replies) = channel();
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.map(|text| Reply { text, at: Instant::now() }).all(|reply| sender.send(reply).is_ok());
        });
        let peer = Self { library, process, orders, replies };
        match peer.reply(START_LIMIT)?.text.as_str() {
            "ready" => Ok(peer),
            other => Err(Error::new(format!("{} began with {other:?}", library.name()))),
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Sends an order whose answer comes later.
    ///
    /// # Errors
    /// If the peer has ended.
    pub fn order(&mut self, order: &str) -> Result<Instant, Error> {
        let now = Instant::now();
        let told = writeln!(self.orders, "{order}");
        told.map(|()| now).map_err(|error| Error::new(format!("{} took no order: {error}", self.library.name())))
    }

    /// The next line that it prints.
    ///
    /// # Errors
    /// If it prints nothing in time, has ended, or reports an error.
    pub fn reply(&self, within: Duration) -> Result<Reply, Error> {
        let reply = self.replies.recv_timeout(within);
        let reply = reply.map_err(|error| Error::new(format!("{} said nothing: {error}", self.library.name())))?;
        match reply.text.strip_prefix("error ") {
            Some(problem) => Err(Error::new(format!("{} failed: {problem}", self.library.name()))),
            None => Ok(reply),
        }
    }

    /// Whether it prints nothing for this long.
    ///
    /// # Errors
    /// If it has ended.
    pub fn is_silent(&self, time: Duration) -> Result<bool, Error> {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        match self.replies.recv_timeout(time) {
            Err(Timeout) => Ok(true),
            Err(Disconnected) => Err(Error::new(format!("{} has ended", self.library.name()))),
            Ok(_) => Ok(false),
        }
    }

    /// Sends an order that is carried out at once, and reads the answer.
    ///
    /// # Errors
    /// As [`Peer::order`] and [`Peer::reply`].
    pub fn ask(&mut self, order: &str) -> Result<String, Error> {
        self.order(order)?;
        Ok(self.reply(Duration::from_secs(60))?.text)
    }

    /// Kills it at once (SIGKILL).
    pub fn kill(&mut self) {
        self.process.kill();
    }
}
