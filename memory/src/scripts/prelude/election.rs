//! An election's state: N is a hash of the leader's token -> `<fence> <value>`, always with a TTL. A mode is
//! `leader <value>`, so whatever grants the lock writes the value of the new leader. Observers listen on a channel.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::Kind;
use super::base::{Base, cut};
use crate::answer::Refusal;
use crate::scripts::call::Done;
use crate::scripts::text::{leading_number, number_text};

pub(crate) struct ElectionState {
    leader: Option<Vec<u8>>,
    /// The leader's fence, or that of the one whose term this script has ended.
    epoch: i64,
    /// The term that has ended, or begun if it has a time and a value.
    told: Option<(i64, Vec<u8>)>,
}

pub(crate) const NOT_AN_ELECTION: Refusal = Refusal::new("WRONGTYPE the hash is no election");

/// The leader, its fence, and what the hash has: `<fence> <value>`.
pub(crate) type Leader = (Vec<u8>, i64, Vec<u8>);

/// The one leader of a hash, if there is one. None if the hash has another format.
pub(crate) fn one_leader(fields: Vec<(Vec<u8>, Vec<u8>)>) -> Option<Option<Leader>> {
    let mut fields = fields.into_iter();
    let (first, None) = (fields.next(), fields.next()) else { return None };
    let Some((leader, said)) = first else { return Some(None) };
    let digits = said.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let fence = leading_number(&said).filter(|_| said.get(digits) == Some(&b' '))?;
    Some(Some((leader, fence, said)))
}

impl Kind for ElectionState {
    const LINGERS: bool = false;

    fn read(base: &mut Base<'_>) -> Done<Self> {
        let leader = one_leader(base.call.hgetall(base.keys.name)?).ok_or(NOT_AN_ELECTION)?;
        let (leader, epoch) = leader.map_or((None, 0), |(leader, fence, _)| (Some(leader), fence));
        Ok(Self { leader, epoch, told: None })
    }

    fn is_mode(_: &[u8]) -> bool {
        true
    }

    fn purge(&mut self, _: &mut Base<'_>) -> Done {
        Ok(())
    }

    fn held(&self, _: &mut Base<'_>, token: &[u8], asked: &[u8]) -> Done<Option<Vec<u8>>> {
        Ok((self.leader.as_deref() == Some(token)).then(|| asked.to_vec()))
    }

    fn propose(&mut self, _: &mut Base<'_>, _: &[u8]) -> Done {
        Ok(())
    }

    fn compatible(&self, mode: &[u8]) -> bool {
        self.leader.is_none() && mode.starts_with(b"leader ")
    }

    fn hold(&mut self, base: &mut Base<'_>, token: &[u8], mode: &[u8], ms: i64) -> Done {
        let value = mode.get(7..).unwrap_or_default().to_vec();
        self.epoch = base.draw();
        self.leader = Some(token.to_vec());
        let said = [&number_text(self.epoch), &b" "[..], &value].concat();
        base.call.hset(base.keys.name, &[(token, &said)])?;
        base.call.pexpire(base.keys.name, ms)?;
        self.told = Some((ms, value));
        Ok(())
    }

    fn raise(&mut self, base: &mut Base<'_>, _: &[u8], _: &[u8], ms: i64) -> Done<i64> {
        let left = cut(base.call.pttl(base.keys.name)?);
        if left < ms {
            base.call.pexpire(base.keys.name, ms)?;
        }
        Ok(left.max(ms))
    }

    fn give_up(&mut self, base: &mut Base<'_>, token: &[u8]) -> Done<bool> {
        if self.leader.as_deref() != Some(token) {
            return Ok(false);
        }
        base.call.del(&[base.keys.name])?;
        self.leader = None;
        self.told = Some((0, Vec::new()));
        Ok(true)
    }

    fn holders(&self, _: &mut Base<'_>, _: i64) -> Done<Vec<Vec<u8>>> {
        Ok(self.leader.clone().map_or_else(Vec::new, |leader| vec![leader]))
    }

    fn left(&self, base: &mut Base<'_>) -> Done<i64> {
        base.call.pttl(base.keys.name)
    }

    fn absent(&self) -> &'static str {
        if self.leader.is_some() { "taken" } else { "gone" }
    }

    /// No other library uses this format.
    fn foreign(&self, _: &mut Base<'_>) -> Done<bool> {
        Ok(false)
    }

    /// A release always looks into the queue.
    fn mark_holder(&mut self, _: &mut Base<'_>) -> Done {
        Ok(())
    }

    fn holder(&self) -> Option<(&[u8], i64)> {
        None
    }

    fn epoch(&self) -> Option<i64> {
        self.leader.as_ref().map(|_| self.epoch)
    }

    fn announce(&mut self, base: &mut Base<'_>) {
        let Some((ms, value)) = self.told.take() else { return };
        let queue = base.keys.queue;
        let channel = [queue.strip_suffix(b"queue").unwrap_or(queue), b"leader"].concat();
        let begin = format!("leader {} {} {ms} ", self.epoch, base.call.us).into_bytes();
        base.call.publish(&channel, &[begin, value].concat());
    }
}
