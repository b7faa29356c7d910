//! A lock's name and its keys.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;

use super::Command;
use crate::error::Error;
use crate::options::Family;

/// The longest name, including its prefix, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// A valid name, including its prefix, and its side keys. It is shared.
#[derive(Clone, Hash)]
pub(crate) struct Name {
    /// The lock's own key.
    pub(crate) key: Arc<str>,
    /// The beginning of the side keys. It contains the name's hash tag, or the name as the hash tag, so all keys are in one slot.
    side: String,
    /// The kind of data under the key, which decides the scripts to use.
    pub(crate) family: Family,
    /// What this client says about itself when it leads.
    pub(crate) value: String,
}

impl Name {
    /// Makes a name from its whole key, which [`Name::check`] has accepted.
    pub(crate) fn new(key: String, family: Family) -> Arc<Self> {
        let side = if hash_tag(key.as_bytes()).is_some() {
            ["leasehold::", &key, ":"].concat()
        } else {
            ["leasehold:{", &key, "}:"].concat()
        };
        Arc::new(Self { key: key.into(), side, family, value: String::new() })
    }

    /// The same name of an election, in which this client says so about itself.
    pub(crate) fn with_value(&self, value: &str) -> Arc<Self> {
        Arc::new(Self { value: value.into(), ..self.clone() })
    }

    /// The whole key: prefix and name.
    pub(crate) fn key<'a>(prefix: &str, name: &'a str) -> Cow<'a, str> {
        if prefix.is_empty() { Cow::Borrowed(name) } else { Cow::Owned([prefix, name].concat()) }
    }

    /// The whole key, if it is valid for a lock.
    pub(crate) fn check(prefix: &str, name: &str) -> Result<String, Error> {
        if name.is_empty() {
            return Err(Error::invalid("name", "is empty: give the lock a name"));
        }
        if prefix.len().saturating_add(name.len()) > MAX_BYTES {
            return Err(Error::invalid("name", "is longer than 64 KiB with its prefix: hash it first"));
        }
        let key = Self::key(prefix, name);
        if key.starts_with("leasehold:") {
            return Err(Error::invalid("name", "begins with `leasehold:`, which is reserved: choose another name"));
        }
        if key.bytes().any(|byte| matches!(byte, b'{' | b'}')) && hash_tag(key.as_bytes()).is_none() {
            return Err(Error::invalid(
                "name",
                "has a brace but no hash tag like `{tag}`: a cluster could not keep its keys together",
            ));
        }
        Ok(key.into_owned())
    }

    pub(crate) fn side(&self) -> &str {
        &self.side
    }

    pub(crate) const fn members(&self) -> &'static str {
        self.family.members()
    }
}

