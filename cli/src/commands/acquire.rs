//! `leasehold acquire`: takes a lock, prints its token, and ends without releasing it.
//!
//! The lease has no holder then that renews it, so its TTL is all that others have to wait for if no step gives it back.
//! Until the token is printed, every way out of here releases the lease: without its token, nobody could.

use std::ffi::OsString;
use std::{io, mem, thread};

use leasehold::{Lease, LockManager};
use serde_json::json;
use tokio::sync::oneshot;

use crate::args::{Acquire, Servers};
use crate::render::{milliseconds, time};
use crate::report::{Failure, Outcome, Output, exit};
use crate::signals::{Signal, Signals, status};
use crate::taking::{TOKEN, Taking};

pub(super) async fn run(servers: &Servers, arguments: &Acquire, output: Output) -> Outcome {
    if servers.quorum {
        let message = "--quorum: the lease of a quorum has no token that another command can use";
        return Err(Failure::new(
            exit::UNSUPPORTED,
            "unsupported",
            message,
            "use `leasehold exec` for all steps together",
        ));
    }
    let take = &arguments.take;
    let token = take.token()?;
    let label = take.label.clone().unwrap_or_else(default_label);
    let mut signals = Signals::listen(&[Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM])?;
    let locks = tokio::select! {
        signal = signals.next() => return Ok(status(signal)),
        locks = servers.locks_as(Some(&label)) => locks?,
    };
    let taking = Taking { take, locks: &locks, output, token };
    let acquired = tokio::select! {
        signal = signals.next() => Err(Ok(status(signal))),
        acquired = acquire(&taking, arguments) => acquired,
    };
    let outcome = match acquired {
        Ok(acquired) => {
            // The reader of a full pipe may never read on.
            let printed = tokio::select! {
                signal = signals.next() => Err(Ok(status(signal))),
                printed = acquired.print(arguments, output) => printed.map_err(Err),
            };
            match printed {
                Ok(()) => {
                    acquired.note(arguments, output);
                    leave(acquired.lease);
                    return Ok(0);
                }
                Err(outcome) => {
                    let _ = acquired.lease.release().await;
                    outcome
                }
            }
        }
        Err(outcome) => outcome,
    };
    // Also releases a lease that a signal has left behind.
    locks.close().await;
    outcome
}

struct Acquired {
    lease: Lease,
    token: String,
}

/// Takes the lock for a whole TTL from now.
async fn acquire(taking: &Taking<'_>, arguments: &Acquire) -> Result<Acquired, Outcome> {
    let lease = taking.lease(mutex(taking.locks, arguments)).await?;
    let failed = |error: leasehold::Error| {
        let failure = Failure::from(error);
        let ended = "the lease ended before its token could be printed: give it a longer --ttl";
        Err(if failure.exit == exit::LOST { Failure { remedy: ended.to_owned(), ..failure } } else { failure })
    };
    // The client listens for messages from now on, and writes its label to the server.
    let token = lease.token().map_err(failed)?.to_string();
    // The server grants a waiter only a claim window, until the client renews the lease for the first time.
    lease.extend(arguments.ttl).await.map_err(failed)?;
    Ok(Acquired { lease, token })
}

fn mutex(locks: &LockManager, arguments: &Acquire) -> leasehold::Lock {
    locks.mutex(&arguments.take.name).ttl(arguments.ttl)
}

impl Acquired {
    /// Prints the token. A thread of its own does it, so that a signal ends the program while nobody reads.
    async fn print(&self, arguments: &Acquire, output: Output) -> Outcome<()> {
        let (name, token, fence) = (arguments.take.name.clone(), self.token.clone(), self.lease.fence().get());
        let (left, is_env) = (self.lease.remaining(), arguments.env);
        let (done, printed) = oneshot::channel();
        thread::spawn(move || {
            let json = || json!({ "name": name, "token": token, "fence": fence, "remaining_ms": milliseconds(left) });
            let text = || if is_env { format!("{TOKEN}={token}\nLEASEHOLD_FENCE={fence}") } else { token.clone() };
            let _ = done.send(output.print(json, text));
        });
        printed.await.unwrap_or_else(|_| Err(Failure::output(&io::ErrorKind::Other.into())))
    }

    fn note(&self, arguments: &Acquire, output: Output) {
        if arguments.take.verbose {
            let (name, fence, left) = (&arguments.take.name, self.lease.fence().get(), self.lease.remaining());
            let text =
                || format!("lock `{name}`: acquired, fence {fence}; free in {} unless a step renews it", time(left));
            output.note(|| json!({ "event": "acquired", "name": name, "fence": fence }), text);
        }
    }
}

/// Ends the use of the lease without releasing it. Its client is never dropped either, and sends nothing more, because the
/// runtime ends with this process.
fn leave(lease: Lease) {
    mem::forget(lease);
}

/// No process of this id holds the lock any more when others read it, so it names the command.
fn default_label() -> String {
    let host: String = host().to_string_lossy().chars().filter(char::is_ascii_graphic).take(100).collect();
    if host.is_empty() { "leasehold acquire".to_owned() } else { format!("{host}, leasehold acquire") }
}

#[cfg(unix)]
fn host() -> OsString {
    nix::unistd::gethostname().unwrap_or_default()
}

#[cfg(windows)]
fn host() -> OsString {
    std::env::var_os("COMPUTERNAME").unwrap_or_default()
}
