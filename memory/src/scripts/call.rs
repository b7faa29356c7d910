//! What `redis.call` gives a Lua script, with typed arguments and results. A script sees one time.

use alloc::vec::Vec;

use leasehold_core::Scalar;

use super::text::{client_of, number_text, word};
use crate::answer::{Answer, Refusal};
use crate::keys::{Bound, Keyspace, Lifetime, Range, SetOptions};
use crate::state::{Access, Server};

/// The result of a command.
pub(crate) type Done<T = ()> = Result<T, Refusal>;

/// A script that runs.
pub(crate) struct Call<'a> {
    server: &'a mut Server,
    /// The server's time in microseconds.
    pub(crate) us: i64,
    /// The server's time in milliseconds.
    pub(crate) now: i64,
}

impl<'a> Call<'a> {
    pub(crate) fn new(server: &'a mut Server) -> Self {
        let us = server.now_us() as i64;
        Self { server, us, now: us / 1000 }
    }

    fn on(&mut self, access: Access, key: &[u8]) -> Done<&mut Keyspace> {
        self.server.admit(access, &[key])?;
        Ok(&mut self.server.keyspace)
    }

    pub(crate) fn get(&mut self, key: &[u8]) -> Done<Option<Vec<u8>>> {
        self.on(Access::Read, key)?.get(key)
    }

    pub(crate) fn set(&mut self, key: &[u8], value: &[u8], lifetime: Lifetime) -> Done {
        let options = SetOptions { lifetime, ..SetOptions::default() };
        self.on(Access::Write, key)?.set(key, value, options).map(drop)
    }

    /// SET with KEEPTTL and GET: the value before.
    pub(crate) fn replace(&mut self, key: &[u8], value: &[u8]) -> Done<Option<Vec<u8>>> {
        let options = SetOptions { answer_old: true, lifetime: Lifetime::Kept, ..SetOptions::default() };
        Ok(self.on(Access::Write, key)?.set(key, value, options)?.old)
    }

    pub(crate) fn del(&mut self, keys: &[&[u8]]) -> Done<usize> {
        self.server.admit(Access::Delete, keys)?;
        Ok(self.server.keyspace.del(keys))
    }

    pub(crate) fn exists(&mut self, keys: &[&[u8]]) -> Done<bool> {
        self.server.admit(Access::Read, keys)?;
        Ok(self.server.keyspace.exists(keys) > 0)
    }

