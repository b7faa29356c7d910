//! A lease that has ended on the server is never renewed. The end of each token's lease comes from the scripts'
//! answers.

use std::collections::HashMap;

use super::{Verdict, broken};
use crate::wire::Token;

/// When each token's lease ends, in the server's ms.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    until: HashMap<Token, u64>,
}

impl Terms {
    /// The server granted or extended a lease.
    pub(crate) fn set(&mut self, token: Token, now_ms: u64, ms: u64) {
        let until = self.until.entry(token).or_default();
        *until = (now_ms + ms).max(*until);
    }

    /// The server says that a token's lease is still valid.
    pub(crate) fn renewed(&mut self, token: Token, now_ms: u64, ms: u64) -> Verdict {
        let until = self.until.get(&token).copied().unwrap_or(0);
        self.set(token, now_ms, ms);
        if until + 1 < now_ms {
            return broken("ended-renewed", format!("{token:?} was renewed at {now_ms}, and had ended at {until}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_ended_or_never_was_is_not_renewed() {
        let token = Token { life: 1, count: 1 };
        let mut terms = Terms::default();
        terms.set(token, 1_000, 500);
        terms.renewed(token, 1_400, 500).unwrap();
        assert_eq!(terms.renewed(token, 2_000, 500).unwrap_err().invariant, "ended-renewed");
        assert!(terms.renewed(Token { life: 2, count: 1 }, 2_000, 500).is_err());
    }
}
