//! Local hand-overs are limited once the client knows that others wait.

use std::time::Duration;

use leasehold_core::{Config, Instant};
use leasehold_harness::Micros;

use super::{Verdict, broken};
use crate::wire::Token;

/// How long hand-overs may go on once the client knows that others wait.
const AT_MOST: Duration = Duration::from_secs(1);

/// How often a client may hand over once it knows that others wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    most: u32,
    /// For how long it may hand over more often.
    uncounted: Duration,
}

impl Limit {
    pub(crate) fn of(config: &Config) -> Self {
        let (most, uncounted) =
            config.local_handoffs.map_or((32, Duration::from_millis(5)), |most| (most, Duration::ZERO));
        Self { most, uncounted }
    }

    /// Whether so many hand-overs are too many now.
    fn is_passed(self, handed_over: u32, now: Instant, told: Instant) -> bool {
        handed_over > self.most && (self.uncounted.is_zero() || now > told + self.uncounted)
    }
}

/// How long a client may hand over a lease that its server has not confirmed.
const UNCONFIRMED: Duration = Duration::from_secs(1);

/// The server's last grant to a token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerGrant {
    /// The token.
    pub(crate) token: Token,
    /// When.
    pub(crate) at: Micros,
    /// The same by the server's clock.
    pub(crate) server_us: u64,
}

/// One client's time with one lock, from the server's grant on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hold {
    /// The current token.
    pub(crate) token: Option<Token>,
    /// The token with which it began. A conversion changes it.
    began_with: Option<Token>,
    /// The server has lost its data.
    pub(crate) orphan: bool,
    /// The server's last grants to different tokens, the newest first, whether the client knows or not.
    grants: [Option<ServerGrant>; 4],
    /// A token that the server granted again after it had lost it.
    pub(crate) granted_anew: Option<Token>,
    /// The last conversion.
    pub(crate) last_converted: Option<ServerGrant>,
    /// When the client was told that others wait.
    told: Option<Instant>,
    /// The same, if the client can't have ignored it.
    surely_told: Option<Instant>,
    /// The client already held when it was told. Timers that were due before may still hand over at that moment.
    told_while_held: bool,
    /// When a message last said that others wait.
    wanted: Option<Instant>,
    /// It may have been told before its first holder began.
    told_before: bool,
    /// What came with a grant that may begin at the same moment, or be ignored.
    announced: Option<(Option<Token>, Instant)>,
    handed_over: u32,
    /// A holder was notified of a loss.
    lost: bool,
    /// When a holder released its lease.
    left: Option<Instant>,
    /// The client has given this token back, or has converted its lease. Its readers go on with another token.
    gave_back: Option<Token>,
    /// The greatest server time at which the client knows that its token held.
    known_us: u64,
    /// The same for a token that does not hold yet.
    answered: Option<(Token, u64)>,
    /// When the server last confirmed to the client that it holds.
    confirmed: Instant,
    /// The token for which the client was told of one waiter, which may be the client itself.
    perhaps: Option<Token>,
    /// How long the lease may be kept after its newest holder.
    linger: Option<Duration>,
    /// When another client's try was last heard of, since the newest holder.
    tried: Option<Instant>,
    /// When a local caller last gave up waiting. The lease is kept for it until then, and lingers from then on.
    gave_up: Option<Instant>,
    /// The client has sent a release of the token.
    released: bool,
}

/// How long a lease that should have ended may take to be given back.
const SOON: Duration = Duration::from_millis(100);

impl Hold {
    /// The server granted a token of the client. `entered` means that it did not hold before.
    pub(crate) fn server_granted(&mut self, grant: ServerGrant, entered: bool) {
        if entered && self.grants.iter().flatten().any(|before| before.token == grant.token) {
            self.granted_anew = Some(grant.token);
        }
        let same = self.grants.iter().position(|it| it.is_some_and(|before| before.token == grant.token));
        self.grants[..=same.unwrap_or(3)].rotate_right(1);
        self.grants[0] = Some(grant);
    }

