//! A hasher for keys that are ascending numbers.

use core::hash::{BuildHasherDefault, Hasher};

/// For hash maps by [`OpId`](crate::OpId), [`CallId`](crate::CallId), [`LeaseId`](crate::LeaseId) or token.
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

    use super::ByNumber;
    use crate::event::OpId;

    #[test]
    fn neighbours_stay_neighbours_and_differ_in_what_is_compared_first() {
        let hashes = [7, 8, 9].map(|number| ByNumber::default().hash_one(OpId(number)));
        assert_eq!(hashes.map(|hash| hash & 0xffff), [7, 8, 9]);
        let tags = hashes.map(|hash| hash >> 57);
        assert!(tags[0] != tags[1] && tags[1] != tags[2], "{tags:?}");
    }
}
