//! Messages that other clients' scripts publish on this client's channel.

use core::time::Duration;

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
        let (fence, value) = said.split_once(' ')?;
        let fence = super::answer::fence(fence.parse().ok()?, 1)?;
        let led = Duration::from_micros(server.saturating_sub(fence));
        Some(Self { fence, left: super::answer::time_left(Some(left))??, led, value })
    }

    /// Parses a payload: `leader <fence> <server µs> <ms> <value>`.
    pub(crate) fn published(payload: &'a [u8]) -> Option<Self> {
        let mut words = core::str::from_utf8(payload).ok()?.strip_prefix("leader ")?.splitn(4, ' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (fence, server, left) = (number()?, number()?, number()?);
        let fence = super::answer::fence(fence, 1)?;
        let (left, led) = (super::answer::time_left(Some(left))??, Duration::from_micros(server.saturating_sub(fence)));
        Some(Self { fence, left, led, value: words.next()? })
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.left.is_zero()
    }

    /// Its place in the order of what observers can learn.
    pub(crate) const fn place(&self) -> (u64, bool) {
        (self.fence, self.is_over())
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
        if let Some(rest) = text.strip_prefix("revoked ") {
            let (token, key) = rest.split_once(' ')?;
            let (client, counter) = token.split_once(':')?;
            return Some(Self::Revoked { client, token: Token(counter.parse().ok()?), key });
        }
        // The key comes last because it may contain spaces.
        let mut words = text.strip_prefix("grant ")?.splitn(8, ' ');
        let (client, counter) = words.next()?.split_once(':')?;
        let token = Token(counter.parse().ok()?);
        // The mode. It is known from the token.
        words.next()?;
        let mut number = || words.next()?.parse::<u64>().ok();
        let (fence, block, server) = (number()?, number()?, number()?);
        let fence = super::answer::fence(fence, block)?;
        let (ttl, waiting) = (super::answer::time_left(Some(number()?))??, number()?);
        let key = words.next()?;
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
