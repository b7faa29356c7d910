//! Takes a lock for `exec` and `acquire`: waits, says what blocks it, and names the holder of a busy one.

use std::convert::Infallible;
use std::env;
use std::pin::pin;
use std::time::Duration;

use leasehold::{Begun, Error, Inspection, Lease, Lock, LockManager, Once, Wait};
use leasehold_core::{LeaseToken, shown_time};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::args::Take;
use crate::render::{ENDLESS_KEY, held_by, holder_line, is_endless, object};
use crate::report::{Failure, Outcome, Output, busy, endless, exit};

/// The variable with the token of a lease. Other users of the machine can read a command line, but not this.
pub(crate) const TOKEN: &str = "LEASEHOLD_TOKEN";

/// How long to wait before looking what blocks the lock: a claim window, as in a program's client.
const BLOCKED_AFTER: Duration = Duration::from_secs(3);
/// How often to look again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// One lock, and how to take it.
pub(crate) struct Taking<'a> {
    pub(crate) take: &'a Take,
    pub(crate) locks: &'a LockManager,
    pub(crate) output: Output,
    /// The lease to take over, in place of waiting for the lock.
    pub(crate) token: Option<String>,
}

impl Take {
    /// The token of `--adopt`.
    pub(crate) fn token(&self) -> Outcome<Option<String>> {
        let given = match self.adopt.as_deref() {
            None => return Ok(None),
            Some("-") => env::var(TOKEN).map_err(|_| {
                Failure::usage(
                    format!("--adopt is `-`, but {TOKEN} is not set"),
                    "give the token that `leasehold acquire` printed",
                )
            })?,
            Some(token) => token.to_owned(),
        };
        checked("--adopt", &given).map(Some)
    }

    /// Whether to say everything, not only what is wrong.
    pub(crate) fn says_all(&self, output: Output) -> bool {
        self.verbose || output.json && !self.quiet
    }
}

/// The token, if it can be one. An error message doesn't repeat it, because messages go into logs.
pub(crate) fn checked(option: &str, token: &str) -> Outcome<String> {
    let token = token.trim();
    if token.is_empty() {
        let remedy = "give the token that `leasehold acquire` printed; if it printed none, its own message says why";
        return Err(Failure::usage(format!("{option}: the token is empty"), remedy));
    }
    match LeaseToken::read(token) {
        Ok(_) => Ok(token.to_owned()),
        Err(_) => Err(Failure::usage(
            format!("{option}: this is not the token of a lease"),
            "give the token that `leasehold acquire` printed, unchanged; it looks like \
             4972e18b-7cd5-18ab-12ef-ce7b36680fd3:1",
        )),
    }
}

