//! What acquire, release, convert and force share, as `lua/src/prelude`: the clock and the counter of fences (`base`),
//! the state of a kind of lock (`lock`, `semaphore`, and over `one_holder` `reentrant`, `once`, `election`), and the queue with its grants (`queue`).

mod base;
mod election;
mod lock;
mod once;
mod one_holder;
mod queue;
mod reentrant;
mod semaphore;

pub(crate) use base::{Base, Counter, ToStore, cut};
pub(crate) use election::{ElectionState, NOT_AN_ELECTION, one_leader};
pub(crate) use lock::LockState;
pub(crate) use once::{OnceState, fence_in};
pub(crate) use one_holder::OneHolder;
pub(crate) use queue::{Prelude, Said};
pub(crate) use reentrant::{ReentrantState, channel_of, one_owner, waiting};
pub(crate) use semaphore::{NOT_A_SEMAPHORE, SemaphoreState};

use alloc::vec::Vec;

use super::call::Done;

pub(crate) const EXCLUSIVE: &[u8] = b"exclusive";
pub(crate) const SHARED: &[u8] = b"shared";

/// The state of a kind of lock on the server.
pub(crate) trait Kind: Sized {
    /// Whether a client may keep a lock that nobody holds.
    const LINGERS: bool;

    /// Reads every key that counts before the first write, so one of the wrong type fails the script while nothing has
    /// changed.
    fn read(base: &mut Base<'_>) -> Done<Self>;

    /// Fails if the mode that the caller asks for is another kind of what is there.
    fn check(&mut self, _: &mut Base<'_>, _: &[u8]) -> Done {
        Ok(())
    }

    /// How long the permits of a semaphore with a rate count, in ms. 0 without one.
    fn per(&self) -> i64 {
        0
    }

    /// Whether an argument is a mode of this kind. The lock takes others as modes that are never granted.
    fn is_mode(mode: &[u8]) -> bool;

    /// Removes the holders whose time is over.
    fn purge(&mut self, base: &mut Base<'_>) -> Done;

    /// The mode in which a token holds the lock. If the server has lost it, `asked` counts, and so it does if
    /// only the limit of permits differs.
    fn held(&self, base: &mut Base<'_>, token: &[u8], asked: &[u8]) -> Done<Option<Vec<u8>>>;

    /// What a new acquire tells about the lock.
    fn propose(&mut self, base: &mut Base<'_>, mode: &[u8]) -> Done;

    /// Whether a waiter of this mode can be granted now. A waiter of another kind never can. It asks for itself.
    fn compatible(&self, mode: &[u8]) -> bool;

    /// Gives the lock to a token.
    fn hold(&mut self, base: &mut Base<'_>, token: &[u8], mode: &[u8], ms: i64) -> Done;

    /// Raises a token's remaining time to `ms` and returns the new value.
    fn raise(&mut self, base: &mut Base<'_>, token: &[u8], mode: &[u8], ms: i64) -> Done<i64>;

    /// Takes the lock, or its share of it, from a token. True if the token held anything. The permits of a rate count until
    /// they end, unless they are taken by force.
    fn give_up(&mut self, base: &mut Base<'_>, token: &[u8]) -> Done<bool>;

    /// As `give_up`, by force.
    fn take(&mut self, base: &mut Base<'_>, token: &[u8]) -> Done<bool> {
        self.give_up(base, token)
    }

    /// The first holders, up to this rank. -1 is all.
    fn holders(&self, base: &mut Base<'_>, till: i64) -> Done<Vec<Vec<u8>>>;

    /// When the lock is free at the latest, unless it is renewed.
    fn left(&self, base: &mut Base<'_>) -> Done<i64>;

    /// The answer for a token that holds nothing.
    fn absent(&self) -> &'static str;

    /// Whether another library's client holds the lock.
    fn foreign(&self, base: &mut Base<'_>) -> Done<bool>;

    /// Tells the holder's client that others wait, when it gives the lock back.
    fn mark_holder(&mut self, base: &mut Base<'_>) -> Done;

    /// How many readers a lock has.
    fn readers(&self) -> i64 {
        0
    }

    /// The fence of the lease, if this kind keeps it until the lease ends.
    fn epoch(&self) -> Option<i64> {
        None
    }

    /// Publishes what has changed, if this kind has something to say.
    fn announce(&mut self, _: &mut Base<'_>) {}

    /// Frees a lock whose only holder gets a token in the other mode.
    fn free_for_conversion(&mut self, _: &mut Base<'_>) -> Done {
        Ok(())
    }

    /// The stored result of a once: its fence and its value.
    fn result(&self) -> Option<(i64, &[u8])> {
        None
    }

    /// The holder and its fence, if one client holds the lock.
    fn holder(&self) -> Option<(&[u8], i64)>;
}