    /// The last grant of a token, by an acquire or a conversion, if it was recent.
    pub(crate) fn last_granted(&self, token: Token) -> Option<ServerGrant> {
        self.grants.iter().chain([&self.last_converted]).flatten().find(|grant| grant.token == token).copied()
    }

    /// The client learnt from the server's grant of a token that it holds.
    pub(crate) fn begin(&mut self, now: Instant, token: Option<Token>, data_lost_at: Option<Micros>) {
        let token = token.or(self.grants[0].map(|grant| grant.token));
        let grant = token.and_then(|token| self.last_granted(token));
        let told = self.announced.filter(|announced| *announced == (token, now)).map(|(_, at)| at);
        let answered = self.answered.filter(|(about, _)| Some(*about) == token).map_or(0, |(_, at)| at);
        let granted_at = grant.map_or(0, |grant| grant.at);
        *self = Self {
            token,
            began_with: token,
            // A token that was granted again may belong to the grant before the data loss.
            // Data can also be lost in the very microsecond of the grant.
            orphan: data_lost_at
                .is_some_and(|lost| lost >= granted_at || (token.is_some() && self.granted_anew == token)),
            granted_anew: self.granted_anew,
            grants: self.grants,
            last_converted: None,
            told,
            surely_told: told,
            told_while_held: false,
            told_before: self.announced.is_some_and(|(about, _)| about == token)
                || self.wanted.is_some_and(|at| now.since(at) < 2 * AT_MOST),
            wanted: None,
            announced: None,
            handed_over: 0,
            lost: false,
            left: None,
            gave_back: None,
            known_us: grant.map_or(0, |grant| grant.server_us).max(answered),
            answered: None,
            confirmed: now,
            perhaps: self.perhaps,
            linger: None,
            tried: None,
            gave_up: None,
            released: false,
        };
    }

    /// A holder begins. Its lease may linger for this long after it.
    pub(crate) fn used(&mut self, linger: Option<Duration>) {
        (self.linger, self.tried) = (linger, None);
    }

    /// A message said that another client tried to get the lock.
    pub(crate) fn tried(&mut self, now: Instant) {
        self.tried = self.tried.or(Some(now));
    }

    /// Nobody has held the lease since `idle`, and the server still has it.
    pub(crate) fn is_idle(&self, now: Instant, idle: Instant) -> Verdict {
        let asked = [self.surely_told, self.tried].into_iter().flatten().min();
        let idle = self.gave_up.map_or(idle, |at| at.max(idle));
        // After a loss, the token must not be used any more.
        let ends = idle + self.linger.filter(|_| !self.lost).unwrap_or_default();
        let ends = asked.map_or(ends, |asked| ends.min(asked.max(idle)));
        if self.released || now <= ends + SOON {
            return Ok(());
        }
        broken("lingers", format!("kept at {now:?} although nobody has held it since {idle:?}: {self:?}"))
    }

    /// A local caller gave up waiting.
    pub(crate) fn gave_up(&mut self, now: Instant) {
        self.gave_up = Some(now);
    }

    /// An answer about a token said that one client waits, which may be the client itself.
    pub(crate) fn perhaps_told(&mut self, token: Token) {
        // A late answer about an earlier token changes nothing.
        if self.perhaps.is_none_or(|known| known.count <= token.count) {
            self.perhaps = Some(token);
        }
    }

    /// A holder was notified of a loss.
    pub(crate) fn lost(&mut self) {
        self.lost = true;
    }

    /// Whether a holder was notified of a loss.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// A holder releases its lease.
    pub(crate) fn left(&mut self, now: Instant) {
        self.left = Some(now);
    }

    /// Whether a holder releases its lease at this very moment. Overdue timers run before that, and find it held.
    pub(crate) fn is_left(&self, now: Instant) -> bool {
        self.left == Some(now)
    }

    /// The client gives a token back.
    pub(crate) fn gives_back(&mut self, token: Token) {
        self.gave_back = Some(token);
        self.released |= self.token == Some(token);
    }