impl Taking<'_> {
    /// Takes the lock. Without it, the error is how to end the program.
    pub(crate) async fn lease(&self, lock: Lock) -> Result<Lease, Outcome> {
        if let Some(token) = &self.token {
            return match lock.adopt(token).await {
                Ok(lease) => Ok(lease),
                Err(error) => Err(Err(with_holder(error, self.locks, &self.take.name).await)),
            };
        }
        let tries = self.take.wait == Wait::No;
        if tries || self.take.says_all(self.output) {
            match lock.try_acquire().await {
                Ok(Some(lease)) => return Ok(lease),
                Ok(None) => {
                    let seen = self.seen().await;
                    if !tries || self.output.json && !self.take.quiet {
                        self.waits(seen.as_ref());
                    }
                    if tries {
                        return Err(self.busy(None, seen.as_ref()));
                    }
                }
                // The wait may outlast it.
                Err(error) if !tries && error.code() == "unreachable" => {}
                Err(error) => return Err(ended_by(error)),
            }
        }
        let mut acquired = pin!(lock.wait(self.take.wait).acquire());
        let acquired = tokio::select! {
            acquired = &mut acquired => acquired,
            never = tell_blocked(self.locks, ("lock", &self.take.name), self.output) => match never {},
        };
        match acquired {
            Ok(lease) => Ok(lease),
            // Readers, permits, or a holder whose label was not there in time.
            Err(Error::Busy { waited, waiters: None, holder: None, votes, .. }) if votes.is_empty() => {
                Err(self.busy(Some(waited), self.seen().await.as_ref()))
            }
            Err(error) if error.code() == "busy" => {
                let is_endless = error.holder().is_some_and(|holder| holder.foreign);
                Err(self.failed(error.into(), is_endless))
            }
            Err(error) => Err(ended_by(error)),
        }
    }

    /// Takes the lock of work that is done once. If it is done, the program has ended well.
    pub(crate) async fn once(&self, once: Once) -> Result<Lease, Outcome> {
        let name = &self.take.name;
        match once.begin::<Value>().await {
            Ok(Begun::Work(lease)) => Ok(lease),
            Ok(Begun::Stored(_)) => {
                if self.take.says_all(self.output) {
                    self.output.note(|| json!({ "event": "done", "name": name }), || format!("`{name}` is done"));
                }
                Err(Ok(0))
            }
            Err(Error::Busy { waited, votes, .. }) if votes.is_empty() => {
                Err(self.busy(Some(waited), self.seen().await.as_ref()))
            }
            Err(error) => Err(ended_by(error)),
        }
    }

    async fn seen(&self) -> Option<Inspection> {
        self.locks.inspect(&self.take.name).await.ok()
    }

    fn busy(&self, waited: Option<Duration>, seen: Option<&Inspection>) -> Outcome {
        let waited = waited.map(|waited| format!(" after {}", shown_time(waited))).unwrap_or_default();
        let by = seen.map(held_by).filter(|by| !by.is_empty()).map(|by| format!("; {by}")).unwrap_or_default();
        let message = format!("lock `{}`: busy{waited}{by}", self.take.name);
        let (name, is_endless) = (&self.take.name, seen.is_some_and(is_endless));
        let remedy = if is_endless { endless(name) } else { busy(name) };
        self.failed(Failure::new(exit::BUSY, "busy", message, remedy), is_endless)
    }

    /// A key that never ends by itself is reported also with `--quiet`: the lock will be busy at the next run, too.
    fn failed(&self, busy: Failure, is_endless: bool) -> Outcome {
        let exit = self.take.busy_exit_code;
        if self.take.quiet && !is_endless { Ok(exit) } else { Err(Failure { exit, ..busy }) }
    }

    fn waits(&self, seen: Option<&Inspection>) {
        let name = &self.take.name;
        let lock = seen.map(|seen| object(name, seen, None));
        let json = || json!({ "event": "busy", "name": name, "lock": lock });
        self.output.note(json, || {
            let holders = seen.map(|seen| seen.holders.iter().map(holder_line).collect::<Vec<_>>().join("; "));
            let waiters = seen.map_or(0, |seen| seen.waiting);
            let by = holders.filter(|line| !line.is_empty()).map(|line| format!(" by {line}")).unwrap_or_default();
            format!("lock `{name}`: held{by}; {waiters} wait before this one")
        });
    }
}

/// Says who leads while an election's candidate waits.
pub(crate) async fn tell_leader(locks: &LockManager, name: &str, output: Output) {
    let Ok(seen) = locks.inspect(name).await else { return };
    let json = || json!({ "event": "busy", "name": name, "lock": object(name, &seen, None) });
    output.note(json, || match seen.holders.first() {
        Some(leader) => format!("election `{name}`: waits; led by {}", holder_line(leader)),
        None => format!("election `{name}`: waits; nobody leads"),
    });
}

/// Says what may block a lock or an election for ever: a key without a TTL, or a server that doesn't answer. Each is said once.
pub(crate) async fn tell_blocked(locks: &LockManager, (what_waits, name): (&str, &str), output: Output) -> Infallible {
    let mut told = None;
    sleep(BLOCKED_AFTER).await;
    loop {
        let blocked = match locks.inspect_server(name).await {
            Ok(seen) if is_endless(&seen) => Some(("busy", format!("held by {ENDLESS_KEY}"), endless(name))),
            Err(error) if error.code() == "unreachable" => {
                let Failure { code, message, remedy, .. } = error.into();
                let what = message.strip_prefix(&format!("lock `{name}`: ")).unwrap_or(&message);
                Some((code, what.to_owned(), remedy))
            }
            _ => None,
        };
        if let Some((code, what, remedy)) = &blocked
            && told != Some(*code)
        {
            let json = || json!({ "event": "blocked", "name": name, "code": code, "message": what });
            output.note(json, || format!("{what_waits} `{name}`: still waiting: {what}\n  {remedy}"));
        }
        told = blocked.map(|(code, ..)| code);
        sleep(LOOK_AGAIN).await;
    }
}

/// The failure. If the lease of a token has ended, it says who holds the lock now.
pub(crate) async fn with_holder(error: Error, locks: &LockManager, name: &str) -> Failure {
    let mut failure = Failure::from(error);
    if failure.exit == exit::NOT_HELD
        && let Ok(seen) = locks.inspect(name).await
    {
        let by = held_by(&seen);
        let now = if by.is_empty() { "nobody holds the lock now".to_owned() } else { format!("now {by}") };
        failure.message = format!("{}; {now}", failure.message);
    }
    failure
}

fn ended_by(error: Error) -> Outcome {
    Err(error.into())
}
