//! Checks a server again after its connection broke during the first check.

use std::time::{Duration, Instant};

use leasehold_core::Probed;
use redis::RedisError;

use super::checks::{Checked, Requirements, await_pong, check_server, check_without_info};
use super::endpoint::Endpoint;
use super::probe::{Slots, enforces_slots, probe};
use crate::errors::Error;
use crate::net::connection::{SharedConnection, with_timeout};

/// After this many checks broke the connection, the client uses the server unchecked.
pub(super) const MOST_BROKEN: u32 = 3;

/// Does what [`check_server`] does, after that has failed with `error` for the first connection to `endpoint`. Returns the
/// connection to use, and what the check found.
///
/// A proxy may close the connection when it sees `INFO`. If that happens a few times, each time after it has answered `PING`, the
/// client doesn't send `INFO` any more, and accepts the server. It also accepts a server that hides its version.
pub(super) async fn check_again(
    endpoint: &Endpoint,
    mut error: Error,
    requirements: Requirements,
    (since, limit): (Instant, Duration),
) -> Result<(SharedConnection, Checked), Error> {
    let url = endpoint.url();
    let failed = |error| Error::from_connecting(error, Some(&url), since.elapsed());
    let connect = async || {
        let connecting = async {
            let connection = endpoint.share(endpoint.connect().await?);
            await_pong(&connection).await.map(|()| connection)
        };
        with_timeout(limit.saturating_sub(since.elapsed()), connecting).await.map_err(failed)
    };
    for _ in 1..MOST_BROKEN {
        if !is_broken(&error) {
            return Err(error);
        }
        let connection = connect().await?;
        match check_server(&connection, Some(&url), requirements, (since, limit)).await {
            Ok(checked) => return Ok((connection, checked)),
            Err(another) => error = another,
        }
    }
    if !is_broken(&error) {
        return Err(error);
    }
    let mut connection = connect().await?;
    let left = || limit.saturating_sub(since.elapsed());
    let mut probed = Probed::NoSlots;
    if requirements.slots != Slots::Known {
        match with_timeout(left(), probe(&connection)).await {
            Ok(answer) => {
                probed = enforces_slots(&connection, Some(&url), requirements.slots, &answer, (since, limit)).await?;
            }
            // The connection breaks at this question, too.
            Err(error) if requirements.slots == Slots::Asked && error.is_connection_dropped() => {
                connection = connect().await?;
            }
            Err(error) => return Err(failed(error)),
        }
    }
    with_timeout(left(), check_without_info(&connection, requirements)).await.map_err(failed)??;
    Ok((connection, Checked::new(None, probed)))
}

/// Whether the connection broke during a question.
fn is_broken(error: &Error) -> bool {
    let Error::Unreachable { cause: Some(cause), .. } = error else { return false };
    cause.downcast_ref::<RedisError>().is_some_and(RedisError::is_connection_dropped)
}
