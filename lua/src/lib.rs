//! The Lua scripts that decide on the server, each with its SHA-1 digest for `EVALSHA`.
//!
//! The header of each script and this crate's README describe its arguments and its answer. Each script stands on its
//! own: the parts that several scripts share are in `prelude/` and the build script inserts them. Comment lines are left
//! out.
//!
//! ```
//! let script = leasehold_lua::ACQUIRE;
//! assert_eq!(script.name, "acquire");
//! assert_eq!(script.sha1.len(), 40);
//! ```

#![no_std]

/// The texts, as the build script wrote them.
mod scripts {
    include!(concat!(env!("OUT_DIR"), "/scripts.rs"));
}

mod limits;

pub use limits::CUT_TTL;

/// One script, ready for `EVALSHA` and `EVAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    /// Its name, which is unique.
    pub name: &'static str,
    /// The Lua text, without the comments of its file.
    pub source: &'static str,
    /// The same text in parts. The middle ones are shared between scripts, so a program that uses the parts carries
    /// each of them once.
    pub parts: [&'static str; 6],
    /// The SHA-1 of the text as 40 lower-case hexadecimal digits, as the server computes it.
    pub sha1: &'static str,
}

/// With so many digits, the digest of each script begins differently.
pub const PREFIX: usize = 4;

impl Script {
    /// The beginning of its digest, which only this script has.
    pub const fn prefix(&self) -> [u8; PREFIX] {
        match self.sha1.as_bytes().first_chunk() {
            Some(prefix) => *prefix,
            None => [0; PREFIX],
        }
    }
}

/// Takes a lock, waits for it, shows that a waiter is alive, or refills a lease.
pub const ACQUIRE: Script = scripts::ACQUIRE;
/// Takes a lock that is free while nobody waits.
pub const ACQUIRE_FAST: Script = scripts::ACQUIRE_FAST;
/// Gives up whatever a token has.
pub const RELEASE: Script = scripts::RELEASE;
/// Gives a lock back while nobody waits.
pub const RELEASE_FAST: Script = scripts::RELEASE_FAST;
/// Raises the TTL of a lease that the token still holds.
pub const RENEW: Script = scripts::RENEW;
/// Gives a lease a new token in the other mode.
pub const CONVERT: Script = scripts::CONVERT;
/// Raises a quorum's last fence to the one that it agreed on.
pub const RAISE: Script = scripts::RAISE;
/// Tells who holds a lock and who waits for it.
pub const INSPECT: Script = scripts::INSPECT;
/// Takes several locks at once, or none.
pub const MULTI: Script = scripts::MULTI;
/// Runs the fast path of several commands of one client.
pub const BATCH: Script = scripts::BATCH;

/// Takes a lock from all of its holders.
pub const FORCE: Script = scripts::FORCE;

/// The scripts of a reentrant lock, in the wire format of Redisson's RLock.
pub mod reentrant {
    use crate::{Script, scripts};

    /// As [`ACQUIRE`](crate::ACQUIRE).
    pub const ACQUIRE: Script = scripts::REENTRANT_ACQUIRE;
    /// As [`RELEASE`](crate::RELEASE).
    pub const RELEASE: Script = scripts::REENTRANT_RELEASE;
    /// As [`RENEW`](crate::RENEW).
    pub const RENEW: Script = scripts::REENTRANT_RENEW;
    /// As [`FORCE`](crate::FORCE).
    pub const FORCE: Script = scripts::REENTRANT_FORCE;
}

/// The scripts of a semaphore.
pub mod semaphore {
    use crate::{Script, scripts};

