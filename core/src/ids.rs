//! What everything is called: clients, tokens, and the numbers of calls, commands, leases and names.

use alloc::string::String;
use core::fmt;
use core::hash::{BuildHasherDefault, Hash, Hasher};

use crate::error::Error;
use crate::text::Digits;

/// A client's random 128-bit id. It is the only randomness that the engine gets.
///
/// Draw it from the operating system's random source after the process has started. Never take it from configuration or
/// a snapshot: two clients with the same id would both be granted the same lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId([u8; 16]);

impl ClientId {
    /// Makes an id from 16 random bytes.
    pub const fn from_random(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The id that this client uses with one server of a quorum. Only the last 16 bits differ.
    #[cfg(feature = "quorum")]
    pub(crate) fn of_member(self, at: u16) -> Self {
        let Self([start @ .., high, low]) = &self;
        let [by_high, by_low] = at.to_be_bytes();
        let mut id = [0; 16];
        let bytes = start.iter().copied().chain([high ^ by_high, low ^ by_low]);
        id.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        Self(id)
    }

    /// The id as a UUID.
    pub(crate) fn text(self) -> String {
        let mut text = String::with_capacity(36);
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            let digits = [byte >> 4, byte & 0xf].map(|digit| char::from_digit(digit.into(), 16).unwrap_or_default());
            text.extend(digits);
        }
        text
    }

    /// Reads an id from its text.
    fn read(text: &str) -> Option<Self> {
        let mut id = [0; 16];
        let mut digits = text.bytes().filter(|byte| *byte != b'-').map(|byte| (byte as char).to_digit(16));
        for byte in &mut id {
            let (high, low) = (digits.next()??, digits.next()??);
            *byte = u8::try_from(high << 4 | low).ok()?;
        }
        Some(Self(id))
    }

    /// A seed for the engine's hash maps and jitter.
    pub(crate) fn seed(self) -> u64 {
        self.0.iter().fold(0, |seed, byte| seed.rotate_left(8) ^ u64::from(*byte))
    }
}

/// The id as a UUID: `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The counter of one acquisition. With the client's id it forms the token `<uuid>:<u64>` on the server.
///
/// A token is used for one acquisition in one mode, and never again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Token(pub(crate) u64);

/// The token of a lease. Another process can adopt the lease with it: see [`Input::Adopt`](crate::Input::Adopt). Its
/// text is `<uuid>:<number>`, as on the server.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseToken {
    pub(crate) client: ClientId,
    pub(crate) token: Token,
}

impl LeaseToken {
    /// Reads a token's text.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if it is not the text of a token.
    pub fn read(text: &str) -> Result<Self, Error> {
        let token = text.split_once(':').and_then(|(client, number)| Self::of(client, Token(number.parse().ok()?)));
        // `7` and `07` are one number, but the server compares texts.
        token.filter(|token| token.text() == text).ok_or_else(|| Error::InvalidOption {
            field: "token",
            problem: "is not the token of a lease: pass on the text that the holder's lease gave, unchanged".into(),
        })
    }

    /// `client` is the text of the client's id.
    pub(crate) fn of(client: &str, token: Token) -> Option<Self> {
        Some(Self { client: ClientId::read(client)?, token })
    }

    /// The text that [`read`](Self::read) takes.
    pub fn text(&self) -> String {
        [self.client.text().as_str(), ":", Digits::of(self.token.0).as_str()].concat()
    }
}

/// Without the text, which is a secret.
impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseToken(..)")
    }
}

/// A fencing token. It fits in 53 bits.
///
/// The fence of an exclusive lease is greater than that of every earlier lease of the name, even after the server lost
/// its data, unless its clock stepped back. The fences of concurrent readers have no order.
///
/// For a database, `i64::from(fence)` is the number that a column of integers takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Fence(u64);

impl Fence {
    /// The fence with this number, for example one that a job or a database has kept.
    pub const fn new(fence: u64) -> Self {
        Self(fence)
    }

    /// The number to store and compare.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<Fence> for u64 {
    fn from(fence: Fence) -> Self {
        fence.0
    }
}

/// For databases, whose integers have a sign. It never overflows, because a fence fits in 53 bits.
impl From<Fence> for i64 {
    fn from(fence: Fence) -> Self {
        Self::try_from(fence.0).unwrap_or(Self::MAX)
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A user's call. The driver chooses the number and uses each one once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// A command in flight. The engine chooses the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

/// A lease of a local holder. The engine chooses the number and never uses it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

/// The index of a server in the driver's list. With a single server, a cluster or Sentinel it is always 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u16);

/// A name in use. Ids are reused; tokens tell a later use from an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockId(pub(crate) u32);

/// Who made a call, and so who learns its result. If the call acquires a lease, its caller also learns that it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Caller {
    /// The driver.
    User(OpId),
    /// The engine itself, for a part of a user's call or lease.
    Part(PartId),
}

/// A part: the number of the whole, with the part's index above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PartId(pub(crate) u64);

impl PartId {
    pub(crate) const fn new(whole: LeaseId, index: u16) -> Self {
        Self((index as u64) << Self::INDEX | whole.0)
    }

    pub(crate) const fn whole(self) -> LeaseId {
        LeaseId(self.0 & ((1 << Self::INDEX) - 1))
    }

    pub(crate) const fn index(self) -> u16 {
        (self.0 >> Self::INDEX) as u16
    }

    const INDEX: u32 = 48;
}

/// The channel of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Channel {
    /// The client's own channel.
    Own,
    /// The channel of a reentrant lock.
    Of(LockId),
}

/// For hash maps by [`OpId`](crate::OpId), [`CommandId`](crate::CommandId), [`LeaseId`](crate::LeaseId) or token.
///
/// These numbers ascend, and neighbouring numbers stay neighbours in memory. Calls mostly end in the order in which
/// they came, so with a thousand open calls the next entry is already in the cache. Use it only for numbers that you
/// choose: it does not resist hash flooding.
pub type ByNumber = BuildHasherDefault<NumberHasher>;

/// The hasher of [`ByNumber`].
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        // A hash map takes the bucket from the low bits, and first compares the seven highest bits.
        self.0 ^ (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (0x7f << 57))
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[cfg(test)]
mod tests {
    use core::hash::BuildHasher;

    use super::{ByNumber, LeaseId, OpId, PartId};

    #[test]
    fn neighbours_stay_neighbours_and_differ_in_what_is_compared_first() {
        let hashes = [7, 8, 9].map(|number| ByNumber::default().hash_one(OpId(number)));
        assert_eq!(hashes.map(|hash| hash & 0xffff), [7, 8, 9]);
        let tags = hashes.map(|hash| hash >> 57);
        assert!(tags[0] != tags[1] && tags[1] != tags[2], "{tags:?}");
    }

    #[test]
    fn a_part_knows_its_whole_and_its_index() {
        for (whole, index) in [(0, 0), (7, 255), ((1 << 48) - 1, u16::MAX)] {
            let part = PartId::new(LeaseId(whole), index);
            assert_eq!((part.whole(), part.index()), (LeaseId(whole), index));
        }
    }
}
