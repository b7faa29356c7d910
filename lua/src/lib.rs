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

// The constants of all scripts, and `ALL`, as the build script wrote them.
include!(concat!(env!("OUT_DIR"), "/scripts.rs"));

mod limits;

pub use limits::CUT_TTL;

/// One script, ready for `EVALSHA` and `EVAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    /// Its name, which is unique.
    pub name: &'static str,
    /// The Lua text, without the comments of its file.
    pub source: &'static str,
    /// The same text in parts. Scripts share most of them, so a program that uses the parts carries each of these once.
    pub parts: &'static [&'static str],
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

#[cfg(test)]
mod tests {
    use super::{ALL, CONVERT, Script};

    /// How often a script has a part of the prelude.
    fn has(script: &Script, part: &str) -> usize {
        script.source.matches(part).count()
    }

    #[test]
    fn scripts_that_ask_for_the_prelude_have_it_once_and_no_mark_is_left() {
        let (base, queue) = (super::BASE_PRELUDE_1, super::QUEUE_PRELUDE_0);
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
