//! Which servers will do: Redis 6.2 and newer, Valkey 7.2 and newer.

use std::time::{Duration, Instant};

use redis::Value;

use crate::endpoint::within;
use crate::error::Error;
use crate::link::Connection;

/// Asks the server for its version. A server that does not tell is taken as it is.
pub(crate) async fn check(connection: &Connection, response_timeout: Duration) -> Result<(), Error> {
    let start = Instant::now();
    let mut info = redis::cmd("INFO");
    info.arg("server");
    let answer = within(response_timeout, connection.run(info)).await.and_then(Value::extract_error);
    match answer {
        Ok(Value::BulkString(bytes)) => judge(&String::from_utf8_lossy(&bytes)),
        Ok(Value::VerbatimString { text, .. }) => judge(&text),
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some("NOPERM") => {
            tracing::debug!("this user may not ask for the server's version");
            Ok(())
        }
        Err(error) => Err(Error::from_connecting(error, start.elapsed())),
    }
}

fn judge(info: &str) -> Result<(), Error> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    // Valkey gives a `redis_version` as well, which it never raises.
    let (server, found, needed) = match (field("valkey_version"), field("redis_version")) {
        (Some(found), _) => ("Valkey", found, (7, 2)),
        (None, Some(found)) => ("Redis", found, (6, 2)),
        (None, None) => return Ok(()),
    };
    match parsed(found) {
        Some(version) if version < needed => {
            let (major, minor) = needed;
            let problem = format!("{server} {found} is too old: leasehold needs {server} {major}.{minor} or newer");
            Err(Error::Unsupported { problem })
        }
        _ => Ok(()),
    }
}

fn parsed(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn a_server_too_old_is_refused_with_the_versions_found_and_needed() {
        let error = judge("# Server\r\nredis_version:6.0.16\r\nos:Linux\r\n").unwrap_err();
        assert_eq!(error.code(), "unsupported");
        let text = error.to_string();
        assert!(text.contains("6.0.16") && text.contains("6.2"), "{text}");
        let text = judge("redis_version:7.2.4\r\nvalkey_version:7.1.9\r\n").unwrap_err().to_string();
        assert!(text.contains("Valkey 7.1.9") && text.contains("7.2"), "{text}");
    }

    #[test]
    fn supported_servers_and_silent_ones_pass() {
        for info in ["redis_version:6.2.14", "redis_version:7.0.15", "redis_version:10.0.0"] {
            assert!(judge(info).is_ok(), "{info}");
        }
        assert!(judge("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n").is_ok());
        assert!(judge("redis_version:unstable").is_ok());
        assert!(judge("").is_ok());
    }
}
