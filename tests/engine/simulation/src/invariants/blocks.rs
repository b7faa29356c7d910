//! A holder uses only the fences that its server reserved for it.

use std::collections::VecDeque;

use super::{Verdict, broken};
use crate::wire::Life;

/// How many grants of a lock are remembered. A client that uses a fence got its grant at most a few grants ago.
const REMEMBERED: usize = 512;

/// What a server reserved for the clients of one lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    list: VecDeque<Block>,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    life: Life,
    first: u64,
    last: u64,
}

impl Blocks {
    /// The server granted the lock with this fence. Its block ends 1,023 µs ahead of the clock, or with the fence itself.
    pub(crate) fn granted(&mut self, life: Life, fence: u64, server_us: u64) {
        let last = fence.max(server_us + 1_023);
        // While the counter is ahead of the clock, a client asks for one fence after the other.
        if let Some(newest) = self.list.iter_mut().rfind(|block| block.life == life)
            && (newest.first..=newest.last + 1).contains(&fence)
        {
            newest.last = newest.last.max(last);
            return;
        }
        if self.list.len() == REMEMBERED {
            self.list.pop_front();
        }
        self.list.push_back(Block { life, first: fence, last });
    }

    /// A holder got this fence.
    pub(crate) fn uses(&self, life: Life, fence: u64) -> Verdict {
        let mine = || self.list.iter().filter(|block| block.life == life);
        if mine().any(|block| (block.first..=block.last).contains(&fence)) {
            return Ok(());
        }
        broken("fence-reserved", format!("life {life} uses {fence}, and its newest block is {:?}", mine().next_back()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_behind_the_block_or_of_another_client_is_seen() {
        let mut blocks = Blocks::default();
        blocks.granted(1, 1_000, 1_000);
        blocks.granted(2, 2_100, 1_050);
        [1_000, 2_023].iter().for_each(|fence| blocks.uses(1, *fence).unwrap());
        blocks.uses(2, 2_100).unwrap();
        for (life, fence) in [(1, 999), (1, 2_024), (2, 1_000), (2, 2_101)] {
            assert_eq!(blocks.uses(life, fence).unwrap_err().invariant, "fence-reserved", "{life} {fence}");
        }
    }
}
