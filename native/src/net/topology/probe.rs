//! Asks one address whether it enforces the slots of a cluster.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use leasehold_core::{Failure, PROBE, PROBE_PAUSE, Probed, Reply, check_probe, check_slot, slot_counters};
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

/// Whether the address enforces slots, by its answer. A server that is not ready is asked again until the time is over.
pub(super) async fn enforces_slots(
    connection: &SharedConnection,
    server: Option<&str>,
    slots: Slots,
    mut answer: Result<Reply, Failure>,
    (since, limit): (Instant, Duration),
) -> Result<bool, Error> {
    loop {
        let failure = match check_probe(slots == Slots::Required, &answer) {
            Ok(Probed::Slots) => {
                let left = limit.saturating_sub(since.elapsed());
                let asked = with_timeout(left, has_all_slots(connection)).await;
                asked.map_err(|error| Error::from_connecting(error, server, since.elapsed()))??;
                return Ok(true);
            }
            Ok(Probed::NoSlots) => return Ok(false),
            Ok(Probed::NotReady(failure)) => failure,
            Err(error) => return Err(Error::from_engine(error, None, server)),
        };
        let unready = |failure| {
            let error = leasehold_core::Error::of_connecting(failure, since.elapsed());
            Error::from_engine(error, None, server)
        };
        let left = || limit.saturating_sub(since.elapsed());
        if left() <= PROBE_PAUSE {
            return Err(unready(failure));
        }
        tracing::debug!(%failure, "the server is not ready to say whether it enforces slots");
        tokio::time::sleep(PROBE_PAUSE).await;
        answer = match with_timeout(left(), probe(connection)).await {
            // What it said before is more useful.
            Err(error) if error.is_timeout() => return Err(unready(failure)),
            asked => asked.map_err(|error| Error::from_connecting(error, server, since.elapsed()))?,
        };
    }
}

/// Fails if the address is one node of a cluster, whose other nodes have the other slots.
async fn has_all_slots(connection: &SharedConnection) -> RedisResult<Result<(), Error>> {
    let answers = slot_counters().map(|key| {
        let mut command = redis::cmd("GET");
        command.arg(key);
        ask(connection, command)
    });
    let answers = try_join_all(answers).await?;
    let checked = answers.iter().try_for_each(check_slot);
    Ok(checked.map_err(|error| Error::from_engine(error, None, None)))
}

/// An error means that the connection is broken.
async fn ask(connection: &SharedConnection, command: redis::Cmd) -> RedisResult<Result<Reply, Failure>> {
    match connection.run(command).await {
        Err(error) if error.is_unrecoverable_error() => Err(error),
        answer => Ok(codec::decode(answer)),
    }
}
