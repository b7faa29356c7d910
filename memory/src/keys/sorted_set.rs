//! A sorted set: members ordered by score, and by their bytes if the scores are equal.

use alloc::vec::Vec;
use core::ops;

/// One end of a range of scores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) score: f64,
    pub(crate) exclusive: bool,
}

/// Some members of a sorted set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Range {
    /// From the first rank to the second, inclusive. Negative ones count from the end, as in ZRANGE.
    Ranks(i64, i64),
    /// Between two bounds.
    Scores(Bound, Bound),
}

pub(crate) type Member = (f64, Vec<u8>);

/// One sorted vector, because the sets of a lock have only a few dozen members.
#[derive(Clone, Debug, Default)]
pub(crate) struct SortedSet {
    members: Vec<Member>,
}

impl Bound {
    pub(crate) const LOWEST: Self = Self::from(f64::NEG_INFINITY);
    pub(crate) const HIGHEST: Self = Self::from(f64::INFINITY);

    pub(crate) const fn from(score: f64) -> Self {
        Self { score, exclusive: false }
    }

    pub(crate) const fn without(score: f64) -> Self {
        Self { score, exclusive: true }
    }
}

impl Range {
    pub(crate) const ALL: Self = Self::Ranks(0, -1);
    pub(crate) const FIRST: Self = Self::Ranks(0, 0);
    pub(crate) const LAST: Self = Self::Ranks(-1, -1);
}

impl SortedSet {
    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        self.members.iter().find(|(_, other)| other == member).map(|(score, _)| *score)
    }

    pub(crate) fn rank(&self, member: &[u8]) -> Option<usize> {
        self.members.iter().position(|(_, other)| other == member)
    }

    /// True if the member is new.
    pub(crate) fn insert(&mut self, score: f64, member: &[u8]) -> bool {
        let new = !self.remove(member);
        // -0 and 0 are the same score.
        let score = score + 0.0;
        let at = self.members.partition_point(|(other_score, other)| {
            other_score.total_cmp(&score).then_with(|| other.as_slice().cmp(member)).is_lt()
        });
        self.members.insert(at, (score, member.to_vec()));
        new
    }

    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        self.rank(member).map(|rank| self.members.remove(rank)).is_some()
    }

    pub(crate) fn remove_all(&mut self, range: Range) -> usize {
        self.members.drain(self.places(range)).count()
    }

    pub(crate) fn within(&self, range: Range) -> &[Member] {
        self.members.get(self.places(range)).unwrap_or_default()
    }

    /// The ranks of the members in a range.
    pub(crate) fn places(&self, range: Range) -> ops::Range<usize> {
        match range {
            Range::Ranks(start, stop) => self.ranks(start, stop),
            Range::Scores(low, high) => self.between(low, high),
        }
    }

    fn between(&self, low: Bound, high: Bound) -> ops::Range<usize> {
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

    fn ranks(&self, start: i64, stop: i64) -> ops::Range<usize> {
        let length = self.members.len() as i64;
        let resolve = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
        let start = resolve(start).max(0);
        let end = resolve(stop).saturating_add(1).min(length);
        if start < end { start as usize..end as usize } else { 0..0 }
    }
}
