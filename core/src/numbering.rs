//! A hasher for numbers that count up.

use core::hash::{BuildHasherDefault, Hasher};

/// For tables by [`OpId`](crate::OpId), [`CallId`](crate::CallId) or [`LeaseId`](crate::LeaseId), and tokens, whose numbers count up: what
/// is near in number is near in memory. Calls end mostly in the order in which they came, so with a thousand of them open the
/// next one's entry is in the cache already. The numbers must be one's own: nothing here withstands chosen ones.
pub type ByNumber = BuildHasherDefault<NumberHasher>;

/// The hasher of [`ByNumber`].
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        // A table takes the place from the low bits, and tells entries apart by the seven highest first.
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
