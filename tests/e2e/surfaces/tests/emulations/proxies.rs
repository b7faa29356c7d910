//! Real proxies in front of a real server.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use leasehold_servers::{Process, Server, envoy, twemproxy};
use tempfile::TempDir;

/// Dropping it ends both.
pub(super) struct Proxied {
    _proxy: Process,
    pub(super) server: Server,
    pub(super) port: u16,
    _directory: TempDir,
}

/// Another process may take the port before the proxy does.
const ATTEMPTS: usize = 5;
/// Only a test that fails waits that long.
const LIMIT: Duration = Duration::from_secs(60);

/// A pool of one server: with more, twemproxy sends a script to the server of its first key.
pub(super) fn start_twemproxy() -> Proxied {
    start(
        "nutcracker.yml",
        |server, port| {
            format!(
                "locks:\n  listen: 127.0.0.1:{port}\n  redis: true\n  hash: fnv1a_64\n  distribution: ketama\n  \
             servers:\n   - 127.0.0.1:{server}:1\n"
            )
        },
        |config| {
            let mut command = Command::new(twemproxy().unwrap());
            // Its page of statistics needs a port too.
            let statistics = free_port().to_string();
            command.arg("-c").arg(config).args([
                "--output",
                "/dev/null",
                "--stats-addr",
                "127.0.0.1",
                "--stats-port",
                &statistics,
            ]);
            command
        },
    )
}

pub(super) fn start_envoy() -> Proxied {
    start(
        "envoy.yaml",
        |server, port| {
            include_str!("envoy.yaml").replace("LISTENER", &port.to_string()).replace("SERVER", &server.to_string())
        },
        |config| {
            let mut command = Command::new(envoy().unwrap());
            // Without its hot restart, several can run beside each other.
            command.arg("-c").arg(config).args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "error"]);
            command
        },
    )
}

fn start(file: &str, config: impl Fn(u16, u16) -> String, command: impl Fn(&std::path::Path) -> Command) -> Proxied {
    let server = Server::start().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(file);
    for _ in 0..ATTEMPTS {
        let port = free_port();
        fs::write(&path, config(server.port(), port)).unwrap();
        let mut command = command(&path);
        let mut proxy =
            Process::spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < LIMIT && proxy.ended().unwrap().is_none() {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Proxied { _proxy: proxy, server, port, _directory: directory };
            }
            sleep(Duration::from_millis(5));
        }
    }
    panic!("{file}: the proxy does not start");
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}
