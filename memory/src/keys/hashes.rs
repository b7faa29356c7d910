//! Commands for hashes.

use alloc::vec::Vec;

use super::keyspace::{Data, Entry, Fields, Keyspace};
use crate::answer::Refusal;

impl Keyspace {
    pub(crate) fn hget(&mut self, key: &[u8], field: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
        let value = self.fields(key)?.and_then(|fields| fields.iter().find(|(other, _)| other == field));
        Ok(value.map(|(_, value)| value.clone()))
    }

    pub(crate) fn hmget(&mut self, key: &[u8], names: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Refusal> {
        names.iter().map(|name| self.hget(key, name)).collect()
    }

    pub(crate) fn hlen(&mut self, key: &[u8]) -> Result<i64, Refusal> {
        Ok(self.fields(key)?.map_or(0, |fields| fields.len() as i64))
    }

    pub(crate) fn hgetall(&mut self, key: &[u8]) -> Result<Fields, Refusal> {
        Ok(self.fields(key)?.cloned().unwrap_or_default())
    }

    /// How many fields are new.
    pub(crate) fn hset(&mut self, key: &[u8], pairs: &[(&[u8], &[u8])]) -> Result<usize, Refusal> {
        if self.fields(key)?.is_none() {
            self.put(key, Entry::lasting(Data::Hash(Vec::new())));
        }
        let mut added = 0;
        if let Some(fields) = self.fields(key)? {
            for (field, value) in pairs {
                match fields.iter_mut().find(|(other, _)| other == field) {
                    Some((_, old)) => *old = value.to_vec(),
                    None => {
                        fields.push((field.to_vec(), value.to_vec()));
                        added += 1;
                    }
                }
            }
        }
        Ok(added)
    }

    /// How many fields were there.
    pub(crate) fn hdel(&mut self, key: &[u8], names: &[&[u8]]) -> Result<usize, Refusal> {
        let Some(fields) = self.fields(key)? else { return Ok(0) };
        let before = fields.len();
        fields.retain(|(field, _)| !names.contains(&field.as_slice()));
        let removed = before - fields.len();
        self.sweep(key);
        Ok(removed)
    }
}
