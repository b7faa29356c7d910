//! Progress: a free lock that is wanted is granted soon, and the first waiter gets its turn.

use leasehold_harness::Micros;

use super::{Verdict, broken};
use crate::wire::Token;

/// How long clients have waited for one lock without a grant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    vacant_since: Option<Micros>,
    free_since: Option<Micros>,
    head: Option<(Token, Micros)>,
}

/// The first waiter in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// Its token.
    pub(crate) token: Token,
    /// Since when nothing has kept it from its server.
    pub(crate) calm_since: Micros,
    /// Whether a client that drains holds the lock. Its users may go on until the drain is over.
    pub(crate) kept: bool,
}

/// How long waiting may take without faults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// A lock without a valid holder: a dead holder's TTL, a dead waiter's claim window, and some slack.
    pub(crate) vacant: Micros,
    /// A lock that is free on the server, once its first waiter has been first for a claim window.
    pub(crate) heir: (Micros, Micros),
    /// The first waiter, while others hold: their holds, the local hand-overs, and the times above.
    pub(crate) head: Micros,
}

impl Progress {
    /// A client got the lock. It may hold it for less than the interval between checks.
    pub(crate) fn granted(&mut self) {
        self.vacant_since = None;
    }

    /// Checks the lock: whether a working client wants it, whether any lease of it is valid, who is first in the queue,
    /// and whether its key is on the server. Nothing has gone wrong since `calm_since`.
    pub(crate) fn check(
        &mut self,
        now: Micros,
        calm_since: Micros,
        (wanted, valid, free): (bool, bool, bool),
        head: Option<Head>,
        bounds: Bounds,
    ) -> Verdict {
        self.vacant_since = if wanted && !valid { self.vacant_since.or(Some(now)) } else { None };
        self.head = match (head, self.head) {
            (Some(head), Some((before, since))) if head.token == before && !head.kept => Some((before, since)),
            (Some(head), _) => Some((head.token, now)),
            (None, _) => None,
        };
        self.free_since = if free && self.head.is_some() { self.free_since.or(Some(now)) } else { None };
        let (heir, claim) = bounds.heir;
        // Others may have died in the meantime, and then the lock becomes free without a message.
        if let (Some(free), Some((token, since)), Some(head)) = (self.free_since, self.head, head)
            && since.max(head.calm_since) + claim < free
            && now - free > heir
        {
            let ms = (now - free) / 1000;
            return broken("heirless", format!("{token:?} is first, and has not asked for the free lock for {ms} ms"));
        }
        let waited = |since: Micros| now.saturating_sub(since.max(calm_since));
        if let Some(since) = self.vacant_since.filter(|since| waited(*since) > bounds.vacant) {
            let ms = (now - since) / 1000;
            return broken("stranded", format!("wanted, and not validly held for {ms} ms (bound {bounds:?})"));
        }
        if let Some((token, since)) = self.head.filter(|(_, since)| waited(*since) > bounds.head) {
            let ms = (now - since) / 1000;
            return broken("starved", format!("{token:?} has been first in the queue for {ms} ms (bound {bounds:?})"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { vacant: 1_000, heir: (300, 2_000), head: 5_000 };

    #[test]
    fn a_lock_that_nobody_gets_is_seen_unless_something_went_wrong_lately() {
        let mut progress = Progress::default();
        progress.check(0, 0, (true, false, false), None, BOUNDS).unwrap();
        progress.check(1_001, 500, (true, false, false), None, BOUNDS).unwrap();
        let verdict = progress.check(1_501, 500, (true, false, false), None, BOUNDS);
        assert_eq!(verdict.unwrap_err().invariant, "stranded");
    }

    #[test]
    fn a_head_that_leaves_a_free_lock_alone_is_seen() {
        let mut progress = Progress::default();
        let head = Some(Head { token: Token { life: 1, count: 1 }, calm_since: 0, kept: false });
        progress.check(0, 0, (true, true, false), head, BOUNDS).unwrap();
        progress.check(3_000, 0, (true, false, true), head, BOUNDS).unwrap();
        let verdict = progress.check(3_301, 0, (true, false, true), head, BOUNDS);
        assert_eq!(verdict.unwrap_err().invariant, "heirless");
    }

    #[test]
    fn a_head_that_is_passed_over_by_local_hand_overs_is_seen() {
        let mut progress = Progress::default();
        let head = Some(Head { token: Token { life: 1, count: 1 }, calm_since: 0, kept: false });
        progress.check(0, 0, (true, true, false), head, BOUNDS).unwrap();
        assert_eq!(progress.check(5_001, 0, (true, true, false), head, BOUNDS).unwrap_err().invariant, "starved");
    }

    #[test]
    fn a_head_waits_for_its_turn_from_the_end_of_a_drain_on() {
        let mut progress = Progress::default();
        let head = |kept| Some(Head { token: Token { life: 1, count: 1 }, calm_since: 0, kept });
        progress.check(0, 0, (true, true, false), head(false), BOUNDS).unwrap();
        progress.check(4_000, 0, (true, true, false), head(true), BOUNDS).unwrap();
        progress.check(9_000, 0, (true, true, false), head(false), BOUNDS).unwrap();
        assert_eq!(
            progress.check(9_001, 0, (true, true, false), head(false), BOUNDS).unwrap_err().invariant,
            "starved"
        );
    }
}