    pub(crate) fn type_of(&mut self, key: &[u8]) -> Done<&'static str> {
        Ok(self.on(Access::Read, key)?.type_of(key))
    }

    pub(crate) fn pttl(&mut self, key: &[u8]) -> Done<i64> {
        Ok(self.on(Access::Read, key)?.pttl(key))
    }

    pub(crate) fn pexpire(&mut self, key: &[u8], ms: i64) -> Done<bool> {
        self.on(Access::Delete, key)?.pexpire(key, ms)
    }

    /// Raises the TTL of a key that has one of less, or none.
    pub(crate) fn expire_at_least(&mut self, key: &[u8], ms: i64) -> Done {
        if self.pttl(key)? < ms {
            self.pexpire(key, ms)?;
        }
        Ok(())
    }

    pub(crate) fn hget(&mut self, key: &[u8], field: &[u8]) -> Done<Option<Vec<u8>>> {
        self.on(Access::Read, key)?.hget(key, field)
    }

    pub(crate) fn hmget(&mut self, key: &[u8], fields: &[&[u8]]) -> Done<Vec<Option<Vec<u8>>>> {
        self.on(Access::Read, key)?.hmget(key, fields)
    }

    pub(crate) fn hlen(&mut self, key: &[u8]) -> Done<i64> {
        self.on(Access::Read, key)?.hlen(key)
    }

    pub(crate) fn hgetall(&mut self, key: &[u8]) -> Done<Vec<(Vec<u8>, Vec<u8>)>> {
        self.on(Access::Read, key)?.hgetall(key)
    }

    pub(crate) fn hset(&mut self, key: &[u8], pairs: &[(&[u8], &[u8])]) -> Done {
        self.on(Access::Write, key)?.hset(key, pairs).map(drop)
    }

    pub(crate) fn hdel(&mut self, key: &[u8], field: &[u8]) -> Done {
        self.hdel_all(key, &[field])
    }

    pub(crate) fn hdel_all(&mut self, key: &[u8], fields: &[&[u8]]) -> Done {
        self.on(Access::Delete, key)?.hdel(key, fields).map(drop)
    }

    pub(crate) fn zcard(&mut self, key: &[u8]) -> Done<i64> {
        self.on(Access::Read, key)?.zcard(key)
    }

    pub(crate) fn zcount(&mut self, key: &[u8], low: Bound, high: Bound) -> Done<i64> {
        self.on(Access::Read, key)?.zcount(key, Range::Scores(low, high))
    }

    /// A score, which is a whole number in all our keys.
    pub(crate) fn zscore(&mut self, key: &[u8], member: &[u8]) -> Done<Option<i64>> {
        Ok(self.on(Access::Read, key)?.zscore(key, member)?.map(|score| score as i64))
    }

    pub(crate) fn zrank(&mut self, key: &[u8], member: &[u8]) -> Done<Option<i64>> {
        self.on(Access::Read, key)?.zrank(key, member)
    }

    /// How many members have a greater score.
    pub(crate) fn zrevrank(&mut self, key: &[u8], member: &[u8]) -> Done<Option<i64>> {
        self.on(Access::Read, key)?.zrevrank(key, member)
    }

    pub(crate) fn zrange(&mut self, key: &[u8], range: Range) -> Done<Vec<(i64, Vec<u8>)>> {
        self.zrange_some(key, range, usize::MAX)
    }

    /// The first members of a range: ZRANGEBYSCORE with LIMIT.
    pub(crate) fn zrange_some(&mut self, key: &[u8], range: Range, most: usize) -> Done<Vec<(i64, Vec<u8>)>> {
        let members = self.on(Access::Read, key)?.zrange(key, range, most)?;
        Ok(members.into_iter().map(|(score, member)| (score as i64, member)).collect())
    }

    /// The first member of a range.
    pub(crate) fn zrange_one(&mut self, key: &[u8], range: Range) -> Done<Option<(i64, Vec<u8>)>> {
        Ok(self.zrange_some(key, range, 1)?.pop())
    }

    /// The first of a queue that waits. The scores of tombstones are negative.
    pub(crate) fn first_waiter(&mut self, queue: &[u8]) -> Done<Option<Vec<u8>>> {
        Ok(self.zrange_one(queue, Range::Scores(at(0), Bound::HIGHEST))?.map(|(_, token)| token))
    }

    pub(crate) fn count_waiters(&mut self, queue: &[u8]) -> Done<i64> {
        self.zcount(queue, at(0), Bound::HIGHEST)
    }

    /// Whether the member is new.
    pub(crate) fn zadd(&mut self, key: &[u8], score: i64, member: &[u8]) -> Done<bool> {
        Ok(self.on(Access::Write, key)?.zadd(key, &[(score as f64, member)])? == 1)
    }

    /// Whether the member was there.
    pub(crate) fn zrem(&mut self, key: &[u8], member: &[u8]) -> Done<bool> {
        Ok(self.on(Access::Delete, key)?.zrem(key, &[member])? == 1)
    }

    pub(crate) fn zrem_all(&mut self, key: &[u8], members: &[&[u8]]) -> Done {
        self.on(Access::Delete, key)?.zrem(key, members).map(drop)
    }

    pub(crate) fn zremrangebyscore(&mut self, key: &[u8], low: Bound, high: Bound) -> Done<usize> {
        self.on(Access::Delete, key)?.zremrange(key, Range::Scores(low, high))
    }

    /// A message that the server refuses is only a lost hint. It must not fail a script that has already written.
    pub(crate) fn publish(&mut self, channel: &[u8], payload: &[u8]) {
        let _ = self.server.publish(channel, payload);
    }

    /// Publishes on the channel of a token's client.
    pub(crate) fn publish_to(&mut self, token: &[u8], payload: &[u8]) {
        self.publish(&[b"leasehold:", client_of(token)].concat(), payload);
    }

    /// How many clients listen on a channel.
    pub(crate) fn listening(&self, channel: &[u8]) -> i64 {
        self.server.listening(channel) as i64
    }

    /// The server's time as the text of a fence.
    pub(crate) fn us_text(&self) -> Vec<u8> {
        number_text(self.us)
    }

    /// The answer that most scripts give.
    pub(crate) fn answer(&self, status: &str, value: i64, ms: i64, waiting: i64, foreign: bool) -> Answer {
        let numbers = [value, 0, self.us, ms, waiting, foreign.into()];
        Answer::List(core::iter::once(word(status)).chain(numbers.map(Scalar::Int)).collect())
    }
}

/// An exclusive bound below, as in `(5`.
pub(crate) const fn above(score: i64) -> Bound {
    Bound::without(score as f64)
}

/// An inclusive bound.
pub(crate) const fn at(score: i64) -> Bound {
    Bound::from(score as f64)
}
