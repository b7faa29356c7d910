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

/// One script, ready for `EVALSHA` and `EVAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    /// Its name, which is unique.
    pub name: &'static str,
    /// The Lua text, without the comments of its file.
    pub source: &'static str,
    /// The same text in parts. The middle ones are shared between scripts, so a program that uses the parts carries
    /// each of them once.
    pub parts: [&'static str; 5],
    /// The SHA-1 of the text as 40 lower-case hexadecimal digits, as the server computes it.
    pub sha1: &'static str,
}

/// Takes a lock, waits for it, shows that a waiter is alive, or refills a lease.
pub const ACQUIRE: Script = scripts::ACQUIRE;
/// Gives up whatever a token has.
pub const RELEASE: Script = scripts::RELEASE;
/// Raises the TTL of a lease that the token still holds.
pub const RENEW: Script = scripts::RENEW;
/// Gives a lease a new token in the other mode.
pub const CONVERT: Script = scripts::CONVERT;
/// Raises a name's last fence to the one that a quorum agreed on.
pub const RAISE: Script = scripts::RAISE;
/// Tells who holds a lock and who waits for it.
pub const INSPECT: Script = scripts::INSPECT;
/// Takes several locks at once, or none.
pub const MULTI: Script = scripts::MULTI;
/// Runs the common path of several commands of one client.
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
    /// As [`FORCE`](crate::FORCE).
    pub const FORCE: Script = scripts::SEMAPHORE_FORCE;
}

/// Every script.
pub const ALL: [Script; 17] = [
    ACQUIRE,
    RELEASE,
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
    FORCE,
    reentrant::FORCE,
    semaphore::FORCE,
];

#[cfg(test)]
mod tests {
    use super::{ALL, BATCH, CONVERT, INSPECT, MULTI, RAISE, Script, reentrant, semaphore};

    /// A part of the prelude that every kind has: the first one, or the last one.
    fn has(script: &Script, part: usize) -> usize {
        script.source.matches(super::ACQUIRE.parts[part]).count()
    }

    #[test]
    fn scripts_that_ask_for_the_prelude_have_it_once_and_no_mark_is_left() {
        for script in ALL {
            let plain = [RAISE, INSPECT, MULTI, BATCH].contains(&script) || script.name.ends_with("renew");
            assert_eq!([has(&script, 1), has(&script, 3)], [usize::from(!plain); 2], "{}", script.name);
            assert!(!script.source.contains("--@"), "{}", script.name);
        }
        assert!(CONVERT.source.contains("'shared'"));
    }

    #[test]
    fn only_a_plain_lock_has_a_fast_path() {
        assert!(!super::ACQUIRE.parts[0].is_empty() && !super::RELEASE.parts[0].is_empty());
        for script in [reentrant::ACQUIRE, reentrant::RELEASE, semaphore::ACQUIRE, semaphore::RELEASE] {
            assert_eq!(script.parts[0], "", "{}", script.name);
        }
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
