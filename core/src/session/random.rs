//! Jitter: SplitMix64 (Steele, Lea, Flood 2014), seeded with the client's id. Not for secrets.

use crate::time::Duration;

#[derive(Clone, Hash)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A random time between one half of `most` and `most`.
    pub(crate) fn jitter(&mut self, most: Duration) -> Duration {
        let half = most.as_micros() / 2;
        Duration::from_micros(half.saturating_add(self.next().checked_rem(half.saturating_add(1)).unwrap_or(0)))
    }
}
