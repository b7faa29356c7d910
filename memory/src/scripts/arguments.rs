//! The keys and arguments of a script call.
//!
//! A client always sends the keys and arguments that lua/README.md lists. Lua would run a script with anything else, and
//! stop where it can't go on. Here such a call is refused before it changes anything.

use alloc::format;
use alloc::string::String;

use super::text;
use crate::answer::Refusal;
use crate::keys::number::integer;

#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a> {
    pub(crate) script: &'static str,
    pub(crate) keys: &'a [&'a [u8]],
    pub(crate) words: &'a [&'a [u8]],
}

/// The keys of a lock, as lua/README.md numbers them. No script touches the sixth.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) fence: &'a [u8],
    pub(crate) queue: &'a [u8],
    pub(crate) waiters: &'a [u8],
    /// `readers` or `permits`.
    pub(crate) members: &'a [u8],
}

/// Whether waiters are granted the lock, or poll for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fleet {
    Native,
    /// Clients of other libraries take part.
    Mixed,
}

/// Fences have at most 53 bits, and times and counts are far below that.
const GREATEST: u64 = 1 << 53;

impl<'a> Arguments<'a> {
    pub(crate) fn keys<const N: usize>(&self) -> Result<&'a [&'a [u8]; N], Refusal> {
        self.keys.try_into().map_err(|_| self.wrong(&format!("has {} keys and needs {N}", self.keys.len())))
    }

    pub(crate) fn words<const N: usize>(&self) -> Result<&'a [&'a [u8]; N], Refusal> {
        self.words.try_into().map_err(|_| self.wrong(&format!("has {} arguments and needs {N}", self.words.len())))
    }

    pub(crate) fn lock_keys(&self) -> Result<Keys<'a>, Refusal> {
        let [name, fence, queue, waiters, members, _] = *self.keys::<6>()?;
        Ok(Keys { name, fence, queue, waiters, members })
    }

    pub(crate) fn number(&self, what: &str, word: &[u8]) -> Result<i64, Refusal> {
        integer(word)
            .ok()
            .filter(|number| number.unsigned_abs() <= GREATEST)
            .ok_or_else(|| self.bad(what, word, "a whole number"))
    }

    /// The greatest fence that the caller used. The script cuts a wrong one that is too great.
    pub(crate) fn used_fence(&self, word: &[u8]) -> Result<i64, Refusal> {
        text::number(word).ok_or_else(|| self.bad("used fence", word, "a whole number"))
    }

    pub(crate) fn fleet(&self, word: &[u8]) -> Result<Fleet, Refusal> {
        match word {
            b"native" => Ok(Fleet::Native),
            b"mixed" => Ok(Fleet::Mixed),
            _ => Err(self.bad("fleet", word, "native or mixed")),
        }
    }

    pub(crate) fn bad(&self, what: &str, word: &[u8], wanted: &str) -> Refusal {
        let shown = String::from_utf8_lossy(word.get(..40).unwrap_or(word));
        self.wrong(&format!("has the {what} '{shown}', which is not {wanted}"))
    }

    pub(crate) fn wrong(&self, problem: &str) -> Refusal {
        format!("ERR Error running script: the call of {} {problem}", self.script).into()
    }
}
