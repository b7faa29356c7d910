//! Checks whether a server is usable: new enough, a primary and, if required, one that evicts nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leasehold_core::{Abilities, DeleteIfEqual, Failure, NO_MORE_CLIENTS, Probed, Reply, Roster};
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, RedisResult, Value};

use super::probe::{Slots, enforces_slots, probe};
use crate::errors::{Error, error_text, shortened};
use crate::net::connection::{SharedConnection, with_timeout};

/// The option with the members' addresses.
pub(crate) const QUORUM_FIELD: &str = "servers";

/// What a server must be like.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Requirements {
    /// Whether it must not be a replica. In a cluster, any server can answer for all of them.
    pub(crate) primary: bool,
    /// Whether its `maxmemory-policy` must be `noeviction`.
    pub(crate) no_eviction: bool,
    pub(crate) slots: Slots,
}

/// What a server says about itself.
#[derive(Default)]
pub(super) struct Description {
    pub(super) info: String,
    pub(super) policy: Option<String>,
    /// Its answer to the question about slots.
    probe: Option<Result<Reply, Failure>>,
}

/// What a check found.
pub(crate) enum Checked {
    Fits(Abilities),
    /// The server says that it can't answer now.
    NotReady(Failure),
}

impl Checked {
    /// With what the server has answered about slots.
    pub(super) fn new(delete_if_equal: Option<DeleteIfEqual>, probed: Probed) -> Self {
        match probed {
            Probed::NotReady(failure) => Self::NotReady(failure),
            probed => Self::Fits(Abilities { delete_if_equal, has_slots: probed == Probed::Slots }),
        }
    }
}

/// Checks the server's version, role and eviction policy, and whether it enforces slots. A server that hides its version and role is
/// accepted.
pub(super) async fn check_server(
    connection: &SharedConnection,
    server: Option<&str>,
    requirements: Requirements,
    (since, limit): (Instant, Duration),
) -> Result<Checked, Error> {
    let left = limit.saturating_sub(since.elapsed());
    let Description { info, policy, probe } = match with_timeout(left, query_server(connection, requirements)).await {
        Ok(description) => description,
        // A server that is busy with a script refuses INFO.
        Err(error) => {
            return match not_ready(&error) {
                Some(failure) => Ok(Checked::NotReady(failure)),
                None => Err(Error::from_connecting(error, server, since.elapsed())),
            };
        }
    };
    check_info(&info, requirements, policy.as_deref())?;
    let probed = match probe {
        Some(answer) => enforces_slots(connection, server, requirements.slots, &answer, (since, limit)).await?,
        None => Probed::NoSlots,
    };
    Ok(Checked::new(DeleteIfEqual::of(&info), probed))
}

/// What a server has answered that is not ready. None for every other error. A server that accepts no more connections closes this one.
pub(super) fn not_ready(error: &RedisError) -> Option<Failure> {
    let failure = error.code().map(|_| Failure::Refused(error_text(error)))?;
    let is_retryable = leasehold_core::Error::of_connecting(failure.clone(), Duration::ZERO).is_retryable();
    (is_retryable && !failure.text().contains(NO_MORE_CLIENTS)).then_some(failure)
}

/// The server's `INFO`, and what else matters, in one round trip.
pub(super) async fn query_server(
    connection: &SharedConnection,
    requirements: Requirements,
) -> RedisResult<Description> {
    let policy = async {
        if !requirements.no_eviction {
            return Ok(None);
        }
        eviction_policy(connection).await.map(Some)
    };
    let role = async { if requirements.primary { info(connection, "replication").await } else { Ok(String::new()) } };
    let probe = async { if requirements.slots == Slots::Known { Ok(None) } else { probe(connection).await.map(Some) } };
    let (server, role, policy, probe) = tokio::try_join!(info(connection, "server"), role, policy, probe)?;
    Ok(Description { info: server + &role, policy, probe })
}

/// One section of the server's `INFO`. Empty if the server refuses to tell.
async fn info(connection: &SharedConnection, section: &str) -> RedisResult<String> {
    let mut info = redis::cmd("INFO");
    info.arg(section);
    match connection.run(info).await.and_then(Value::extract_error) {
        Ok(Value::BulkString(bytes)) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Ok(Value::VerbatimString { text, .. }) => Ok(text),
        Ok(_) => Ok(String::new()),
        Err(error) if error.code().is_some() && leasehold_core::refuses_info(&error_text(&error)) => {
            tracing::debug!("the server refuses INFO: its version and role are not checked");
            Ok(String::new())
        }
        Err(error) => Err(error),
    }
}

