//! The commands of a client: it asks for the next token in time, leaves the queue when no caller waits, and doesn't renew a
//! token that is being converted.

use std::time::Duration;

use leasehold_core::Instant;

use super::{Verdict, broken};
use crate::wire::{AcquireMode, ScriptCommand, Token};

/// One client's commands for one lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commands {
    /// Tokens that may be in the server's queue.
    joined: Vec<Token>,
    /// The token that it asks with while it holds another one, or none.
    asks: Option<Token>,
    /// When it gave such a token up.
    gave_up: Option<Instant>,
    /// The new token of an unanswered conversion.
    converting: Option<Token>,
    /// The token that last became a holder, by an answer or a message.
    granted: Option<Token>,
    /// Tokens that were granted before it, and may not be given back yet.
    spent: Vec<Token>,
    /// When the server last said anything about the lock.
    waiting_known_at: Instant,
    /// When it last asked whether others wait.
    refilled: Option<Instant>,
}

impl Commands {
    /// The client sends a command. `holds` is the token with which the client has the lock.
    pub(crate) fn sends(&mut self, now: Instant, script: &ScriptCommand, holds: Option<Token>) -> Verdict {
        match *script {
            ScriptCommand::Acquire { how: AcquireMode::Refill, .. } => self.refilled = Some(now),
            ScriptCommand::Acquire { token, how, .. } if holds != Some(token) => {
                self.asks = Some(token);
                if how == AcquireMode::Wait && !self.joined.contains(&token) {
                    self.joined.push(token);
                }
            }
            ScriptCommand::Release { token, .. } => {
                self.joined.retain(|joined| *joined != token);
                if self.asks == Some(token) {
                    (self.asks, self.gave_up) = (None, Some(now));
                }
            }
            ScriptCommand::Convert { old, new, .. } => {
                self.converting = Some(old);
                if old == new {
                    return broken("convert-token", format!("{old:?} keeps its token in a conversion"));
                }
            }
            ScriptCommand::Renew { token, .. } if self.converting == Some(token) => {
                return broken("convert-pauses", format!("{token:?} is renewed while it is being converted"));
            }
            _ => {}
        }
        Ok(())
    }

    /// An answer or a message says that one of its tokens holds. A token that was given up does not count.
    pub(crate) fn granted(&mut self, token: Token) {
        if self.asks == Some(token) || self.joined.contains(&token) {
            self.spent.extend(self.granted.replace(token).filter(|before| *before != token));
        }
    }

    /// The token that last became a holder.
    pub(crate) fn is_granted(&self) -> Option<Token> {
        self.granted
    }

    /// A caller holds with the token that was granted last.
    pub(crate) fn begins(&mut self, now: Instant) {
        self.waiting_known_at = now;
        self.joined.retain(|joined| Some(*joined) != self.granted);
        self.asks = self.asks.filter(|asks| Some(*asks) != self.granted);
    }

    /// The server said that a token is gone.
    pub(crate) fn is_gone(&mut self, token: Token) {
        self.joined.retain(|joined| *joined != token);
    }

    /// The server said something about the lock.
    pub(crate) fn note_waiting(&mut self, now: Instant) {
        self.waiting_known_at = now;
    }

    /// No conversion is unanswered any more.
    pub(crate) fn converted(&mut self) {
        self.converting = None;
    }

    /// No caller waits, so none of its tokens may be left in the queue. One that was granted is not there any more, and its
    /// release may wait for a batch.
    pub(crate) fn nobody_waits(&mut self, batches: bool) -> Verdict {
        self.asks = None;
        let is_granted = |token: &&Token| Some(**token) == self.granted || self.spent.contains(token);
        match self.joined.iter().find(|token| !batches || !is_granted(token)) {
            Some(token) => {
                broken("left-behind", format!("no caller waits, but {token:?} was not taken out of the queue"))
            }
            None => Ok(()),
        }
    }

    /// The held token can't serve the waiting callers, so the client has to ask with the next one.
    pub(crate) fn must_ask(&self, now: Instant, claim: Duration) -> Verdict {
        let just_gave_up = self.gave_up.is_some_and(|at| now.since(at) <= claim / 3);
        if self.asks.is_some() || self.converting.is_some() || just_gave_up {
            return Ok(());
        }
        broken("next-unasked", format!("no next token is asked for at {now:?}: {self:?}"))
    }

