//! Runs the program, and waits with a bound.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use leasehold_servers::{Process, Reply, Server};
use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use serde_json::Value;

pub(crate) type Tested = Result<(), Box<dyn std::error::Error>>;

/// The program's arguments that set how long a server may take to answer: long enough for a slow machine.
pub(crate) const PATIENCE: [&str; 2] = ["--timeout", "60s"];
/// A wait for `exec` that is longer than any lease here lasts on a slow machine.
pub(crate) const WAIT: &str = "300s";

/// Longer than anything here takes, even on a slow machine. Only a test that fails waits that long.
const LIMIT: Duration = Duration::from_secs(60);

/// The program, with a server.
pub(crate) fn leasehold(server: &Server, arguments: &[&str]) -> Command {
    let mut command = at(&server.url(), arguments);
    command.stdin(Stdio::null());
    command
}

/// The program, with a URL.
pub(crate) fn at(url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    for variable in
        ["REDIS_USERNAME", "REDIS_PASSWORD", "LEASEHOLD_PREFIX", "LEASEHOLD_TTL", "LEASEHOLD_WAIT", "LEASEHOLD_TOKEN"]
    {
        command.env_remove(variable);
    }
    let own = arguments.contains(&PATIENCE[0]);
    command.env("REDIS_URL", url).args((!own).then_some(PATIENCE).into_iter().flatten()).args(arguments);
    command
}

/// Runs the program to its end.
pub(crate) fn run(server: &Server, arguments: &[&str]) -> Result<Output, Box<dyn std::error::Error>> {
    Ok(leasehold(server, arguments).output()?)
}

/// Starts the program. It is killed when the test ends.
pub(crate) fn start(server: &Server, arguments: &[&str]) -> Result<Process, Box<dyn std::error::Error>> {
    let mut command = leasehold(server, arguments);
    Ok(Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?)
}

/// Starts `exec` for a lock that it gets only after a wait. So it hears messages, and its label is on the server.
pub(crate) fn start_listening(
    server: &Server,
    name: &str,
    arguments: &[&str],
) -> Result<Process, Box<dyn std::error::Error>> {
    server.cli(&["SET", name, "somebody", "PX", "600000"])?;
    let process = start(server, arguments)?;
    until("it waits", || waiters(server, name) == 1);
    assert_eq!(exit(&run(server, &["force-release", "--yes", name])?).0, Some(0));
    Ok(process)
}

/// Waits for the end. Returns the exit code, the output and the messages.
pub(crate) fn finish(mut process: Process) -> Result<(Option<i32>, String, String), Box<dyn std::error::Error>> {
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = process.ended()? {
            break status;
        }
        assert!(begun.elapsed() < LIMIT, "the program hangs");
        sleep(Duration::from_millis(5));
    };
    let (mut stdout, mut stderr) = (String::new(), String::new());
    if let Some(mut pipe) = process.take_stdout() {
        pipe.read_to_string(&mut stdout)?;
    }
    if let Some(mut pipe) = process.take_stderr() {
        pipe.read_to_string(&mut stderr)?;
    }
    Ok((status.code(), stdout, stderr))
}

pub(crate) fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < LIMIT, "it did not happen: {what}");
        sleep(Duration::from_millis(5));
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn exit(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), text(&output.stderr))
}

/// The lock, as `inspect --json` shows it.
pub(crate) fn inspect(server: &Server, name: &str) -> Value {
    let output = run(server, &["--json", "inspect", name]).expect("the program runs");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The last fence that the server has given out, of whatever lock.
pub(crate) fn last_fence(server: &Server) -> Result<Option<u64>, Box<dyn std::error::Error>> {
    Ok(server.cli(&["GET", "leasehold:fence"])?.text().map(str::parse).transpose()?)
}

pub(crate) fn holders(server: &Server, name: &str) -> usize {
    inspect(server, name)["holders"].as_array().map_or(0, Vec::len)
}

pub(crate) fn waiters(server: &Server, name: &str) -> usize {
    inspect(server, name)["waiters"].as_array().map_or(0, Vec::len)
}

/// Waits until the file has a number, and returns it.
pub(crate) fn number_in(path: &Path) -> i32 {
    let mut number = None;
    until("a number in a file", || {
        number = fs::read_to_string(path).ok().and_then(|text| text.strip_suffix('\n')?.parse().ok());
        number.is_some()
    });
    number.unwrap_or_default()
}

/// Whether the process runs. One that has ended and that nobody has waited for doesn't.
pub(crate) fn lives(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    !matches!(state, Some('Z' | 'X'))
}

/// How often the server ran a command.
pub(crate) fn calls(server: &Server, command: &str) -> u64 {
    let Ok(Reply::Text(stats)) = server.cli(&["INFO", "commandstats"]) else { return 0 };
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// A terminal: the side of its user, and the side of the program. No other test's programs inherit it.
pub(crate) fn terminal() -> Result<(File, File), Box<dyn std::error::Error>> {
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname_r(&master)?;
    let slave = File::options().read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits()).open(name)?;
    Ok((File::from(OwnedFd::from(master)), slave))
}
