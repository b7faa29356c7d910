//! Waiters that no script grants. Every waiter for a reentrant lock asks again at each message on its channel, and
//! periodically. A semaphore's waiter also asks periodically. After its local hand-overs, a client lets other clients
//! in first.

use std::time::Duration;

use leasehold_core::Instant;

use super::{Verdict, broken};
use crate::wire::{AcquireMode, ScriptCommand, Status, Token};

/// After giving a lock to other clients, a client waits at least this long before it asks again.
const PAUSE: Duration = Duration::from_millis(10);

/// One client's wait for one lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Polling {
    /// The token that it asks with, and whether it knows that another client has the lock.
    asks: Option<(Token, bool)>,
    /// When it last sent a command about the lock.
    last: Option<Instant>,
    /// When it gave the lock to other clients.
    yielded: Option<Instant>,
    /// The token that it released then.
    gave: Option<Token>,
    /// How many commands it has sent.
    sent: u64,
}

impl Polling {
    /// The client sends a command. `holds` is the token with which it has the lock. `yields` means that it gives the
    /// lock to other clients.
    pub(crate) fn sends(
        &mut self,
        now: Instant,
        script: &ScriptCommand,
        holds: Option<Token>,
        yields: bool,
    ) -> Verdict {
        self.last = Some(now);
        self.sent += 1;
        match *script {
            ScriptCommand::Acquire { how: AcquireMode::Refill, .. } => {}
            ScriptCommand::Acquire { token, .. } if holds != Some(token) => {
                if self.asks.is_none_or(|(asks, _)| asks != token) {
                    self.asks = Some((token, false));
                }
                if let Some(since) = self.yielded.take()
                    && now < since + PAUSE
                {
                    return broken("pause", format!("asks again {:?} after it gave way", now.since(since)));
                }
            }
            ScriptCommand::Release { token, .. } => {
                self.asks = self.asks.filter(|(asks, _)| *asks != token);
                // The release may be sent again when the client already asks with the next token.
                if yields && self.asks.is_none() && self.gave.replace(token) != Some(token) {
                    self.yielded = Some(now);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// An answer to an acquire arrived.
    pub(crate) fn answered(&mut self, token: Token, status: Status) {
        match (&mut self.asks, status) {
            (Some((asks, busy)), Status::Busy) if *asks == token => *busy = true,
            (Some((asks, _)), _) if *asks == token => self.asks = None,
            _ => {}
        }
    }

    /// No caller waits any more.
    pub(crate) fn nobody_waits(&mut self) {
        (self.asks, self.yielded) = (None, None);
    }

    /// Whether it knows that another client has the lock, and how many commands it has sent.
    pub(crate) fn waits(&self) -> (bool, u64) {
        (self.asks.is_some_and(|(_, busy)| busy), self.sent)
    }

    /// Whether it asks with a token that holds nothing yet.
    pub(crate) fn asks(&self) -> bool {
        self.asks.is_some()
    }

    /// A caller has waited since then, so the client has to ask within this time.
    pub(crate) fn is_awake(&self, now: Instant, since: Instant, within: Duration) -> Verdict {
        let last = self.last.unwrap_or_default().max(since);
        if now.since(last) <= within {
            return Ok(());
        }
        broken("asleep", format!("waits since {since:?}, and has not asked for {:?}: {self:?}", now.since(last)))
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::Mode;

    use super::*;

    const A: Token = Token { life: 1, count: 1 };
    const B: Token = Token { life: 1, count: 2 };

    fn acquire(token: Token) -> ScriptCommand {
        ScriptCommand::Acquire {
            token,
            mode: Mode::Exclusive,
            permits: None,
            ttl_ms: 1_000,
            how: AcquireMode::Try,
            claim_ms: 300,
        }
    }

    fn at(ms: u64) -> Instant {
        Instant::from_micros(ms * 1_000)
    }

    #[test]
    fn a_waiter_that_has_not_asked_for_long_is_seen() {
        let mut polling = Polling::default();
        polling.sends(at(0), &acquire(A), None, false).unwrap();
        polling.is_awake(at(100), at(0), Duration::from_millis(100)).unwrap();
        let verdict = polling.is_awake(at(101), at(0), Duration::from_millis(100));
        assert_eq!(verdict.unwrap_err().invariant, "asleep");
    }

    #[test]
    fn a_client_that_asks_right_after_it_gave_way_is_seen() {
        let mut polling = Polling::default();
        polling
            .sends(
                at(0),
                &ScriptCommand::Release { token: A, tombstone: false, used_fence: 0, stores: None },
                Some(A),
                true,
            )
            .unwrap();
        assert_eq!(polling.clone().sends(at(9), &acquire(B), None, false).unwrap_err().invariant, "pause");
        polling.sends(at(10), &acquire(B), None, false).unwrap();
    }

    #[test]
    fn a_waiter_that_knows_of_the_holder_waits_for_a_message() {
        let mut polling = Polling::default();
        polling.sends(at(0), &acquire(A), None, false).unwrap();
        assert!(!polling.waits().0);
        polling.answered(A, Status::Busy);
        assert!(polling.waits().0);
        polling.answered(A, Status::Entered);
        assert!(!polling.waits().0);
    }
}
