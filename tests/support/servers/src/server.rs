use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Error;
use crate::certificate::Certificate;
use crate::locate;
use crate::process::Process;
use crate::resp::{Connection, Reply};
use crate::version::Version;

/// These limits suit a slow machine. Only a test that fails waits that long.
const START_LIMIT: Duration = Duration::from_secs(60);
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
const START_ATTEMPTS: usize = 20;

/// A running server on its own loopback port, without persistence. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    program: PathBuf,
    arguments: Vec<OsString>,
    password: Option<String>,
    port: u16,
    tls_port: Option<u16>,
    config: Option<String>,
    process: Option<Process>,
    // Last, so that the directory is removed after the process that writes to it.
    directory: TempDir,
}

/// The settings of a server to start.
#[derive(Debug, Default)]
pub struct Builder {
    program: Option<PathBuf>,
    version: Option<Version>,
    arguments: Vec<OsString>,
    password: Option<String>,
    tls: bool,
    config: Option<String>,
}

impl Builder {
    /// Adds a directive and its value, such as `("--maxmemory", "4mb")`. Later values replace earlier ones and the defaults.
    #[must_use]
    pub fn arg(mut self, directive: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.arguments.push(directive.as_ref().to_owned());
        self.arguments.push(value.as_ref().to_owned());
        self
    }

    /// Sets the default user's password. [`Server::cli`] and [`Server::url`] use it.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        let password = password.into();
        self = self.arg("--requirepass", &password);
        self.password = Some(password);
        self
    }

    /// Adds a user with its access rules, such as `("app", "on >secret ~job:* +get")`.
    #[must_use]
    pub fn acl(mut self, user: &str, rules: &str) -> Self {
        // One argument for each rule, because the server takes a quoted list of rules for a part of the name.
        self.arguments.extend(["--user", user].into_iter().chain(rules.split_whitespace()).map(OsString::from));
        self
    }

    /// Listens for TLS on a second port, with this certificate: see [`Server::tls_url`].
    #[must_use]
    pub fn tls(mut self, certificate: &Certificate) -> Self {
        self.tls = true;
        self.arg("--tls-cert-file", certificate.path())
            .arg("--tls-key-file", certificate.key())
            .arg("--tls-ca-cert-file", certificate.path())
            .arg("--tls-auth-clients", "no")
            .arg("--tls-cluster", "yes")
            .arg("--tls-replication", "yes")
    }

    /// Uses these lines as the configuration file, which the server may rewrite.
    #[must_use]
    pub fn config(mut self, lines: impl Into<String>) -> Self {
        self.config = Some(lines.into());
        self
    }

    /// Adds a word without a value, such as `--sentinel`.
    #[must_use]
    pub(crate) fn word(mut self, word: &str) -> Self {
        self.arguments.push(word.into());
        self
    }

    /// Uses this server version. It is installed if necessary.
    #[must_use]
    pub fn version(mut self, version: Version) -> Self {
        self.version = Some(version);
        self
    }

    /// Uses exactly this program.
    #[must_use]
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = Some(path.into());
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    /// If there is no such program, or it does not start. The error contains the server's log.
    pub fn start(self) -> Result<Server, Error> {
        let program = match (self.program, self.version) {
            (Some(program), _) => program,
            (None, Some(version)) => locate::find_version(version)?,
            (None, None) => locate::find()?,
        };
        let directory =
            tempfile::Builder::new().prefix("leasehold-server-").tempdir().map_err(Error::io("making a directory"))?;
        let Self { arguments, password, config, tls, .. } = self;
        let mut server =
            Server { program, arguments, password, port: 0, tls_port: None, config, process: None, directory };
        // Another process may have taken a free port by the time the server binds it.
        for _ in 1..START_ATTEMPTS {
            server.port = free_port()?;
            server.tls_port = tls.then(free_port).transpose()?;
            match server.launch() {
                Err(Error::NotStarted(log)) if log.contains("already in use") => {}
                outcome => return outcome.map(|()| server),
            }
        }
        Err(Error::NotStarted(format!("no free loopback port after {START_ATTEMPTS} tries")))
    }
}

