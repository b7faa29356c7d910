//! An election's state. The leader's field is `<fence> <value>`. A mode is `leader <value>`, so whatever grants the lock writes
//! the value of the new leader. Observers listen on a channel.

use alloc::format;
use alloc::vec::Vec;

use super::base::Base;
use super::one_holder::{Fields, OneHolder, Rules};
use crate::answer::Refusal;
use crate::scripts::call::Done;
use crate::scripts::text::{leading_number, number_text};

pub(crate) type ElectionState = OneHolder<Election>;

pub(crate) struct Election {
    /// The leader's fence, or that of the one whose term this script has ended.
    epoch: i64,
    /// The term that has ended, or begun if it has a time and a value.
    told: Option<(i64, Vec<u8>)>,
}

pub(crate) const NOT_AN_ELECTION: Refusal = Refusal::new("WRONGTYPE the hash is no election");

/// The leader, its fence, and what the hash has: `<fence> <value>`.
pub(crate) type Leader = (Vec<u8>, i64, Vec<u8>);

/// The one leader of a hash, if there is one. None if the hash has another format.
pub(crate) fn one_leader(fields: Fields) -> Option<Option<Leader>> {
    let mut fields = fields.into_iter();
    let (first, None) = (fields.next(), fields.next()) else { return None };
    let Some((leader, said)) = first else { return Some(None) };
    let digits = said.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let fence = leading_number(&said).filter(|_| said.get(digits) == Some(&b' '))?;
    Some(Some((leader, fence, said)))
}

impl Rules for Election {
    fn read(_: &mut Base<'_>, fields: Fields) -> Done<(Option<Vec<u8>>, Self)> {
        let leader = one_leader(fields).ok_or(NOT_AN_ELECTION)?;
        let (leader, epoch) = leader.map_or((None, 0), |(leader, fence, _)| (Some(leader), fence));
        Ok((leader, Self { epoch, told: None }))
    }

    fn held(asked: &[u8]) -> &[u8] {
        asked
    }

    fn compatible(&self, mode: &[u8]) -> bool {
        mode.starts_with(b"leader ")
    }

    fn field(&mut self, base: &mut Base<'_>, mode: &[u8], ms: i64) -> Vec<u8> {
        let value = mode.get(7..).unwrap_or_default().to_vec();
        self.epoch = base.draw();
        let field = [&number_text(self.epoch), &b" "[..], &value].concat();
        self.told = Some((ms, value));
        field
    }

    fn given_back(&mut self, _: &mut Base<'_>, _: &[u8]) -> Done<bool> {
        self.told = Some((0, Vec::new()));
        Ok(true)
    }

    fn epoch(&self) -> Option<i64> {
        Some(self.epoch)
    }

    fn announce(&mut self, base: &mut Base<'_>) {
        let Some((ms, value)) = self.told.take() else { return };
        let queue = base.keys.queue;
        let channel = [queue.strip_suffix(b"queue").unwrap_or(queue), b"leader"].concat();
        let begin = format!("leader {} {} {ms} ", self.epoch, base.call.us).into_bytes();
        base.call.publish(&channel, &[begin, value].concat());
    }
}
