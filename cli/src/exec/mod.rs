//! `leasehold exec`: runs a command under a lock.
//!
//! ```text
//!  wait for the lock ──► run ──► the command ended ──► release ──► its status
//!        │ signal, busy   │ lease lost, or nearly over
//!        ▼                ▼
//!      leave            SIGTERM ──► grace ──► SIGKILL ──► "lost"
//! ```
//!
//! `leasehold lead` does the same with the terms of an election: see `lead.rs`.
//!
//! A second process, the guard, ends the command if this one is killed or paused while the lease runs out. `windows.rs`
//! does without it, and without signals.

#[cfg(unix)]
mod child;
mod events;
#[cfg(unix)]
mod guard;
#[cfg(unix)]
mod helper;
mod hold;
mod job;
mod lead;
#[cfg(unix)]
mod lookup;
#[cfg(unix)]
mod own;
#[cfg(unix)]
mod start;
#[cfg(unix)]
mod terminal;
#[cfg(windows)]
mod windows;

use leasehold::{Lock, LockManager, LockOptions, Once, OnceOptions};

use crate::args::{Exec, Servers};
use crate::report::{Failure, Outcome, Output};
use crate::signals::{Signals, status};
use crate::taking::Taking;

#[cfg(unix)]
use child::FORWARDED;
use events::{Events, LOCK};
#[cfg(unix)]
pub(crate) use helper::run as helper;
use hold::{End, MAX_HOLD, hold};
use job::{Held, Job};
pub(crate) use lead::run as lead;
#[cfg(windows)]
pub(crate) use windows::helper;
#[cfg(windows)]
use windows::{FORWARDED, lookup};

pub(crate) async fn run(servers: &Servers, arguments: &Exec, output: Output) -> Outcome {
    // Nobody should wait an hour for a lock and then read of a typing error.
    lookup::check(arguments.program.name())?;
    let take = &arguments.take;
    let token = take.token()?;
    let events = Events { output, all: take.says_all(output), name: &take.name, words: &LOCK };
    let mut signals = Signals::listen(&FORWARDED)?;
    let locks = tokio::select! {
        signal = signals.ending() => return Ok(status(signal)),
        locks = servers.locks_as(take.label.as_deref()) => locks?,
    };
    let taking = Taking { take, locks: &locks, output, token };
    let acquired = tokio::select! {
        signal = signals.ending() => Err(Ok(status(signal))),
        acquired = taking.lease(lock(&locks, arguments)), if !arguments.once => {
            acquired.map(if arguments.per.is_some() { Held::Start } else { Held::Lock })
        }
        acquired = taking.once(once(&locks, arguments)), if arguments.once => acquired.map(Held::Once),
    };
    let outcome = match acquired {
        Ok(held) => under(held, arguments, &events, &mut signals).await,
        Err(outcome) => outcome,
    };
    // Also leaves the queue, so that the next waiter doesn't wait for this one.
    locks.close().await;
    outcome
}

fn lock(locks: &LockManager, arguments: &Exec) -> Lock {
    let name = &arguments.take.name;
    let lock = match (arguments.permits, arguments.of) {
        (Some(permits), Some(limit)) => locks.semaphore(name, limit).permits(permits),
        _ if arguments.read => locks.read_write(name).read(),
        _ => locks.mutex(name),
    };
    let mut options = LockOptions::default();
    options.ttl = Some(arguments.ttl);
    options.max_hold = arguments.max_hold;
    options.at_least = arguments.at_least;
    options.per = arguments.per;
    options.max_waiters = arguments.max_waiters;
    lock.options(&options)
}

fn once(locks: &LockManager, arguments: &Exec) -> Once {
    let mut options = OnceOptions::default();
    options.ttl = Some(arguments.ttl);
    options.wait = Some(arguments.take.wait);
    options.max_hold = arguments.max_hold;
    options.max_waiters = arguments.max_waiters;
    options.keep = arguments.keep;
    locks.once(&arguments.take.name).options(&options)
}

/// Runs the command under the lock. Its status counts, unless the lease was lost.
async fn under(held: Held, arguments: &Exec, events: &Events<'_>, signals: &mut Signals) -> Outcome {
    let take = &arguments.take;
    let job = Job {
        program: &arguments.program,
        name: &take.name,
        ttl: arguments.ttl,
        max_hold: arguments.max_hold,
        has_adopted: take.adopt.is_some(),
    };
    match hold(held, &job, events, signals).await? {
        End { ended, lost: None, .. } => Ok(ended.status()),
        End { ended, lost: Some(reason), .. } => {
            let message = format!("lock `{}`: the lease was lost: {reason}; the command {ended}", take.name);
            let remedy = if reason == MAX_HOLD {
                "find out why the command takes so long, or give it more time with --max-hold"
            } else {
                "check what the command wrote; only a resource that checks LEASEHOLD_FENCE refuses late writes"
            };
            Err(Failure::new(arguments.lost_exit_code, "lost", message, remedy))
        }
    }
}
