//! A sorted set: members ordered by score, and by their bytes if the scores are equal.

use std::ops::Range;

/// One end of a range of scores.
#[derive(Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) score: f64,
    pub(crate) exclusive: bool,
}

/// One sorted vector, because the sets of a simulated lock have only a few dozen members.
#[derive(Clone, Default)]
pub(crate) struct SortedSet {
    members: Vec<(f64, Vec<u8>)>,
}

impl SortedSet {
    pub(crate) fn members(&self) -> &[(f64, Vec<u8>)] {
        &self.members
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        self.rank(member).map(|rank| self.members[rank].0)
    }

    pub(crate) fn rank(&self, member: &[u8]) -> Option<usize> {
        self.members.iter().position(|(_, other)| other == member)
    }

    /// True if the member is new.
    pub(crate) fn insert(&mut self, score: f64, member: &[u8]) -> bool {
        let new = !self.remove(member);
        let at = self.members.partition_point(|(other_score, other)| {
            other_score.total_cmp(&score).then_with(|| other.as_slice().cmp(member)).is_lt()
        });
        self.members.insert(at, (score, member.to_vec()));
        new
    }

    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        self.rank(member).map(|rank| self.members.remove(rank)).is_some()
    }

    pub(crate) fn remove_all(&mut self, ranks: Range<usize>) -> usize {
        self.members.drain(ranks).count()
    }

    /// The ranks of the members with scores between two bounds.
    pub(crate) fn between(&self, low: Bound, high: Bound) -> Range<usize> {
        let start = self.members.partition_point(|(score, _)| match low.exclusive {
            true => *score <= low.score,
            false => *score < low.score,
        });
        let end = self.members.partition_point(|(score, _)| match high.exclusive {
            true => *score < high.score,
            false => *score <= high.score,
        });
        start..end.max(start)
    }

    /// The ranks from `start` to `stop`, inclusive. Negative ones count from the end, as in ZRANGE.
    pub(crate) fn ranks(&self, start: i64, stop: i64) -> Range<usize> {
        let length = self.members.len() as i64;
        let resolve = |index: i64| if index < 0 { index + length } else { index };
        let start = resolve(start).max(0);
        let end = (resolve(stop) + 1).min(length);
        if start < end { start as usize..end as usize } else { 0..0 }
    }
}
