//! A client's identity, and the tokens of its leases.

use core::fmt;

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

    /// A seed for the engine's hash maps and jitter.
    pub(crate) fn seed(self) -> u64 {
        self.0.iter().fold(0, |seed, byte| seed.rotate_left(8) ^ u64::from(*byte))
    }
}

/// The id as a UUID: `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
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
