//! Commands for keys of any type.

use super::keyspace::{Data, Keyspace};
use crate::answer::Refusal;

impl Keyspace {
    pub(crate) fn exists(&mut self, keys: &[&[u8]]) -> usize {
        keys.iter().filter(|key| self.entry(key).is_some()).count()
    }

    pub(crate) fn del(&mut self, keys: &[&[u8]]) -> usize {
        keys.iter().filter(|key| self.remove(key)).count()
    }

    /// The milliseconds that are left; -1 without a TTL, -2 without the key.
    pub(crate) fn pttl(&mut self, key: &[u8]) -> i64 {
        let now = self.now_ms();
        match self.entry(key) {
            None => -2,
            Some(entry) => entry.expires_ms.map_or(-1, |expires| expires.saturating_sub(now)),
        }
    }

    /// Whether there is such a key. Without options such as GT and NX, because Redis 6.2 doesn't have them.
    pub(crate) fn pexpire(&mut self, key: &[u8], ms: i64) -> Result<bool, Refusal> {
        let expires = self.now_ms().checked_add(ms).ok_or(INVALID_TIME)?;
        let Some(entry) = self.entry(key) else { return Ok(false) };
        entry.expires_ms = Some(expires);
        if ms <= 0 {
            self.remove(key);
        }
        Ok(true)
    }

    /// Whether the key was there and had a TTL.
    pub(crate) fn persist(&mut self, key: &[u8]) -> bool {
        self.entry(key).is_some_and(|entry| entry.expires_ms.take().is_some())
    }

    pub(crate) fn type_of(&mut self, key: &[u8]) -> &'static str {
        self.entry(key).map_or("none", |entry| entry.data.name())
    }
}

impl Data {
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::Sorted(_) => "zset",
            Self::Hash(_) => "hash",
            Self::Other => "other",
        }
    }
}

const INVALID_TIME: Refusal = Refusal::new("ERR invalid expire time in 'pexpire' command");
