//! Local hand-overs are bounded once the client was told that others wait.

use std::time::Duration;

use leasehold_core::Instant;

use super::{Verdict, broken};
use crate::clock::Micros;
use crate::wire::Token;

/// How long hand-overs may go on once others are known to wait.
const AT_MOST: Duration = Duration::from_secs(1);

/// One client's time with one lock, from the server's grant on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tenure {
    /// Under which token.
    pub token: Option<Token>,
    /// Under which token it began; a conversion changes it.
    began_with: Option<Token>,
    /// The server lost its data under it.
    pub orphan: bool,
    /// What the server granted last, and when: told or not.
    pub last_grant: Option<(Token, Micros)>,
    /// The token that it was converted to last.
    pub last_converted: Option<Token>,
    /// Since when it is known that others wait.
    told: Option<Instant>,
    /// What came with a grant that may begin at the same moment, or is ignored.
    announced: Option<(Option<Token>, Instant)>,
    handed_over: u32,
}

impl Tenure {
    /// The client learnt that it holds by the server's grant.
    pub fn begin(&mut self, now: Instant, data_lost_at: Option<Micros>) {
        let token = self.last_grant.map(|(token, _)| token);
        let granted_at = self.last_grant.map_or(0, |(_, at)| at);
        *self = Self {
            token,
            began_with: token,
            orphan: data_lost_at.is_some_and(|lost| lost > granted_at),
            last_grant: self.last_grant,
            last_converted: None,
            told: self.announced.filter(|announced| *announced == (token, now)).map(|(_, at)| at),
            announced: None,
            handed_over: 0,
        };
    }

    /// Whether the server has granted this client nothing since.
    pub fn is_last_granted(&self) -> bool {
        self.last_grant.map(|(token, _)| token) == self.began_with
    }

    /// The token is another one after a conversion; all else goes on.
    pub fn converted(&mut self) {
        self.token = self.last_converted.or(self.token);
    }

    /// An answer or a message said that others wait: about a token, or about whoever holds.
    pub fn told(&mut self, now: Instant, about: Option<Token>) {
        match about {
            Some(_) if about != self.token => self.announced = Some((about, now)),
            _ => self.told = self.told.or(Some(now)),
        }
    }

    /// The client served a local caller without the server.
    pub fn handed_over(&mut self, now: Instant, most: u32, forbidden: bool) -> Verdict {
        if forbidden {
            return broken("budget", format!("handed over inside a client of a mixed fleet: {self:?}"));
        }
        let Some(told) = self.told else { return Ok(()) };
        self.handed_over += 1;
        if self.handed_over > most || now > told + AT_MOST {
            return broken("budget", format!("hand-over {} of {most} at {now:?}: {self:?}", self.handed_over));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_overs_past_the_number_or_the_time_are_seen_only_once_told() {
        let (start, token) = (Instant::from_micros(0), Token { life: 1, count: 1 });
        let mut tenure = Tenure { last_grant: Some((token, 0)), ..Tenure::default() };
        tenure.begin(start, None);
        (0..100).for_each(|_| tenure.handed_over(start, 2, false).unwrap());
        tenure.told(start, Some(token));
        tenure.handed_over(start, 2, false).unwrap();
        let mut late = tenure;
        assert_eq!(late.handed_over(start + Duration::from_millis(1001), 2, false).unwrap_err().invariant, "budget");
        tenure.handed_over(start, 2, false).unwrap();
        assert!(tenure.handed_over(start, 2, false).is_err());
    }
}
