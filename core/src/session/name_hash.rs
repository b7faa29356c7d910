//! Hashes names, which users may choose, so that nobody can choose names that collide.

use core::hash::{BuildHasher, Hasher};

/// Makes hashers from a secret. Each client has its own, drawn from its random id.
#[derive(Clone, Copy, Hash)]
pub(crate) struct NameHash {
    secret: u64,
}

/// Multiplies eight bytes at a time by a secret, and folds the product's halves together, as wyhash and foldhash do.
/// Without the upper half, a difference in the highest bit would cancel out whatever the secret is.
pub(crate) struct NameHasher {
    secret: u64,
    hash: u64,
}

impl NameHash {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { secret: seed }
    }
}

impl BuildHasher for NameHash {
    type Hasher = NameHasher;

    fn build_hasher(&self) -> NameHasher {
        NameHasher { secret: self.secret ^ 0x9e37_79b9_7f4a_7c15, hash: self.secret }
    }
}

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        // The 1 in front of the last bytes makes their number count.
        for chunk in bytes.chunks(8) {
            let word = chunk.iter().fold(1, |word: u64, byte| word << 8 | u64::from(*byte));
            let product = u128::from(self.hash ^ word) * u128::from(self.secret);
            self.hash = (product as u64 ^ (product >> 64) as u64).rotate_left(23);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;
    use core::hash::BuildHasher;

    use super::NameHash;

    #[test]
    fn names_that_differ_a_little_have_other_buckets_and_tags() {
        let hashes = |bits: u32, shift: u32| {
            let all = (0..4_096).map(|number| NameHash::new(7).hash_one(format!("orders/{number}").as_str()));
            all.map(|hash| (hash >> shift) & ((1 << bits) - 1)).collect::<BTreeSet<_>>().len()
        };
        // 4,096 random numbers below 65,536 take about 3,970 values, and all of the 128 tags.
        assert!(hashes(16, 0) > 3_800, "{}", hashes(16, 0));
        assert_eq!(hashes(7, 57), 128);
    }

    #[test]
    fn names_that_collide_for_one_client_do_not_for_another() {
        let hash = |seed: u64, name: &str| NameHash::new(seed).hash_one(name) & 0xff;
        let names: alloc::vec::Vec<_> = (0..4_096).map(|number| format!("{number}")).collect();
        let colliding: alloc::vec::Vec<_> = names.iter().filter(|name| hash(1, name) == 0).collect();
        let elsewhere: BTreeSet<_> = colliding.iter().map(|name| hash(2, name)).collect();
        assert!(
            colliding.len() > 8 && elsewhere.len() > colliding.len() / 2,
            "{} {}",
            colliding.len(),
            elsewhere.len()
        );
    }

    #[test]
    fn the_length_counts() {
        let hash = |name: &[u8]| NameHash::new(3).hash_one(name);
        assert_ne!(hash(b"a"), hash(b"a\0"));
        assert_ne!(hash(b"12345678"), hash(b"12345678\0"));
    }
}
