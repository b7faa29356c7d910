//! Commands for sorted sets.

use alloc::vec::Vec;

use super::keyspace::{Data, Entry, Keyspace};
use super::sorted_set::{Member, Range, SortedSet};
use crate::answer::Refusal;

impl Keyspace {
    pub(crate) fn zcard(&mut self, key: &[u8]) -> Result<i64, Refusal> {
        Ok(self.sorted(key)?.map_or(0, |set| set.members().len() as i64))
    }

    pub(crate) fn zscore(&mut self, key: &[u8], member: &[u8]) -> Result<Option<f64>, Refusal> {
        Ok(self.sorted(key)?.and_then(|set| set.score(member)))
    }

    pub(crate) fn zrank(&mut self, key: &[u8], member: &[u8]) -> Result<Option<i64>, Refusal> {
        Ok(self.sorted(key)?.and_then(|set| set.rank(member)).map(|rank| rank as i64))
    }

    /// The rank from the end.
    pub(crate) fn zrevrank(&mut self, key: &[u8], member: &[u8]) -> Result<Option<i64>, Refusal> {
        let rank = |set: &mut SortedSet| Some(set.members().len() - 1 - set.rank(member)?);
        Ok(self.sorted(key)?.and_then(rank).map(|rank| rank as i64))
    }

    /// How many members are new. Without options such as NX and GT, because no script needs them.
    pub(crate) fn zadd(&mut self, key: &[u8], pairs: &[(f64, &[u8])]) -> Result<usize, Refusal> {
        if self.sorted(key)?.is_none() {
            self.put(key, Entry::lasting(Data::Sorted(SortedSet::default())));
        }
        let set = self.sorted(key)?;
        Ok(set.map_or(0, |set| pairs.iter().filter(|(score, member)| set.insert(*score, member)).count()))
    }

    /// How many members were there.
    pub(crate) fn zrem(&mut self, key: &[u8], members: &[&[u8]]) -> Result<usize, Refusal> {
        let Some(set) = self.sorted(key)? else { return Ok(0) };
        let removed = members.iter().filter(|member| set.remove(member)).count();
        self.sweep(key);
        Ok(removed)
    }

    pub(crate) fn zcount(&mut self, key: &[u8], range: Range) -> Result<i64, Refusal> {
        Ok(self.sorted(key)?.map_or(0, |set| set.places(range).len() as i64))
    }

    /// How many members were in the range, which are removed.
    pub(crate) fn zremrange(&mut self, key: &[u8], range: Range) -> Result<usize, Refusal> {
        let Some(set) = self.sorted(key)? else { return Ok(0) };
        let removed = set.remove_all(range);
        self.sweep(key);
        Ok(removed)
    }

    /// At most this many members of the range.
    pub(crate) fn zrange(&mut self, key: &[u8], range: Range, most: usize) -> Result<Vec<Member>, Refusal> {
        Ok(self.sorted(key)?.map_or_else(Vec::new, |set| set.within(range).iter().take(most).cloned().collect()))
    }
}