impl Server {
    /// Starts any available server with default settings.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub fn start() -> Result<Self, Error> {
        Self::builder().start()
    }

    /// A builder, to set options before starting.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The loopback port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address, always on 127.0.0.1.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The URL `redis://127.0.0.1:port/`, with the password if there is one.
    pub fn url(&self) -> String {
        match &self.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{}/", self.port),
            None => format!("redis://127.0.0.1:{}/", self.port),
        }
    }

    /// The URL `rediss://127.0.0.1:port/` of the TLS port, with the password if there is one. None without TLS.
    pub fn tls_url(&self) -> Option<String> {
        let login = self.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default();
        self.tls_port.map(|port| format!("rediss://{login}127.0.0.1:{port}/"))
    }

    /// The port that the servers of a cluster announce: the TLS port if there is one.
    pub(crate) fn cluster_port(&self) -> u16 {
        self.tls_port.unwrap_or(self.port)
    }

    /// The process id. None if the server doesn't run.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// The server's program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Kills the server at once (SIGKILL). [`Server::restart`] uses the same port again.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Kills the server if it runs, and starts it again, empty, on the same port.
    ///
    /// # Errors
    /// If it does not start.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop();
        self.launch()
    }

    /// Pauses the server's process (SIGSTOP). Connections stay open, but nothing answers.
    ///
    /// # Errors
    /// If it does not run.
    pub fn pause(&self) -> Result<(), Error> {
        self.running()?.pause()
    }

    /// Resumes a paused server (SIGCONT).
    ///
    /// # Errors
    /// If it does not run.
    pub fn resume(&self) -> Result<(), Error> {
        self.running()?.resume()
    }

    /// The server's log since the last start.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Opens a raw connection, logged in if there is a password.
    ///
    /// # Errors
    /// If the server can't be reached or refuses the password.
    pub fn connect(&self) -> Result<Connection, Error> {
        let mut connection = Connection::open(self.address(), ANSWER_LIMIT).map_err(Error::io("connecting"))?;
        if let Some(password) = &self.password {
            accepted(connection.call(&["AUTH", password]).map_err(Error::io("AUTH"))?)?;
        }
        Ok(connection)
    }

    /// Runs one command on a new connection.
    ///
    /// # Errors
    /// If the server can't be reached, or answers with an error ([`Error::Refused`]).
    pub fn cli(&self, command: &[&str]) -> Result<Reply, Error> {
        let reply = self.connect()?.call(command).map_err(Error::io(format!("running {command:?}")))?;
        accepted(reply)
    }

    fn launch(&mut self) -> Result<(), Error> {
        let log = File::create(self.log_path()).map_err(Error::io("making the server's log"))?;
        let errors = log.try_clone().map_err(Error::io("making the server's log"))?;
        let mut command = Command::new(&self.program);
        if let Some(lines) = &self.config {
            // The file must come first.
            let path = self.directory.path().join("server.conf");
            fs::write(&path, lines).map_err(Error::io("writing the server's configuration"))?;
            command.arg(path);
        }
        if let Some(port) = self.tls_port {
            command.args(["--tls-port", &port.to_string()]);
        }
        command
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--port", &self.port.to_string()])
            .arg("--dir")
            .arg(self.directory.path())
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors);
        let process = self.process.insert(Process::spawn_in(&mut command, self.directory.path())?);
        let pid = process.pid();
        let started = Instant::now();
        while started.elapsed() < START_LIMIT {
            if let Some(status) = self.process.as_mut().map(Process::ended).transpose()?.flatten() {
                self.process = None;
                return Err(Error::NotStarted(format!("the server ended ({status}):\n{}", self.log())));
            }
            if self.answers_as(pid) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.stop();
        Err(Error::NotStarted(format!("the server did not answer within {START_LIMIT:?}:\n{}", self.log())))
    }

    /// Whether our process answers on the port, and not another one that took the port before.
    fn answers_as(&self, pid: u32) -> bool {
        let Ok(Reply::Text(info)) = self.cli(&["INFO", "server"]) else { return false };
        info.lines().any(|line| line.strip_prefix("process_id:") == Some(&pid.to_string()))
    }

    fn running(&self) -> Result<&Process, Error> {
        self.process.as_ref().ok_or_else(|| Error::NotStarted("the server does not run".to_owned()))
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("server.log")
    }
}

fn accepted(reply: Reply) -> Result<Reply, Error> {
    match reply {
        Reply::Error(text) => Err(Error::Refused(text)),
        reply => Ok(reply),
    }
}

/// A free port below the range that systems use for outgoing connections. So a restarted server finds its port still free.
fn free_port() -> Result<u16, Error> {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    // A server of a cluster also listens on a port of that range. Closed connections keep most even ones for a minute.
    const CLUSTER: u16 = 10_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id().wrapping_mul(7919) % u32::from(COUNT)).unwrap_or(0);
    let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    for _ in 0..COUNT {
        let port = FIRST + (start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT);
        if is_free(port) && is_free(port + CLUSTER) {
            return Ok(port);
        }
    }
    Err(Error::NotStarted("no free loopback port".to_owned()))
}
