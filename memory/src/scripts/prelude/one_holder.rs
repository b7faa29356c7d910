//! What a reentrant lock, a once and an election share: N is a hash with one field, the holder's token, always with a TTL.

use alloc::vec;
use alloc::vec::Vec;

use super::Kind;
use super::base::{Base, cut};
use crate::scripts::call::Done;

/// The fields of a hash.
pub(crate) type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// The state of one of these kinds.
pub(crate) struct OneHolder<R> {
    holder: Option<Vec<u8>>,
    rules: R,
}

/// What differs between these kinds.
pub(crate) trait Rules: Sized {
    /// The holder and the rest of the state. Refuses a hash of another format.
    fn read(base: &mut Base<'_>, fields: Fields) -> Done<(Option<Vec<u8>>, Self)>;

    /// The mode in which the holder holds the lock.
    fn held(asked: &[u8]) -> &[u8];

    /// Whether a waiter of this mode can be granted a lock that nobody holds.
    fn compatible(&self, mode: &[u8]) -> bool;

    /// What the hash says of a new holder.
    fn field(&mut self, base: &mut Base<'_>, mode: &[u8], ms: i64) -> Vec<u8>;

    /// What follows when a token's lock was taken from it. Returns whether the token has given it back.
    fn given_back(&mut self, base: &mut Base<'_>, token: &[u8]) -> Done<bool>;

    /// Whether a token that doesn't hold the lock has given it back before, as far as the server knows.
    fn gave_back(&self, _: &[u8]) -> bool {
        false
    }

    /// As [`Kind::epoch`], of the holder.
    fn epoch(&self) -> Option<i64> {
        None
    }

    /// As [`Kind::announce`].
    fn announce(&mut self, _: &mut Base<'_>) {}

    /// As [`Kind::result`].
    fn result(&self) -> Option<(i64, &[u8])> {
        None
    }
}

impl<R: Rules> OneHolder<R> {
    fn is_holder(&self, token: &[u8]) -> bool {
        self.holder.as_deref() == Some(token)
    }
}

impl<R: Rules> Kind for OneHolder<R> {
    const LINGERS: bool = false;

    fn read(base: &mut Base<'_>) -> Done<Self> {
        let fields = base.call.hgetall(base.keys.name)?;
        let (holder, rules) = R::read(base, fields)?;
        Ok(Self { holder, rules })
    }

    fn is_mode(_: &[u8]) -> bool {
        true
    }

    fn purge(&mut self, _: &mut Base<'_>) -> Done {
        Ok(())
    }

    fn held(&self, _: &mut Base<'_>, token: &[u8], asked: &[u8]) -> Done<Option<Vec<u8>>> {
        Ok(self.is_holder(token).then(|| R::held(asked).to_vec()))
    }

    fn propose(&mut self, _: &mut Base<'_>, _: &[u8]) -> Done {
        Ok(())
    }

    fn compatible(&self, mode: &[u8]) -> bool {
        self.holder.is_none() && self.rules.compatible(mode)
    }

    fn hold(&mut self, base: &mut Base<'_>, token: &[u8], mode: &[u8], ms: i64) -> Done {
        let field = self.rules.field(base, mode, ms);
        base.call.hset(base.keys.name, &[(token, &field)])?;
        base.call.pexpire(base.keys.name, ms)?;
        self.holder = Some(token.to_vec());
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
        if !self.is_holder(token) {
            return Ok(self.rules.gave_back(token));
        }
        base.call.del(&[base.keys.name])?;
        self.holder = None;
        self.rules.given_back(base, token)
    }

    fn holders(&self, _: &mut Base<'_>, _: i64) -> Done<Vec<Vec<u8>>> {
        Ok(self.holder.clone().map_or_else(Vec::new, |holder| vec![holder]))
    }

    fn left(&self, base: &mut Base<'_>) -> Done<i64> {
        base.call.pttl(base.keys.name)
    }

    fn absent(&self) -> &'static str {
        if self.holder.is_some() { "taken" } else { "gone" }
    }

    /// Only leasehold has onces and elections. Redisson has reentrant locks, but their waiters poll in addition to the messages.
    fn foreign(&self, _: &mut Base<'_>) -> Done<bool> {
        Ok(false)
    }

    /// The release of these kinds always runs the whole script.
    fn mark_holder(&mut self, _: &mut Base<'_>) -> Done {
        Ok(())
    }

    fn holder(&self) -> Option<(&[u8], i64)> {
        None
    }

    fn epoch(&self) -> Option<i64> {
        self.holder.as_ref().and(self.rules.epoch())
    }

    fn announce(&mut self, base: &mut Base<'_>) {
        self.rules.announce(base);
    }

    fn result(&self) -> Option<(i64, &[u8])> {
        self.rules.result()
    }
}