    /// A release of this token was left undone, so it must be sent again.
    pub(crate) fn left_undone(&mut self, token: Token) {
        self.released &= self.token != Some(token);
    }

    /// An answer said that a conversion has moved the lease from this token to another one.
    pub(crate) fn moved_from(&mut self, token: Token) {
        self.gave_back = Some(token);
    }

    /// Whether the client holds with this token, as far as is known.
    pub(crate) fn holds_by(&self, token: Token) -> bool {
        self.token == Some(token) && self.gave_back != Some(token)
    }

    /// An answer granted the held token. Returns true if it was entered anew, so that it was not held in between.
    pub(crate) fn is_anew(&mut self, token: Token, entered: bool, server_us: u64) -> bool {
        if self.token != Some(token) {
            let before = self.answered.filter(|(about, _)| *about == token).map_or(0, |(_, at)| at);
            self.answered = Some((token, before.max(server_us)));
            return false;
        }
        let newer = server_us > self.known_us;
        self.known_us = self.known_us.max(server_us);
        newer && entered
    }

    /// Whether the client has certainly not been told that others wait.
    pub(crate) fn is_untold(&self) -> bool {
        self.told.is_none() && !self.told_before && (self.perhaps.is_none() || self.perhaps != self.token)
    }

    /// Whether no more hand-overs are allowed.
    pub(crate) fn is_spent(&self, now: Instant, limit: Limit) -> bool {
        let next = self.handed_over.saturating_add(1);
        let spent = |told| (self.told == Some(told) && limit.is_passed(next, now, told)) || now > told + AT_MOST;
        self.surely_told.is_some_and(spent)
    }

    /// Whether it began with this token, so that the client knows of no other token granted since.
    pub(crate) fn began_with(&self, token: Option<Token>) -> bool {
        self.began_with == token
    }

    /// After a conversion the token is different, and what came with it counts. Everything else goes on.
    pub(crate) fn converted(&mut self) {
        self.token = self.last_converted.map(|grant| grant.token).or(self.token);
        if let Some((about, at)) = self.announced
            && about == self.token
            && self.told.is_none()
        {
            (self.told, self.told_while_held) = (Some(at), true);
        }
    }

    /// An answer or a message said that others wait: about a token, or about any holder. While the client converts its
    /// lease, it may ignore this, because the answer to the conversion says how many wait.
    pub(crate) fn told(&mut self, now: Instant, about: Option<Token>, converting: bool) {
        if !converting && (about.is_none() || about == self.token) {
            self.surely_told = self.surely_told.or(Some(now));
        }
        if about.is_none() {
            self.wanted = Some(now);
        }
        match about {
            Some(_) if about != self.token => self.announced = Some((about, now)),
            _ if converting => {}
            _ if self.told.is_none() => (self.told, self.told_while_held) = (Some(now), true),
            _ => {}
        }
    }

    /// A token was granted while nobody waited. What was said about an earlier grant of it is over.
    pub(crate) fn nobody_waits(&mut self, token: Token) {
        self.announced = self.announced.filter(|(about, _)| *about != Some(token));
    }

    /// An answer said that a token holds, perhaps after a conversion whose result arrives only now.
    pub(crate) fn confirmed(&mut self, now: Instant, token: Token, converted: bool) {
        if converted || self.token == Some(token) {
            self.confirmed = now;
        }
    }