async fn eviction_policy(connection: &SharedConnection) -> RedisResult<String> {
    const NAME: &str = "maxmemory-policy";
    let mut query = redis::cmd("CONFIG");
    query.arg("GET").arg(NAME);
    let answer = connection.run(query).await.and_then(Value::extract_error)?;
    let mut settings: HashMap<String, String> = redis::from_redis_value(answer)?;
    Ok(settings.remove(NAME).unwrap_or_default())
}

/// What is left to check of a server that closes the connection at `INFO`: that it answers, and what doesn't need `INFO`.
pub(super) async fn check_without_info(
    connection: &SharedConnection,
    requirements: Requirements,
) -> RedisResult<Result<(), Error>> {
    tracing::debug!("the connection breaks at INFO: the server's version and role are not checked");
    if requirements.no_eviction {
        let policy = eviction_policy(connection).await?;
        return Ok(check_info("", requirements, Some(&policy)));
    }
    await_pong(connection).await.map(Ok)
}

/// Shows that the connection leads to a server. While that is down, a load balancer accepts connections and closes them at any command.
pub(super) async fn await_pong(connection: &SharedConnection) -> RedisResult<()> {
    // Any answer is enough, also a refusal.
    connection.run(redis::cmd("PING")).await.map(drop)
}

/// Compares a server's `INFO` and its eviction policy with the requirements.
pub(super) fn check_info(info: &str, requirements: Requirements, policy: Option<&str>) -> Result<(), Error> {
    let unsupported = |problem: &str| Err(Error::Unsupported { name: None, problem: problem.to_owned() });
    if info.lines().any(|line| line.trim().ends_with("_mode:sentinel")) {
        return unsupported("a sentinel stores no locks; connect with `LockManager::sentinel`");
    }
    leasehold_core::check_server(info).map_err(unsupported_server)?;
    if requirements.primary && info.lines().any(|line| line.trim() == "role:slave") {
        return unsupported(
            "the server is a replica; connect to its primary, or with `LockManager::sentinel`, which follows the primary",
        );
    }
    policy.map_or(Ok(()), |policy| leasehold_core::check_eviction(policy).map_err(unsupported_server))
}

/// A server may report a version of any length.
fn unsupported_server(error: leasehold_core::Error) -> Error {
    match Error::from_engine(error, None, None) {
        Error::Unsupported { name, problem } => Error::Unsupported { name, problem: shortened(problem) },
        other => other,
    }
}

/// The checks for one member of a quorum: it meets the requirements, and it is not also another member under a second
/// address. A member that is down at the start is checked when it comes back.
#[derive(Clone)]
pub(in crate::net) struct MemberCheck {
    index: usize,
    names: Arc<[String]>,
    admissions: Arc<Mutex<Admissions>>,
    requirements: Requirements,
    is_cluster: bool,
}

#[derive(Default)]
struct Admissions {
    roster: Roster,
    /// Why the first member was refused.
    refusal: Option<Error>,
}

impl MemberCheck {
    /// One for each member, for a member that is a single server.
    pub(in crate::net) fn all(names: &[String], no_eviction: bool) -> Vec<Self> {
        let (names, admissions): (Arc<[String]>, _) = (names.into(), Arc::default());
        let requirements = Requirements { primary: true, no_eviction, ..Requirements::default() };
        let check = |index| Self {
            index,
            names: Arc::clone(&names),
            admissions: Arc::clone(&admissions),
            requirements,
            is_cluster: false,
        };
        (0..names.len()).map(check).collect()
    }

    /// The checks for the primary that Sentinel names. Whether it is a primary is checked elsewhere.
    pub(super) fn behind_sentinel(mut self) -> Self {
        self.requirements.primary = false;
        self
    }

    /// The checks for each server of a cluster. All of them are one member.
    pub(super) fn of_cluster(mut self) -> Self {
        self.requirements.primary = false;
        self.is_cluster = true;
        self
    }

