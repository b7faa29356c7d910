//! Who a client is, and the tokens it owns leases by.

use core::fmt;

/// A client's random 128-bit identity: the engine's only entropy.
///
/// Draw it after start from the system's randomness, never from configuration or a snapshot: two
/// clients with one id would both be granted the same lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId([u8; 16]);

impl ClientId {
    /// The id made of 16 random bytes.
    pub const fn from_random(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The id by which this client is known to one server of a quorum. Only its last 16 bits differ.
    #[cfg(feature = "quorum")]
    pub(crate) fn of_member(self, at: u16) -> Self {
        let Self([start @ .., high, low]) = &self;
        let [by_high, by_low] = at.to_be_bytes();
        let mut id = [0; 16];
        let bytes = start.iter().copied().chain([high ^ by_high, low ^ by_low]);
        id.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        Self(id)
    }

    /// A seed for the engine's hash maps and its jitter.
    pub(crate) fn seed(self) -> u64 {
        self.0.iter().fold(0, |seed, byte| seed.rotate_left(8) ^ u64::from(*byte))
    }
}

/// The UUID text of the id, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
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

/// One acquisition's counter: with the client's id it makes the token `<uuid>:<u64>` on the wire.
///
/// A token is used for one acquisition in one mode, and never again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Token(pub(crate) u64);
