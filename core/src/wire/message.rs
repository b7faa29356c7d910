//! Messages that other clients' scripts publish on this client's channel.

use crate::time::Duration;

use crate::ids::Token;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// A waiting token of ours was granted.
    Grant(Granted<'a>),
    /// Another client waits for a lock that we hold.
    Wanted { key: &'a str },
    /// Another client tried to get a lock that we hold, and does not wait.
    Tried { key: &'a str },
    /// A once that we wait for has a result.
    Done { key: &'a str },
    /// A waiting token of ours is the first now. It can be granted after this time.
    Next { token: Token, left: Duration, key: &'a str },
    /// An operator took a lock that we hold.
    Revoked { client: &'a str, token: Token, key: &'a str },
}

/// A term of an election, as the server tells it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Term<'a> {
    pub(crate) fence: u64,
    /// How long it lasts, unless the leader renews it. 0 if it is over.
    pub(crate) left: Duration,
    /// How long it has lasted.
    pub(crate) led: Duration,
    pub(crate) value: &'a str,
}

impl<'a> Term<'a> {
    /// Parses `<fence> <value>`, which was true at the server's time `server`.
    pub(crate) fn read(said: &'a str, server: u64, left: u64) -> Option<Self> {
        let mut words = Words(said);
        let fence = words.number()?;
        Self::of(fence, server, left, words.0)
    }

    /// Parses a payload: `leader <fence> <server µs> <ms> <value>`.
    pub(crate) fn published(payload: &'a [u8]) -> Option<Self> {
        let mut words = Words(core::str::from_utf8(payload).ok()?.strip_prefix("leader ")?);
        let (fence, server, left) = (words.number()?, words.number()?, words.number()?);
        Self::of(fence, server, left, words.0)
    }

    #[inline(never)]
    fn of(fence: u64, server: u64, left: u64, value: &'a str) -> Option<Self> {
        let fence = super::answer::fence(fence, 1)?;
        let (left, led) = (super::answer::time_left(Some(left))??, Duration::from_micros(server.saturating_sub(fence)));
        Some(Self { fence, left, led, value })
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.left.is_zero()
    }

    /// Its place in the order of what observers can learn.
    pub(crate) const fn place(&self) -> (u64, bool) {
        (self.fence, self.is_over())
    }
}

/// What is left of a payload, whose words have a space behind them.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    #[inline(never)]
    fn word(&mut self) -> Option<&'a str> {
        let (word, rest) = self.0.split_once(' ')?;
        self.0 = rest;
        Some(word)
    }

    #[inline(never)]
    fn number(&mut self) -> Option<u64> {
        self.word()?.parse().ok()
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Granted<'a> {
    /// The client id of the token, as text.
    pub(crate) client: &'a str,
    pub(crate) token: Token,
    pub(crate) fence: u64,
    pub(crate) block: u64,
    /// The server's time of the grant in µs.
    pub(crate) server: u64,
    pub(crate) ttl: Duration,
    pub(crate) waiting: u64,
    pub(crate) key: &'a str,
}

impl<'a> Message<'a> {
    /// Parses a payload. None if it is not one of ours.
    pub(crate) fn read(payload: &'a [u8]) -> Option<Self> {
        let text = core::str::from_utf8(payload).ok()?;
        if let Some(key) = text.strip_prefix("wanted ") {
            return Some(Self::Wanted { key });
        }
        if let Some(key) = text.strip_prefix("tried ") {
            return Some(Self::Tried { key });
        }
        if let Some(key) = text.strip_prefix("done ") {
            return Some(Self::Done { key });
        }
        if let Some(rest) = text.strip_prefix("next ") {
            let mut words = Words(rest);
            let (_, counter) = words.word()?.split_once(':')?;
            let (token, left) = (Token(counter.parse().ok()?), super::answer::time_left(Some(words.number()?))??);
            return Some(Self::Next { token, left, key: words.0 });
        }
        if let Some(rest) = text.strip_prefix("revoked ") {
            let mut words = Words(rest);
            let (client, counter) = words.word()?.split_once(':')?;
            let key = words.0;
            return Some(Self::Revoked { client, token: Token(counter.parse().ok()?), key });
        }
        // The key comes last because it may contain spaces.
        let mut words = Words(text.strip_prefix("grant ")?);
        let (client, counter) = words.word()?.split_once(':')?;
        let token = Token(counter.parse().ok()?);
        // The mode. It is known from the token.
        words.word()?;
        let (fence, block, server) = (words.number()?, words.number()?, words.number()?);
        let fence = super::answer::fence(fence, block)?;
        let (ttl, waiting) = (super::answer::time_left(Some(words.number()?))??, words.number()?);
        let key = words.0;
        Some(Self::Grant(Granted { client, token, fence, block, server, ttl, waiting, key }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_read_even_if_the_name_has_spaces() {
        let payload = b"grant 0-1:7 shared 99 33 1700000000000000 3000 2 my lock";
        let Some(Message::Grant(grant)) = Message::read(payload) else { panic!("no grant") };
        assert_eq!((grant.client, grant.token), ("0-1", Token(7)));
        assert_eq!((grant.fence, grant.block, grant.ttl, grant.waiting), (99, 33, Duration::from_secs(3), 2));
        assert_eq!(grant.key, "my lock");
    }

    #[test]
    fn foreign_payloads_are_ignored() {
        for payload in [
            &b"grant"[..],
            b"grant x exclusive 1 1 1 1 1 n",
            b"grant a:b:1 exclusive 1 1 1 1 1 n",
            b"revoked a:b:1 n",
            b"wante n",
            b"\xff\xfe",
            b"",
            b"grant a:1 exclusive 1",
        ] {
            assert_eq!(Message::read(payload), None);
        }
    }
}
