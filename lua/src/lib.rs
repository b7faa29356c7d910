//! The Lua scripts that decide on the server, each with its SHA-1 digest for `EVALSHA`.
//!
//! The header of each script and this crate's README describe its arguments and its answer. Each script stands on its
//! own: the parts that several scripts share are in `prelude/` and are inserted at compile time. Comment lines are left
//! out.
//!
//! ```
//! let script = leasehold_lua::ACQUIRE;
//! assert_eq!(script.name, "acquire");
//! assert_eq!(script.sha1.len(), 40);
//! ```

#![no_std]

mod embed;
mod sha1;

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
pub const ACQUIRE: Script = embed::script!("acquire");
/// Gives up whatever a token has.
pub const RELEASE: Script = embed::script!("release");
/// Raises the TTL of a lease that the token still holds.
pub const RENEW: Script = embed::script!("renew");
/// Gives a lease a new token in the other mode.
pub const CONVERT: Script = embed::script!("convert");
/// Raises a name's last fence to the one that a quorum agreed on.
pub const RAISE: Script = embed::script!("raise");
/// Tells who holds a lock and who waits for it.
pub const INSPECT: Script = embed::script!("inspect");
/// Takes several locks at once, or none.
pub const MULTI: Script = embed::script!("multi");

/// Takes a lock from all of its holders.
pub const FORCE: Script = embed::script!("force");

/// The scripts of a reentrant lock, in the wire format of Redisson's RLock.
pub mod reentrant {
    use crate::{Script, embed};

    /// As [`ACQUIRE`](crate::ACQUIRE).
    pub const ACQUIRE: Script = embed::script!("reentrant-acquire", "acquire", REENTRANT);
    /// As [`RELEASE`](crate::RELEASE).
    pub const RELEASE: Script = embed::script!("reentrant-release", "release", REENTRANT);
    /// As [`RENEW`](crate::RENEW).
    pub const RENEW: Script = embed::script!("reentrant-renew");
    /// As [`FORCE`](crate::FORCE).
    pub const FORCE: Script = embed::script!("reentrant-force", "force", REENTRANT);
}

/// The scripts of a semaphore.
pub mod semaphore {
    use crate::{Script, embed};

    /// As [`ACQUIRE`](crate::ACQUIRE).
    pub const ACQUIRE: Script = embed::script!("semaphore-acquire", "acquire", SEMAPHORE);
    /// As [`RELEASE`](crate::RELEASE).
    pub const RELEASE: Script = embed::script!("semaphore-release", "release", SEMAPHORE);
    /// As [`RENEW`](crate::RENEW).
    pub const RENEW: Script = embed::script!("semaphore-renew");
    /// As [`FORCE`](crate::FORCE).
    pub const FORCE: Script = embed::script!("semaphore-force", "force", SEMAPHORE);
}

/// Every script.
pub const ALL: [Script; 16] = [
    ACQUIRE,
    RELEASE,
    RENEW,
    CONVERT,
    RAISE,
    INSPECT,
    MULTI,
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