/// Which key counts the fences of a name.
#[derive(Clone, Copy, Hash)]
pub(crate) enum FenceCounter {
    /// One key for all names of the server.
    Server(&'static str),
    /// In a cluster, one key for each slot. It begins with this text.
    Slots(&'static str),
}

impl FenceCounter {
    /// Writes the key of the counter for this name. A command's key is written with it, because a client may learn only with its
    /// first commands that the server enforces slots.
    pub(crate) fn push(self, command: &mut Command, name: &Name) {
        match self {
            Self::Server(fence) => command.push(fence.as_bytes()),
            Self::Slots(beginning) => {
                let tag = slot_tag(hash_slot(name.key.as_bytes()));
                command.push_parts(&[beginning, "{", core::str::from_utf8(&tag).unwrap_or_default(), "}"]);
            }
        }
    }
}

/// A hash tag of four characters from `@` to `O` that is in this slot. The slot's counter of fences has it.
// Their lower four bits can be chosen, and a CRC is linear: each of these bits changes the slot in its own way.
pub fn slot_tag(slot: u16) -> [u8; 4] {
    let change = slot ^ slot_of(&letters(0));
    let bits = CHANGES.iter().enumerate().filter(|(bit, _)| change >> bit & 1 == 1).fold(0, |bits, (_, by)| bits ^ by);
    letters(bits)
}

const fn letters(bits: u16) -> [u8; 4] {
    [b'@' | (bits >> 12) as u8, b'@' | (bits >> 8 & 15) as u8, b'@' | (bits >> 4 & 15) as u8, b'@' | (bits & 15) as u8]
}

/// For each bit of a slot, the bits of the letters that change just this one, by Gaussian elimination.
const CHANGES: [u16; 14] = {
    let (mut changes, mut bits) = ([0_u16; 16], [0_u16; 16]);
    let mut row = 0;
    while row < 16 {
        bits[row] = 1 << row;
        changes[row] = slot_of(&letters(bits[row])) ^ slot_of(&letters(0));
        row += 1;
    }
    let mut result = [0; 14];
    let mut column = 0;
    while column < 14 {
        let mut pivot = column;
        while changes[pivot] >> column & 1 == 0 {
            pivot += 1;
        }
        (changes[column], changes[pivot]) = (changes[pivot], changes[column]);
        (bits[column], bits[pivot]) = (bits[pivot], bits[column]);
        row = 0;
        while row < 16 {
            if row != column && changes[row] >> column & 1 == 1 {
                changes[row] ^= changes[column];
                bits[row] ^= bits[column];
            }
            row += 1;
        }
        column += 1;
    }
    while column > 0 {
        column -= 1;
        result[column] = bits[column];
    }
    result
};

/// Redis's rule: the bytes between the first `{` and the next `}`, if there are any.
fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let (_, rest) = key.split_at_checked(key.iter().position(|byte| *byte == b'{')? + 1)?;
    let tag = rest.get(..rest.iter().position(|byte| *byte == b'}')?)?;
    (!tag.is_empty()).then_some(tag)
}

/// The slot of a key in a cluster, 0 to 16,383: CRC16 (XMODEM) of its hash tag, or of the whole key.
///
/// <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>
pub fn hash_slot(key: &[u8]) -> u16 {
    slot_of(hash_tag(key).unwrap_or(key))
}

/// The slot of a whole text.
const fn slot_of(text: &[u8]) -> u16 {
    let (mut crc, mut rest) = (0_u16, text);
    while let [byte, after @ ..] = rest {
        crc ^= (*byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 };
            bit += 1;
        }
        rest = after;
    }
    crc & 0x3fff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_becomes_the_hash_tag_of_its_side_keys() {
        let side = |key: &str| String::from(Name::new(key.into(), Family::Lock).side());
        assert_eq!(side("a"), "leasehold:{a}:");
        assert_eq!(side("{a}"), "leasehold::{a}:");
        assert_eq!(side("x{a}y"), "leasehold::x{a}y:");
    }

    #[test]
    fn in_a_cluster_each_slot_has_a_counter_of_its_own() {
        for slot in 0..1 << 14 {
            assert_eq!(hash_slot(&slot_tag(slot)), slot);
        }
        let mut command = Command::with_capacity(64, 1);
        FenceCounter::Slots("leasehold:fence:").push(&mut command, &Name::new("x{a}y".into(), Family::Lock));
        let fence = command.words().next().unwrap();
        assert_eq!(hash_slot(fence), hash_slot(b"a"), "{fence:?}");
        assert!(fence.starts_with(b"leasehold:fence:{"), "{fence:?}");
    }

    #[test]
    fn a_key_is_in_the_slot_that_a_cluster_tells() {
        // As CLUSTER KEYSLOT answers.
        let slot = |key: &str| hash_slot(key.as_bytes());
        assert_eq!(slot("123456789"), 12739);
        assert_eq!(slot("foo"), 12182);
        assert_eq!(slot(""), 0);
        for (key, tag) in [("x{foo}y", "foo"), ("leasehold:{a}:fence", "a"), ("x{y}{z}", "y"), ("{{a}", "{a")] {
            assert_eq!(slot(key), slot(tag), "{key}");
        }
        assert_ne!(slot("foo{}"), slot("foo"), "an empty tag is none");
        assert_eq!(slot("{}x"), 10_595, "an empty tag is none");
    }

    #[test]
    fn names_that_could_not_keep_their_keys_together_are_refused() {
        for name in ["", "a}b", "}a", "x{y", "{}x", "{}{a}", "leasehold:{a}:fence"] {
            assert!(Name::check("", name).is_err(), "{name}");
        }
        for name in ["a", "{a}", "x{a}y", "{a}}", "{{a}", "a:b", "ключ"] {
            assert!(Name::check("", name).is_ok(), "{name}");
        }
        assert!(Name::check("lease", "hold:x").is_err());
        assert!(Name::check("", &"n".repeat(64 * 1024 + 1)).is_err());
        assert!(Name::check("", &"n".repeat(64 * 1024)).is_ok());
    }
}
