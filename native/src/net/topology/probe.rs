//! Asks one address whether it enforces the slots of a cluster.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use leasehold_core::{Failure, PROBE, PROBE_PAUSE, Probed, Reply, check_probe, check_slot, slot_counters};
use redis::{RedisError, RedisResult};

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
    let left = || limit.saturating_sub(since.elapsed());
    let refused = |error| Error::from_engine(error, None, server);
    let unready = |failure| refused(leasehold_core::Error::of_connecting(failure, since.elapsed()));
    // What the server said before is more useful than that it doesn't answer.
    let failed = |error: RedisError, said: Option<Failure>| match said {
        Some(failure) if error.is_timeout() => unready(failure),
        _ => Error::from_connecting(error, server, since.elapsed()),
    };
    let mut said = None;
    loop {
        let probed = match check_probe(slots == Slots::Required, &answer).map_err(refused)? {
            Probed::Slots => match with_timeout(left(), probe_nodes(connection)).await {
                Ok(probed) => probed.map_err(refused)?,
                Err(error) => return Err(failed(error, said)),
            },
            probed => probed,
        };
        let failure = match probed {
            Probed::NotReady(failure) => failure,
            probed => return Ok(probed == Probed::Slots),
        };
        if left() <= PROBE_PAUSE {
            return Err(unready(failure));
        }
        tracing::debug!(%failure, "the server is not ready to say whether it enforces slots");
        said = Some(failure);
        tokio::time::sleep(PROBE_PAUSE).await;
        answer = match with_timeout(left(), probe(connection)).await {
            Ok(answer) => answer,
            Err(error) => return Err(failed(error, said)),
        };
    }
}

/// Whether the address enforces slots or is not ready. Fails if it is only one node of a cluster.
async fn probe_nodes(connection: &SharedConnection) -> RedisResult<Result<Probed, leasehold_core::Error>> {
    let answers = slot_counters().map(|key| {
        let mut command = redis::cmd("GET");
        command.arg(key);
        ask(connection, command)
    });
    let answers = try_join_all(answers).await?;
    let checked = answers.iter().try_for_each(check_slot);
    // While a whole cluster is down, its nodes don't say which slots they have.
    let unready = answers.into_iter().map(|answer| answer.err().filter(is_unready)).collect::<Option<Vec<_>>>();
    let unready = unready.and_then(|failures| failures.into_iter().next());
    Ok(checked.map(|()| unready.map_or(Probed::Slots, Probed::NotReady)))
}

fn is_unready(failure: &Failure) -> bool {
    leasehold_core::Error::of_connecting(failure.clone(), Duration::ZERO).is_retryable()
}

/// An error means that the connection is broken.
async fn ask(connection: &SharedConnection, command: redis::Cmd) -> RedisResult<Result<Reply, Failure>> {
    match connection.run(command).await {
        Err(error) if error.is_unrecoverable_error() => Err(error),
        answer => Ok(codec::decode(answer)),
    }
}