    /// As [`ACQUIRE`](crate::ACQUIRE).
    pub const ACQUIRE: Script = scripts::SEMAPHORE_ACQUIRE;
    /// As [`RELEASE`](crate::RELEASE).
    pub const RELEASE: Script = scripts::SEMAPHORE_RELEASE;
    /// As [`RENEW`](crate::RENEW).
    pub const RENEW: Script = scripts::SEMAPHORE_RENEW;
    /// As [`CONVERT`](crate::CONVERT), without other modes.
    pub const CONVERT: Script = scripts::SEMAPHORE_CONVERT;
    /// As [`FORCE`](crate::FORCE).
    pub const FORCE: Script = scripts::SEMAPHORE_FORCE;
}

/// The scripts of a once: a lock whose holder stores a result. Its renewal is that of a reentrant lock.
pub mod once {
    use crate::{Script, scripts};

    /// As [`ACQUIRE`](crate::ACQUIRE). Answers `done` with the result if there is one.
    pub const ACQUIRE: Script = scripts::ONCE_ACQUIRE;
    /// As [`RELEASE`](crate::RELEASE). Stores a result too.
    pub const RELEASE: Script = scripts::ONCE_RELEASE;
    /// As [`FORCE`](crate::FORCE). Keeps a stored result.
    pub const FORCE: Script = scripts::ONCE_FORCE;
}

/// The scripts of an election. A term is renewed by [`reentrant::RENEW`].
pub mod election {
    use crate::{Script, scripts};

    /// As [`ACQUIRE`](crate::ACQUIRE).
    pub const ACQUIRE: Script = scripts::ELECTION_ACQUIRE;
    /// As [`RELEASE`](crate::RELEASE).
    pub const RELEASE: Script = scripts::ELECTION_RELEASE;
    /// As [`FORCE`](crate::FORCE).
    pub const FORCE: Script = scripts::ELECTION_FORCE;
    /// Tells who leads.
    pub const LEADER: Script = scripts::LEADER;
}

/// Every script.
pub const ALL: [Script; 27] = [
    ACQUIRE,
    ACQUIRE_FAST,
    RELEASE,
    RELEASE_FAST,
    RENEW,
    CONVERT,
    RAISE,
    INSPECT,
    MULTI,
    BATCH,
    reentrant::ACQUIRE,
    reentrant::RELEASE,
    reentrant::RENEW,
    semaphore::ACQUIRE,
    semaphore::RELEASE,
    semaphore::RENEW,
    semaphore::CONVERT,
    FORCE,
    reentrant::FORCE,
    semaphore::FORCE,
    once::ACQUIRE,
    once::RELEASE,
    once::FORCE,
    election::ACQUIRE,
    election::RELEASE,
    election::FORCE,
    election::LEADER,
];

#[cfg(test)]
mod tests {
    use super::{ALL, CONVERT, Script};

    /// How often a script has a part of the prelude.
    fn has(script: &Script, part: &str) -> usize {
        script.source.matches(part).count()
    }

    #[test]
    fn scripts_that_ask_for_the_prelude_have_it_once_and_no_mark_is_left() {
        let [_, base, _, queue, ..] = super::ACQUIRE.parts;
        for script in ALL {
            let short = script.name.rsplit('-').next().unwrap_or_default();
            let wants = ["acquire", "release", "convert", "force"].contains(&short);
            assert_eq!([has(&script, base), has(&script, queue)], [usize::from(wants); 2], "{}", script.name);
            assert!(!script.source.contains("--@"), "{}", script.name);
        }
        assert!(CONVERT.source.contains("'shared'"));
    }

    #[test]
    fn every_script_has_a_name_of_its_own() {
        for script in ALL {
            assert_eq!(ALL.iter().filter(|other| other.name == script.name).count(), 1, "{}", script.name);
        }
    }

    #[test]
    fn the_parts_are_the_text() {
        for script in ALL {
            assert_eq!(script.parts.concat(), script.source, "{}", script.name);
        }
    }

    #[test]
    fn lines_that_are_comments_are_left_out() {
        for script in ALL {
            assert!(!script.source.is_empty(), "{}", script.name);
            for line in script.source.lines() {
                assert!(!line.trim_start().starts_with("--"), "{}: {line}", script.name);
            }
        }
    }
}
