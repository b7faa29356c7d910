//! Which servers will do: Redis 6.2 and newer, Valkey 7.2 and newer.

use alloc::format;
use alloc::string::String;
use alloc::vec;

use core::time::Duration;

use leasehold_core::{Failure, Reply, Scalar};

use crate::bindings::exports::leasehold::lock::locks::Error;
use crate::bindings::leasehold::lock::connection::Endpoint;
use crate::timer::within;
use crate::{error, wire};

/// Asks the server for its version. A server that does not tell is taken as it is.
pub(crate) async fn check(endpoint: &Endpoint, limit: Duration) -> Result<(), Error> {
    let info = endpoint.call(vec![b"INFO".to_vec(), b"server".to_vec()]);
    match within(limit, info).await.map(wire::result) {
        Some(Ok(Reply::One(Scalar::Text(info)))) => judge(&String::from_utf8_lossy(&info)),
        Some(Ok(_)) => Ok(()),
        // This user may not ask.
        Some(Err(Failure::Refused(text))) if text.starts_with("NOPERM") => Ok(()),
        Some(Err(failure)) => Err(error::from_connecting(failure, limit)),
        None => Err(error::from_connecting(Failure::TimedOut, limit)),
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
            Err(error::unsupported(&problem))
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
    use crate::bindings::exports::leasehold::lock::locks::ErrorKind;

    #[test]
    fn a_server_too_old_is_refused_with_the_versions_found_and_needed() {
        let error = judge("# Server\r\nredis_version:6.0.16\r\nos:Linux\r\n").unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Unsupported));
        let text = error.message;
        assert!(text.contains("6.0.16") && text.contains("6.2"), "{text}");
    }

    #[test]
    fn supported_servers_and_silent_ones_pass() {
        for info in
            ["redis_version:6.2.14", "redis_version:7.2.4\r\nvalkey_version:9.1.2\r\n", "redis_version:unstable", ""]
        {
            assert!(judge(info).is_ok(), "{info}");
        }
    }
}