    /// Why a member was refused since the last call. It can't be mended by trying again.
    pub(in crate::net) fn take_refusal(&self) -> Option<Error> {
        self.admissions().refusal.take()
    }

    /// Asks the server about itself. An error means that it didn't answer. The result is that of the check of its answer: a server
    /// that fails the check counts as one that is down.
    pub(super) async fn check(&self, connection: &MultiplexedConnection) -> RedisResult<RedisResult<()>> {
        let connection: SharedConnection = Arc::new(connection.clone());
        let Description { info, policy, .. } = query_server(&connection, self.requirements).await?;
        let checked = self.named(check_info(&info, self.requirements, policy.as_deref()));
        Ok(self.record(checked.and_then(|()| self.admit(&info))))
    }

    /// The same for a server that closes the connection at `INFO`.
    pub(super) async fn check_without_info(&self, connection: &MultiplexedConnection) -> RedisResult<RedisResult<()>> {
        let connection: SharedConnection = Arc::new(connection.clone());
        let checked = check_without_info(&connection, self.requirements).await?;
        Ok(self.record(self.named(checked)))
    }

    /// Adds the member's name to a refusal.
    fn named(&self, checked: Result<(), Error>) -> Result<(), Error> {
        checked.map_err(|refusal| match refusal {
            Error::Unsupported { name, problem } => {
                let (this, _) = self.names(self.index);
                Error::Unsupported { name, problem: format!("{this}: {problem}") }
            }
            other => other,
        })
    }

    /// Checks that no other member has one of these nodes, if the member is a cluster.
    pub(super) fn check_nodes(&self, ids: &[String]) -> RedisResult<()> {
        let admitted = self.admissions().roster.admit_cluster(self.index, ids);
        self.record(admitted.map_err(|other| {
            let (other, this) = self.names(other);
            let problem = format!("lists one cluster twice: {other} and {this} are the same; list each cluster once");
            Error::invalid(QUORUM_FIELD, &problem)
        }))
    }

    fn admit(&self, info: &str) -> Result<(), Error> {
        if self.is_cluster {
            return Ok(());
        }
        if info.lines().any(|line| line.trim().ends_with("_mode:cluster")) {
            let (this, _) = self.names(self.index);
            let problem = format!("lists {this}, a server of a cluster: give the cluster, as `QuorumMember::cluster`");
            return Err(Error::invalid(QUORUM_FIELD, &problem));
        }
        let admitted = self.admissions().roster.admit(self.index, info);
        admitted.map_err(|other| {
            let (other, this) = self.names(other);
            let problem =
                format!("lists one server twice: {other} and {this} are the same server; list each server once");
            Error::invalid(QUORUM_FIELD, &problem)
        })
    }

    /// Remembers why the member was refused.
    fn record(&self, checked: Result<(), Error>) -> RedisResult<()> {
        checked.map_err(|refusal| {
            let error = (ErrorKind::Io, "it can't be one of the quorum", refusal.to_string());
            self.admissions().refusal.get_or_insert(refusal);
            error.into()
        })
    }

    /// The names of another member and of this one.
    fn names(&self, other: usize) -> (&str, &str) {
        let name = |index: usize| self.names.get(index).map(String::as_str).unwrap_or_default();
        (name(other), name(self.index))
    }

    fn admissions(&self) -> MutexGuard<'_, Admissions> {
        self.admissions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_refused_where_a_primary_is_asked_for() {
        let info = "redis_version:7.4.0\r\n# Replication\r\nrole:slave\r\nmaster_host:10.0.0.1\r\n";
        let wants = |primary| Requirements { primary, ..Requirements::default() };
        let text = check_info(info, wants(true), None).unwrap_err().to_string();
        assert!(text.contains("replica") && text.contains("LockManager::sentinel"), "{text}");
        assert!(check_info(info, wants(false), None).is_ok());
        assert!(check_info("redis_version:7.4.0\r\nrole:master\r\n", wants(true), None).is_ok());
        assert!(check_info("", wants(true), None).is_ok(), "a server that hides its role is accepted");
    }

    #[test]
    fn a_server_that_has_too_long_a_version_is_refused_in_few_words() {
        let text = check_info(&format!("redis_version:5.0.{}\r\n", "1".repeat(1 << 20)), Requirements::default(), None);
        assert!(text.unwrap_err().to_string().len() < 400);
    }
}
