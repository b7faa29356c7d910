//! A token that was given up never comes back, even if some of its commands are still on their way.

use std::collections::HashMap;

use leasehold_harness::Micros;

use super::{Verdict, broken};
use crate::wire::Token;

/// How late a command may be: as long as a tombstone lasts, less what clocks differ by.
const TOMBSTONE: Micros = 59_000_000;

/// The tokens whose release or conversion was answered.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    given_up: HashMap<Token, Micros>,
    /// When the server lost its tombstones.
    pub(crate) lost_at: Option<Micros>,
}

impl Tokens {
    /// The client learnt that its token is given up, from the answer to a command sent at `sent`.
    pub(crate) fn given_up(&mut self, now: Micros, sent: Micros, token: Token) {
        if self.lost_at.is_none_or(|lost| lost < sent) {
            self.given_up.entry(token).or_insert(now);
        }
    }

    /// The server has a token as a holder or a waiter.
    pub(crate) fn seen(&self, now: Micros, token: Token, how: &str) -> Verdict {
        match self.given_up.get(&token) {
            Some(since) if now - since < TOMBSTONE => {
                broken("token-returns", format!("{token:?} {how}, and was given up {} ms ago", (now - since) / 1000))
            }
            _ => Ok(()),
        }
    }

    /// The server lost its tombstones.
    pub(crate) fn data_lost(&mut self, now: Micros) {
        self.given_up.clear();
        self.lost_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_comes_back_within_a_tombstones_life_is_seen() {
        let token = Token { life: 3, count: 9 };
        let mut tokens = Tokens::default();
        tokens.seen(0, token, "waits").unwrap();
        tokens.given_up(1_000_000, 900_000, token);
        assert_eq!(tokens.seen(50_000_000, token, "waits").unwrap_err().invariant, "token-returns");
        tokens.seen(61_000_000, token, "waits").unwrap();
    }

    #[test]
    fn a_token_given_up_before_the_tombstones_were_lost_may_return() {
        let token = Token { life: 3, count: 9 };
        let mut tokens = Tokens::default();
        tokens.data_lost(950_000);
        tokens.given_up(1_000_000, 900_000, token);
        tokens.seen(1_100_000, token, "waits").unwrap();
        tokens.given_up(1_200_000, 1_150_000, token);
        assert!(tokens.seen(1_300_000, token, "waits").is_err());
    }
}
