//! A client that drains: it grants nothing more, gives back what lingers, and ends when nothing is held any more.

use leasehold_core::{Engine, Instant};

use super::{Verdict, broken};
use crate::client::{Client, UserCall};

/// What a client that drains looks like once the engine has seen the time. `holds` says whether its users hold leases.
pub(crate) fn check(client: &Client, engine: &Engine, holds: bool, now: Instant) -> Verdict {
    if !client.drains {
        return Ok(());
    }
    let with = |what: String| broken("drains", format!("{what} at {now:?}"));
    let mut open = client.open.iter().map(|op| &client.ops[*op as usize]);
    if let Some(op) = open.clone().find(|op| matches!(op.call, UserCall::Acquire(_) | UserCall::Adopt(..))) {
        return with(format!("{op:?} still waits"));
    }
    if let [name, ..] = engine.lingering()[..] {
        return with(format!("{name:?} lingers"));
    }
    match client.drained {
        Some(ends) if holds && now < ends => with(format!("a drain until {ends:?} has ended, and something is held")),
        _ if holds => Ok(()),
        _ => match open.find(|op| matches!(op.call, UserCall::Drain(_))) {
            Some(op) => with(format!("nothing is held, and {op:?} goes on")),
            None => Ok(()),
        },
    }
}
