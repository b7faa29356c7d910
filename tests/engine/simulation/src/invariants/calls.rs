//! Every call ends once, by its own deadline, and callers of one client are served in order.

use std::time::Duration;

use leasehold_core::{AcquireOptions, Error, Instant, Kind, Mode, Outcome, Wait};

use super::{Verdict, broken};
use crate::client::{Client, Op, UserCall};

/// How late a wake-up at the deadline itself may be.
pub(crate) const SLACK: Duration = Duration::from_millis(1);
/// When a command must have left, however many others are before it in the client's own queue.
const IN_THE_END: Duration = Duration::from_secs(1);
/// How many callers of a client may ask for permits at the same time.
const ASKING: u32 = 16;

/// How much longer a wait may last after a pause of its client.
const READING: Duration = Duration::from_millis(50);

/// When a call must have ended, by the client's clock. None if it may wait forever. `valid_until` is that of the call's
/// lease.
pub(crate) fn deadline(
    call: &UserCall,
    now: Instant,
    response: Duration,
    valid_until: Option<Instant>,
) -> Option<Instant> {
    let wait = match call {
        UserCall::Acquire(options) => match options.wait {
            Wait::For(wait) => wait,
            Wait::No => response,
            _ => return None,
        },
        UserCall::Release
        | UserCall::Store(_)
        | UserCall::Extend(_)
        | UserCall::Verify
        | UserCall::Inspect
        | UserCall::Detach(_)
        | UserCall::Adopt(..) => response,
        UserCall::Drain(grace) => *grace,
        UserCall::Close => 2 * response,
        // The end of its lease is a bound, too. Renewals pause until the conversion is answered.
        UserCall::Convert(_) => return Some((now + 2 * response).max(valid_until.unwrap_or(now)) + SLACK),
        UserCall::Hold | UserCall::Export | UserCall::Nonsense => Duration::ZERO,
    };
    Some(now + wait + SLACK)
}

/// No call is open past its deadline once the engine has seen the time.
pub(crate) fn overdue(client: &Client, now: Instant) -> Verdict {
    let late = |op: &&u32| {
        let op = &client.ops[**op as usize];
        op.ends.is_some_and(|ends| ends.max(extended(client, op)).max(paused(client, op)).max(moves(client, op)) < now)
    };
    match client.open.iter().find(late) {
        Some(op) => {
            let op = &client.ops[*op as usize];
            broken("ends-in-time", format!("still open at {now:?}: {op:?}"))
        }
        None => Ok(()),
    }
}

/// When a call must have ended, if its client was paused during the call: once the answers are read, or once the server
/// has had its full time again.
fn paused(client: &Client, op: &Op) -> Instant {
    match op.call {
        _ if op.since >= client.paused_at => op.since,
        // It waits for no answer.
        UserCall::Drain(_) => op.since,
        UserCall::Acquire(options) if options.wait != Wait::No || options.within.is_some() => {
            client.paused_at + READING + SLACK
        }
        _ => client.paused_at + 2 * client.config.response_timeout + SLACK,
    }
}

/// When a release must have ended, if a slot moved during the call. The client sends it again after a pause, and the
/// server may not answer. The call checks this once in a response timeout.
fn moves(client: &Client, op: &Op) -> Instant {
    match op.call {
        UserCall::Release | UserCall::Store(_) if client.moved_at >= op.since => {
            client.moved_at + client.config.claim_window / 3 + 3 * client.config.response_timeout + SLACK
        }
        _ => op.since,
    }
}

/// When a call that only a server's silence ends must have ended. A close goes on while leases come back. Time in the
/// client's own queue does not count as silence. A command waits there as long as the server answers other commands, and
/// then has its own response timeout.
fn extended(client: &Client, op: &Op) -> Instant {
    let twice = 2 * client.config.response_timeout + SLACK;
    let was_full = client.full_at.is_some_and(|at| at >= op.since);
    match op.call {
        UserCall::Close => client.released_at + twice,
        UserCall::Acquire(options) if options.wait != Wait::No || options.within.is_some() => op.since,
        UserCall::Acquire(_)
        | UserCall::Adopt(..)
        | UserCall::Release
        | UserCall::Store(_)
        | UserCall::Extend(_)
        | UserCall::Verify
        | UserCall::Detach(_)
        | UserCall::Inspect
            if was_full =>
        {
            (client.heard_at.max(op.since) + twice).min(op.since + IN_THE_END + client.config.response_timeout)
        }
        _ => op.since,
    }
}

