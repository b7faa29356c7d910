//! The only randomness of a run: one small generator for each seed, so that a seed replays exactly.

/// SplitMix64 (Steele, Lea, Flood 2014): one addition and a few shifts for each number, and every seed is good.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1ea5_e401_d000_0001)
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, 0 if the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, (low, high): (u64, u64)) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Mostly near `low`, sometimes up to `high`: the range is drawn on a logarithmic scale.
    pub fn spread(&mut self, (low, high): (u64, u64)) -> u64 {
        let (mut from, mut to) = (low.max(1), high.max(1));
        while to > from.saturating_mul(2) {
            if self.chance(500_000) { to = (to / 2).max(from) } else { from = from.saturating_mul(2).min(to) }
        }
        self.range((from, to)).clamp(low, high)
    }

    /// True in `millionths` of a million cases.
    pub fn chance(&mut self, millionths: u32) -> bool {
        millionths > 0 && self.below(1_000_000) < u64::from(millionths)
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of the items. There must be one.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_another_seed_others() {
        let numbers = |seed| {
            let mut rng = Rng::new(seed);
            (0..32).map(|_| rng.draw()).collect::<Vec<_>>()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }

    #[test]
    fn draws_stay_in_their_range_and_reach_both_ends() {
        let mut rng = Rng::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| rng.range((3, 5))).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&5)));
        assert!((0..1000).all(|_| (10..=10_000).contains(&rng.spread((10, 10_000)))));
    }
}
