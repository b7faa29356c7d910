//! Asks one address whether it enforces the slots of a cluster.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use leasehold_core::{Failure, PROBE, Probed, Reply, check_probe, check_slots, slot_counters};
use redis::RedisResult;

use crate::errors::Error;
use crate::net::codec;
use crate::net::connection::{SharedConnection, with_timeout};

/// Whether an address enforces the slots of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Slots {
    /// It is known, so the client doesn't ask.
    #[default]
    Known,
    /// The server's answer decides.
    Asked,
    /// It must enforce them: the option `cluster_slots` is set.
    Required,
}

/// What the server answers to a script on two keys of different slots.
pub(super) async fn probe(connection: &SharedConnection) -> RedisResult<Result<Reply, Failure>> {
    let mut command = redis::cmd(PROBE[0]);
    command.arg(&PROBE[1..]);
    ask(connection, command).await
}

/// What the answer says about slots.
pub(super) async fn enforces_slots(
    connection: &SharedConnection,
    server: Option<&str>,
    slots: Slots,
    answer: &Result<Reply, Failure>,
    (since, limit): (Instant, Duration),
) -> Result<Probed, Error> {
    let refused = |error| Error::from_engine(error, None, server);
    let probed = check_probe(slots == Slots::Required, answer).map_err(refused)?;
    if probed != Probed::Slots {
        return Ok(probed);
    }
    match with_timeout(limit.saturating_sub(since.elapsed()), probe_nodes(connection)).await {
        Ok(probed) => probed.map_err(refused),
        Err(error) => Err(Error::from_connecting(error, server, since.elapsed())),
    }
}

/// Whether the address enforces slots or is not ready. Fails if it is only one node of a cluster.
async fn probe_nodes(connection: &SharedConnection) -> RedisResult<Result<Probed, leasehold_core::Error>> {
    let answers = slot_counters().map(|key| {
        let mut command = redis::cmd("GET");
        command.arg(key);
        ask(connection, command)
    });
    Ok(check_slots(try_join_all(answers).await?))
}

/// An error means that the connection is broken.
async fn ask(connection: &SharedConnection, command: redis::Cmd) -> RedisResult<Result<Reply, Failure>> {
    match connection.run(command).await {
        Err(error) if error.is_unrecoverable_error() => Err(error),
        answer => Ok(codec::decode(answer)),
    }
}
