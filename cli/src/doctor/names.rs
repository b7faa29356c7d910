//! Names for the doctor's own locks. No service uses them.

use std::ops::RangeInclusive;
use std::time::{SystemTime, UNIX_EPOCH};

use leasehold_core::hash_slot;

use crate::args::{Doctor, Servers};
use crate::keyspace::has_hash_tag;

/// The chance that none of half a million random names is in a slot is less than 1 in 10^13.
const ATTEMPTS: u32 = 500_000;

/// Names of one form. If a user may lock only some names, `--name` gives their form.
pub(super) struct Names {
    prefix: String,
    before: String,
    after: String,
    /// No two doctors have the same.
    pub(super) id: u128,
}

impl Names {
    pub(super) fn new(servers: &Servers, arguments: &Doctor) -> Self {
        let id = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let own = format!("leasehold-doctor:{id}");
        let (before, after) = match arguments.name.as_deref() {
            None => (own, String::new()),
            Some(pattern) => match pattern.split_once('*') {
                Some((before, after)) => (format!("{before}{own}"), after.to_owned()),
                None => (format!("{pattern}:{own}"), String::new()),
            },
        };
        Self { prefix: servers.prefix.clone(), before, after, id }
    }

    /// One of the names, without the prefix.
    pub(super) fn name(&self, number: u32) -> String {
        format!("{}:{number}{}", self.before, self.after)
    }

    /// Its key.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Two names in one slot of these. None if no name of this form can be there.
    pub(super) fn two_in(&self, slots: &[RangeInclusive<u16>]) -> Option<[String; 2]> {
        let slot = |name: &String| hash_slot(self.key(name).as_bytes());
        // With a hash tag, all names are in one slot.
        let attempts = if has_hash_tag(&self.key(&self.name(0))) { 2 } else { ATTEMPTS };
        let mut names = (0..attempts).map(|number| self.name(number));
        let one = names.find(|name| slots.iter().any(|range| range.contains(&slot(name))))?;
        let other = names.find(|name| slot(name) == slot(&one))?;
        Some([one, other])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(prefix: &str, before: &str, after: &str) -> Names {
        Names { prefix: prefix.to_owned(), before: before.to_owned(), after: after.to_owned(), id: 0 }
    }

    #[test]
    fn two_names_are_found_in_any_slot() {
        for slot in [0, 7_000, 16_383] {
            let names = names("app:", "doctor", "");
            let [one, other] = names.two_in(&[slot..=slot]).expect("two names");
            assert_ne!(one, other);
            for name in [one, other] {
                assert_eq!(hash_slot(names.key(&name).as_bytes()), slot, "{name}");
            }
        }
    }

    #[test]
    fn names_with_a_hash_tag_are_only_in_its_slot() {
        let names = names("{app}:", "doctor", "");
        let own = hash_slot(b"app");
        assert!(names.two_in(&[own..=own]).is_some());
        assert!(names.two_in(&[0..=own - 1, own + 1..=16_383]).is_none());
    }
}
