//! FIFO between clients: the server grants in the order of its queue, and leaves no lock free while a client waits.
//!
//! This is a second queue, built only from the scripts' answers and the rules of the design.

use std::collections::VecDeque;

use leasehold_core::Mode;

use super::{Verdict, broken};
use crate::wire::Token;

/// The queue of one lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    waiters: VecDeque<Waiter>,
    /// Until when the server keeps the queue's key, in its ms.
    kept_until: u64,
    /// The script granted a writer, so it granted no further waiters.
    closed: bool,
}

/// A client that was told to wait.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    token: Token,
    mode: Mode,
    claim_ms: u64,
    /// Until when it counts as alive, in the server's ms.
    alive_until: u64,
}

impl Queue {
    /// A script begins.
    pub(crate) fn begins(&mut self, now_ms: u64) {
        self.closed = false;
        if self.waiters.is_empty() || self.kept_until < now_ms {
            self.waiters.clear();
            self.kept_until = 0;
        }
    }

    /// The queue's key lasts until then, as long as the tokens that were given up.
    pub(crate) fn lasts(&mut self, until_ms: u64) {
        self.kept_until = self.kept_until.max(until_ms);
    }

    /// A waiter calls, which first refreshes its record.
    pub(crate) fn calls(&mut self, token: Token, now_ms: u64, claim_ms: u64) {
        if let Some(waiter) = self.waiters.iter_mut().find(|waiter| waiter.token == token) {
            waiter.alive_until = now_ms + claim_ms;
            self.kept_until = self.kept_until.max(now_ms + claim_ms);
        }
    }

    /// A client that is told to wait joins at the end, unless it already waits.
    pub(crate) fn waits(&mut self, token: Token, mode: Mode, now_ms: u64, claim_ms: u64) {
        if self.waiters.iter().all(|waiter| waiter.token != token) {
            self.waiters.push_back(Waiter { token, mode, claim_ms, alive_until: now_ms + claim_ms });
            self.kept_until = self.kept_until.max(now_ms + claim_ms);
        }
    }

    /// A token was granted, so it must have been its turn. `message_ms` is the length of a grant by message.
    pub(crate) fn granted(&mut self, token: Token, now_ms: u64, message_ms: Option<u64>) -> Verdict {
        self.drop_dead(now_ms);
        let first = self.waiters.front().copied();
        self.closed = first.is_some_and(|first| first.mode == Mode::Exclusive);
        self.leaves(token);
        match first {
            None => Ok(()),
            Some(first) if first.token != token => {
                broken("fifo-remote", format!("{token:?} was granted before {first:?}"))
            }
            Some(first) if message_ms.is_some_and(|ms| ms > first.claim_ms) => {
                broken("claim", format!("{first:?} was granted for {message_ms:?} ms"))
            }
            Some(_) => Ok(()),
        }
    }

    /// A script that grants has ended. `value` is now the value of the lock's key.
    pub(crate) fn served(&mut self, now_ms: u64, value: Option<&str>) -> Verdict {
        if self.closed {
            return Ok(());
        }
        self.drop_dead(now_ms);
        match (self.waiters.front(), value) {
            (Some(first), None) => broken("unserved", format!("the lock is free, and {first:?} waits")),
            (Some(first), Some("shared")) if first.mode == Mode::Shared => {
                broken("unserved", format!("readers hold the lock, and {first:?} waits"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a token is in the queue.
    pub(crate) fn has(&self, token: Token) -> bool {
        self.waiters.iter().any(|waiter| waiter.token == token)
    }

    /// A token's place in the queue, or behind it.
    pub(crate) fn place(&self, token: Token) -> usize {
        self.waiters.iter().position(|waiter| waiter.token == token).unwrap_or(self.waiters.len())
    }

    /// The first live waiter.
    pub(crate) fn first_alive(&mut self, now_ms: u64) -> Option<Token> {
        self.drop_dead(now_ms);
        self.first()
    }

    /// Every grant drops the dead waiters at the head.
    fn drop_dead(&mut self, now_ms: u64) {
        while self.waiters.front().is_some_and(|first| first.alive_until <= now_ms) {
            self.waiters.pop_front();
        }
    }

    /// A waiter left.
    pub(crate) fn leaves(&mut self, token: Token) {
        self.waiters.retain(|waiter| waiter.token != token);
    }

    /// Only these waiters are left.
    pub(crate) fn keep(&mut self, waiting: &[Token]) {
        self.waiters.retain(|waiter| waiting.contains(&waiter.token));
    }

    /// The server lost the queue.
    pub(crate) fn data_lost(&mut self) {
        self.waiters.clear();
    }

    /// Whether the queue is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// The first waiter, dead or alive.
    pub(crate) fn first(&self) -> Option<Token> {
        self.waiters.front().map(|waiter| waiter.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Token = Token { life: 1, count: 1 };
    const B: Token = Token { life: 2, count: 1 };

    fn queue() -> Queue {
        let mut queue = Queue::default();
        queue.waits(A, Mode::Exclusive, 1_000, 300);
        queue.waits(B, Mode::Exclusive, 1_100, 300);
        queue
    }

    #[test]
    fn a_grant_past_a_live_waiter_is_seen() {
        assert_eq!(queue().granted(B, 1_200, None).unwrap_err().invariant, "fifo-remote");
        assert!(queue().granted(A, 1_200, None).is_ok());
    }

    #[test]
    fn a_dead_head_is_passed_and_a_late_one_that_calls_first_is_not() {
        assert!(queue().granted(B, 1_300, None).is_ok());
        let mut late = queue();
        late.calls(A, 1_350, 300);
        assert!(late.granted(B, 1_350, None).is_err());
    }

    #[test]
    fn a_free_lock_with_a_live_waiter_is_seen() {
        assert_eq!(queue().served(1_200, None).unwrap_err().invariant, "unserved");
        assert!(queue().served(1_200, Some("somebody")).is_ok());
        assert!(queue().served(1_500, None).is_ok());
    }

    #[test]
    fn a_message_grants_for_the_claim_window_at_most() {
        assert_eq!(queue().granted(A, 1_200, Some(301)).unwrap_err().invariant, "claim");
    }
}