    /// The client served a local caller without the server.
    pub(crate) fn handed_over(&mut self, now: Instant, limit: Limit, forbidden: bool) -> Verdict {
        if forbidden {
            return broken("budget", format!("handed over inside a client of a mixed fleet: {self:?}"));
        }
        if self.lost {
            return broken("handed-on", format!("handed over at {now:?} after a loss: {self:?}"));
        }
        if now.since(self.confirmed) >= UNCONFIRMED {
            return broken(
                "unconfirmed",
                format!("handed over at {now:?}, long after the server's last confirmation: {self:?}"),
            );
        }
        let Some(told) = self.told else { return Ok(()) };
        if self.told_while_held && now == told {
            return Ok(());
        }
        self.handed_over += 1;
        if limit.is_passed(self.handed_over, now, told) || now > told + AT_MOST {
            return broken("budget", format!("hand-over {} at {now:?}, {limit:?}: {self:?}", self.handed_over));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_whose_holder_lost_and_that_is_handed_on_is_seen() {
        let (mut hold, limit) = (Hold::default(), Limit::of(&Config::default()));
        hold.begin(Instant::from_micros(0), None, None);
        hold.handed_over(Instant::from_micros(1), limit, false).unwrap();
        hold.lost();
        assert_eq!(hold.handed_over(Instant::from_micros(2), limit, false).unwrap_err().invariant, "handed-on");
        hold.begin(Instant::from_micros(3), None, None);
        hold.handed_over(Instant::from_micros(4), limit, false).unwrap();
    }

    #[test]
    fn a_token_that_is_entered_after_it_was_known_to_hold_was_lost_in_between() {
        let (token, other) = (Token { life: 1, count: 2 }, Token { life: 1, count: 1 });
        let mut hold = Hold::default();
        assert!(!hold.is_anew(token, false, 20));
        for at in [20, 30, 40] {
            hold.server_granted(ServerGrant { token: if at == 20 { token } else { other }, at, server_us: at }, true);
            hold.server_granted(ServerGrant { token: Token { life: 1, count: at }, at, server_us: at }, true);
        }
        hold.begin(Instant::from_micros(50), Some(token), None);
        assert!(!hold.is_anew(token, true, 10), "an older answer that comes late");
        assert!(hold.is_anew(token, true, 60));
    }

    #[test]
    fn a_token_that_is_granted_again_is_judged_by_its_last_grant() {
        let (at, token) = (Instant::from_micros(5), Token { life: 1, count: 1 });
        let mut hold = Hold::default();
        hold.told(at, Some(token), false);
        let mut earlier = hold;
        earlier.begin(at, Some(token), None);
        let limit = Limit { most: 0, uncounted: Duration::ZERO };
        assert!(earlier.is_spent(at, limit), "its only grant said that others wait");
        hold.nobody_waits(token);
        hold.begin(at, Some(token), None);
        assert!(!hold.is_spent(at, limit));
    }

    #[test]
    fn hand_overs_past_the_number_or_the_time_are_seen_only_once_told() {
        let (start, token) = (Instant::from_micros(0), Token { life: 1, count: 1 });
        let limit = Limit { most: 2, uncounted: Duration::ZERO };
        let mut hold = Hold::default();
        hold.begin(start, Some(token), None);
        (0..100).for_each(|_| hold.handed_over(start, limit, false).unwrap());
        hold.told(start, Some(token), false);
        let start = start + Duration::from_millis(1);
        hold.handed_over(start, limit, false).unwrap();
        let mut late = hold;
        let after = start + Duration::from_millis(1001);
        late.confirmed(after, token, false);
        assert_eq!(late.handed_over(after, limit, false).unwrap_err().invariant, "budget");
        hold.handed_over(start, limit, false).unwrap();
        assert!(hold.handed_over(start, limit, false).is_err());
    }

    #[test]
    fn without_the_option_the_number_counts_only_after_its_time() {
        let (start, token) = (Instant::from_micros(0), Token { life: 1, count: 1 });
        let limit = Limit::of(&Config::default());
        let mut hold = Hold::default();
        hold.begin(start, Some(token), None);
        hold.told(start, Some(token), false);
        let at = start + Duration::from_millis(5);
        (0..100).for_each(|_| hold.handed_over(at, limit, false).unwrap());
        assert!(!hold.is_spent(at, limit));
        let after = at + Duration::from_micros(1);
        assert!(hold.is_spent(after, limit));
        assert_eq!(hold.handed_over(after, limit, false).unwrap_err().invariant, "budget");
    }
}