    /// The client has handed over locally, and doesn't know whether other clients wait. It has to ask regularly.
    pub(crate) fn must_have_heard(&self, now: Instant, claim: Duration, response: Duration) -> Verdict {
        let asked = self.refilled.is_some_and(|at| now.since(at) <= claim * 2 / 3 + response);
        if asked || now.since(self.waiting_known_at) <= claim / 3 + Duration::from_millis(1) {
            return Ok(());
        }
        broken("unheard", format!("handed over at {now:?} without commands whether others wait: {self:?}"))
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::Mode;

    use super::*;

    const A: Token = Token { life: 1, count: 1 };
    const B: Token = Token { life: 1, count: 2 };
    const CLAIM: Duration = Duration::from_millis(300);

    fn acquire(token: Token, how: AcquireMode) -> ScriptCommand {
        ScriptCommand::Acquire { token, mode: Mode::Exclusive, permits: None, ttl_ms: 1_000, how, claim_ms: 300 }
    }

    fn at(ms: u64) -> Instant {
        Instant::from_micros(ms * 1_000)
    }

    #[test]
    fn a_token_that_nobody_waits_with_and_that_stays_in_the_queue_is_seen() {
        let mut commands = Commands::default();
        commands.sends(at(0), &acquire(A, AcquireMode::Try), None).unwrap();
        commands.nobody_waits(false).unwrap();
        commands.sends(at(1), &acquire(B, AcquireMode::Wait), None).unwrap();
        assert_eq!(commands.clone().nobody_waits(false).unwrap_err().invariant, "left-behind");
        commands
            .sends(at(2), &ScriptCommand::Release { token: B, tombstone: false, used_fence: 0, stores: None }, None)
            .unwrap();
        commands.nobody_waits(false).unwrap();
    }

    #[test]
    fn a_spent_token_without_a_next_one_is_seen() {
        let mut commands = Commands::default();
        assert_eq!(commands.must_ask(at(0), CLAIM).unwrap_err().invariant, "next-unasked");
        commands.sends(at(1), &acquire(B, AcquireMode::Try), Some(A)).unwrap();
        commands.must_ask(at(2), CLAIM).unwrap();
        commands.granted(B);
        commands.begins(at(3));
        assert!(commands.must_ask(at(4), CLAIM).is_err());
    }

    #[test]
    fn hand_overs_for_long_without_a_word_are_seen() {
        let mut commands = Commands::default();
        commands.sends(at(0), &acquire(A, AcquireMode::Wait), None).unwrap();
        commands.granted(A);
        commands.begins(at(0));
        commands.must_have_heard(at(100), CLAIM, CLAIM).unwrap();
        assert_eq!(commands.must_have_heard(at(102), CLAIM, CLAIM).unwrap_err().invariant, "unheard");
        commands.sends(at(102), &acquire(A, AcquireMode::Refill), Some(A)).unwrap();
        commands.must_have_heard(at(102), CLAIM, CLAIM).unwrap();
        assert!(commands.must_have_heard(at(603), CLAIM, CLAIM).is_err());
    }

    #[test]
    fn a_convert_that_keeps_its_token_and_a_renewal_beside_it_are_seen() {
        let convert = |new| ScriptCommand::Convert {
            old: A,
            new,
            mode: Mode::Shared,
            ttl_ms: 1_000,
            tombstone: false,
            used_fence: 0,
        };
        let renew = ScriptCommand::Renew { token: A, ttl_ms: 1_000 };
        let mut commands = Commands::default();
        assert_eq!(commands.sends(at(0), &convert(A), Some(A)).unwrap_err().invariant, "convert-token");
        commands.sends(at(0), &convert(B), Some(A)).unwrap();
        assert_eq!(commands.sends(at(1), &renew, Some(A)).unwrap_err().invariant, "convert-pauses");
        commands.converted();
        commands.sends(at(2), &renew, Some(A)).unwrap();
    }
}
