//! Checks that a server answers at REDIS_URL before anything is built.

use std::io::{Error as IoError, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::error::{Error, Result};

/// How long a server may take to accept a connection.
const LIMIT: Duration = Duration::from_secs(2);

/// Connects to a URL's address and returns the address.
pub(crate) fn reach(url: &str) -> Result<String> {
    if url.contains("unix:") {
        return Ok("a socket".to_owned()); // The workers check that one.
    }
    let address = address(url);
    match connect(&address) {
        Ok(_) => Ok(address),
        Err(error) => Err(Error::new(format!(
            "can't connect to {address}, from REDIS_URL: {error}. Unset REDIS_URL to let the demo start a server"
        ))),
    }
}

fn connect(address: &str) -> std::io::Result<TcpStream> {
    let mut last = IoError::from(ErrorKind::NotFound);
    for at in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&at, LIMIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Host and port, without the password.
fn address(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let host = host.split(['/', '?']).next().unwrap_or(host);
    match host.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => host.to_owned(),
        _ => format!("{host}:6379"),
    }
}

#[cfg(test)]
mod tests {
    use super::{address, reach};

    #[test]
    fn an_address_has_a_port_and_no_password() {
        assert_eq!(address("redis://127.0.0.1/"), "127.0.0.1:6379");
        assert_eq!(address("redis://user:p%40ss@localhost:7000/3?protocol=resp3"), "localhost:7000");
        assert_eq!(address("redis://[::1]:7000"), "[::1]:7000");
        assert_eq!(address("redis://[::1]/"), "[::1]:6379");
    }

    #[test]
    fn a_server_that_is_not_there_is_named() {
        // A free port could be taken by another test in the meantime. No server listens on port 1.
        let text = reach("redis://:secret@127.0.0.1:1/").unwrap_err().to_string();
        assert!(text.contains("127.0.0.1:1,") && !text.contains("secret"), "{text}");
    }
}
