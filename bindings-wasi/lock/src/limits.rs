//! How much one instance takes, over all of its managers.
//!
//! A host counts handles (wasmtime allows 100,000 by default) and ends the instance when it exceeds the limit. A call
//! under way needs five: the loan of its manager or lease, its task, its set of waitables, and both ends of the stream
//! by which the driver wakes it. A hold also has a timer. A command needs two, or six if the provider is in the same
//! store. A manager has about thirty, a lease one. Memory is limited too, so long names count more.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::bindings::exports::leasehold::lock::locks::Error;
use crate::error;

/// Calls under way.
static CALLS: Limit = Limit::new(4_096);
/// This many of them are for releases only. Otherwise, calls that wait for a lock could keep its holder from giving it
/// back.
const FOR_RELEASES: usize = 1_024;
/// Handles to leases.
static LEASES: Limit = Limit::new(16_384);
/// Managers that have not ended. Each server of a quorum counts as one.
static MANAGERS: Limit = Limit::new(128);
/// Commands that have no answer yet.
static COMMANDS: Limit = Limit::new(4_096);

/// Each of this many bytes of names or commands counts as one more.
const BYTES: usize = 16 << 10;

struct Limit {
    most: usize,
    taken: AtomicUsize,
}

/// A part of a limit. Dropping it gives it back.
pub(crate) struct Taken(&'static Limit, usize);

/// Whether there is room for one more call that is not a release.
pub(crate) fn may_call() -> Result<(), Error> {
    CALLS.check(1 + FOR_RELEASES)
}

/// Whether there is room for one more call that returns a lease.
pub(crate) fn may_acquire(bytes: usize) -> Result<(), Error> {
    may_have_a_lease(bytes)?;
    CALLS.check(weight(bytes) + FOR_RELEASES)
}

pub(crate) fn may_release() -> Result<(), Error> {
    CALLS.check(1)
}

pub(crate) fn may_have_a_lease(bytes: usize) -> Result<(), Error> {
    LEASES.check(weight(bytes))
}

/// Counts a call that has begun.
pub(crate) fn call(bytes: usize) -> Taken {
    CALLS.take(weight(bytes))
}

pub(crate) fn lease(bytes: usize) -> Taken {
    LEASES.take(weight(bytes))
}

pub(crate) fn manager(servers: usize) -> Result<Taken, Error> {
    MANAGERS.check(servers)?;
    Ok(MANAGERS.take(servers))
}

/// None if the limit is reached.
pub(crate) fn command(bytes: usize) -> Option<Taken> {
    COMMANDS.has(weight(bytes)).then(|| COMMANDS.take(weight(bytes)))
}

const fn weight(bytes: usize) -> usize {
    1 + bytes / BYTES
}

impl Limit {
    const fn new(most: usize) -> Self {
        Self { most, taken: AtomicUsize::new(0) }
    }

    fn has(&self, room: usize) -> bool {
        self.taken.load(Ordering::Relaxed).saturating_add(room) <= self.most
    }

    fn check(&self, room: usize) -> Result<(), Error> {
        if self.has(room) { Ok(()) } else { Err(error::overloaded()) }
    }

    fn take(&'static self, amount: usize) -> Taken {
        self.taken.fetch_add(amount, Ordering::Relaxed);
        Taken(self, amount)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(self.1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_many_is_refused_until_something_ends() {
        static LIMIT: Limit = Limit::new(4);
        let (two, one) = (LIMIT.take(2), LIMIT.take(1));
        assert!(LIMIT.check(1).is_ok());
        let error = LIMIT.check(2).unwrap_err();
        assert!(error.retryable && !LIMIT.has(usize::MAX), "{error:?}");
        drop(two);
        assert!(LIMIT.check(3).is_ok() && LIMIT.check(4).is_err());
        drop(one);
        assert!(LIMIT.check(4).is_ok());
    }

    #[test]
    fn long_names_count_as_several() {
        assert_eq!([0, 16_383, 16_384, 1 << 20].map(weight), [1, 1, 2, 65]);
    }
}