/// No caller that asked for the same lock earlier still waits when a caller is granted.
pub(crate) fn in_order(client: &Client, granted: u32, now: Instant) -> Verdict {
    let op = &client.ops[granted as usize];
    let waits = |other: &&Op| match other.wait() {
        Wait::No => false,
        Wait::For(_) => other.ends.is_some_and(|ends| ends > now + SLACK),
        _ => true,
    };
    let earlier = client.open.iter().filter(|other| **other < granted).map(|other| &client.ops[*other as usize]);
    let passed = earlier.filter(|other| other.name == op.name && !other.cancelled && !other.ended).find(waits);
    match passed {
        Some(passed) => broken("fifo-local", format!("{op:?} was granted before {passed:?}")),
        None => Ok(()),
    }
}

/// The same for a semaphore. Several callers may ask at the same time, and a token that a caller got may need a renewal
/// or turn out to be used up. Without faults, a caller is overtaken at most once for each concurrent request among
/// those that want the same number of permits. A fixed lease always waits for a separate renewal.
pub(crate) fn in_order_of_weight(client: &mut Client, granted: u32, now: Instant) -> Verdict {
    let weight = |op: &Op| match op.call {
        UserCall::Acquire(AcquireOptions { kind: Kind::Semaphore { permits, .. }, .. }) => permits,
        _ => 0,
    };
    let op = client.ops[granted as usize];
    let waits = |other: &Op| match other.call {
        UserCall::Acquire(AcquireOptions { renew: false, .. } | AcquireOptions { wait: Wait::No, .. }) => false,
        _ => other.ends.is_none_or(|ends| ends > now + SLACK),
    };
    for earlier in client.open.iter().filter(|other| **other < granted) {
        let other = &mut client.ops[*earlier as usize];
        if other.name != op.name || other.cancelled || other.ended || !waits(other) || weight(other) != weight(&op) {
            continue;
        }
        other.passed += 1;
        if other.passed > ASKING {
            return broken("fifo-local", format!("{op:?} was granted before {other:?}"));
        }
    }
    Ok(())
}

/// The outcome fits the call and is possible. `one_mode` means that the kind of lock can't be converted.
pub(crate) fn fits(op: &Op, result: &Result<Outcome, Error>, now: Instant, one_mode: bool) -> Verdict {
    let wrong = || broken("answer", format!("{op:?} ended with {result:?}"));
    match (op.call, result) {
        (UserCall::Acquire(options) | UserCall::Adopt(options, _), Ok(Outcome::Acquired(grant)))
            if grant.mode == options.mode =>
        {
            if grant.valid_until > now {
                Ok(())
            } else {
                wrong()
            }
        }
        (UserCall::Convert(mode), Ok(Outcome::Converted(grant))) if grant.mode == mode => {
            if grant.valid_until > now {
                Ok(())
            } else {
                wrong()
            }
        }
        (UserCall::Extend(ttl), Ok(Outcome::Extended { valid_until })) => {
            // From the call on, less what the clocks may differ by.
            let least = op.since + ttl.saturating_sub(ttl / 100 + Duration::from_millis(3));
            if op.bounded || *valid_until >= least { Ok(()) } else { wrong() }
        }
        (UserCall::Release | UserCall::Store(_), Ok(Outcome::Released(_)))
        | (UserCall::Acquire(AcquireOptions { kind: Kind::Once { .. }, .. }), Ok(Outcome::Stored { .. }))
        | (UserCall::Hold, Ok(Outcome::Held(_)))
        | (UserCall::Export | UserCall::Detach(_), Ok(Outcome::Exported(_)))
        | (UserCall::Verify, Ok(Outcome::Verified(_)))
        | (UserCall::Inspect, Ok(Outcome::Inspected(_)))
        | (UserCall::Drain(_), Ok(Outcome::Drained))
        | (UserCall::Close, Ok(Outcome::Closed { .. })) => Ok(()),
        (UserCall::Nonsense, Err(Error::InvalidOption { .. } | Error::Closed)) => Ok(()),
        (UserCall::Convert(_), Err(Error::Unsupported(_))) if one_mode => Ok(()),
        (UserCall::Convert(mode), Ok(_)) if one_mode && mode == Mode::Shared => wrong(),
        (UserCall::Acquire(_) | UserCall::Adopt(..), Err(Error::Cancelled)) if !op.cancelled => wrong(),
        // A script's answer is always understood. A server's own problems are retried or named.
        (_, Err(Error::Protocol(_) | Error::WrongKind(_) | Error::InvalidOption { .. } | Error::Auth(_))) => wrong(),
        (UserCall::Nonsense, _) => wrong(),
        (_, Err(_)) => Ok(()),
        _ => wrong(),
    }
}
