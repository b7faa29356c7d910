//! `leasehold lead`: runs a program while this process leads an election.
//!
//! ```text
//!  campaign ──► run ──► the program ended by itself, or by a signal to us ──► resign ──► its status
//!     ▲  │ signal  │ term lost, or nearly over
//!     │  ▼         ▼
//!     │ leave   SIGTERM ──► grace ──► SIGKILL
//!     └─────────────────────────────────┘
//! ```
//!
//! The program has ended before the term is resigned, so two programs never run because of a signal.

use leasehold::LockManager;

#[cfg(unix)]
use super::child::FORWARDED;
use super::events::{ELECTION, Events};
use super::hold::{By, hold};
use super::job::{Held, Job};
#[cfg(unix)]
use super::lookup;
#[cfg(windows)]
use super::windows::{FORWARDED, lookup};
use crate::args::{Lead, Servers};
use crate::report::{Outcome, Output};
use crate::signals::{Signals, status};
use crate::taking::{tell_blocked, tell_leader};

pub(crate) async fn run(servers: &Servers, arguments: &Lead, output: Output) -> Outcome {
    lookup::check(arguments.program.name())?;
    let name = &arguments.name;
    let events = Events { output, all: arguments.verbose || output.json, name, words: &ELECTION };
    let mut signals = Signals::listen(&FORWARDED)?;
    let locks = tokio::select! {
        signal = signals.ending() => return Ok(status(signal)),
        locks = servers.locks_as(arguments.label.as_deref()) => locks?,
    };
    let outcome = terms(&locks, arguments, &events, &mut signals).await;
    // Also leaves the queue.
    locks.close().await;
    outcome
}

/// Campaigns, and runs the program in each term.
async fn terms(locks: &LockManager, arguments: &Lead, events: &Events<'_>, signals: &mut Signals) -> Outcome {
    let name = &arguments.name;
    let election = locks.election(name).value(arguments.value.as_str()).ttl(arguments.ttl);
    let job = Job { program: &arguments.program, name, ttl: arguments.ttl, max_hold: None, has_adopted: false };
    loop {
        let waiting = async {
            if events.all {
                tell_leader(locks, name, events.output).await;
            }
            // If the server doesn't answer, only this says so.
            tell_blocked(locks, ("election", name), events.output).await
        };
        let term = tokio::select! {
            biased;
            signal = signals.ending() => return Ok(status(signal)),
            term = election.campaign() => term?,
            never = waiting => match never {},
        };
        let end = hold(Held::Term(term), &job, events, signals).await?;
        if end.by != By::Us
            && let Some(reason) = &end.lost
        {
            events.was_lost(reason, end.ended);
        }
        if end.by == By::Itself || end.asked {
            return Ok(end.ended.status());
        }
    }
}
