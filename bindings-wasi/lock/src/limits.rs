//! How much one instance accepts, over all of its managers.
//!
//! A host counts handles (wasmtime allows 100,000 by default) and ends the instance when it exceeds the limit. A running
//! call needs five: the loan of its manager or lease, its task, its set of waitables, and both ends of the stream
//! through which the driver wakes it. A `hold` also has a timer. A command needs two, or six if the provider is in the
//! same store. A manager has about thirty, a lease one. Memory is limited too, so long names count more.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::bindings::exports::leasehold::lock::locks::Error;
use crate::error;

/// Running calls.
static CALLS: Limit = Limit::new(4_096);
/// How many of them can only be releases. Otherwise, calls that wait for a lock could keep its holder from releasing it.
const RESERVED_FOR_RELEASES: usize = 1_024;
/// Handles to leases.
static LEASES: Limit = Limit::new(16_384);
/// Managers whose driver has not stopped. Each server of a quorum counts as one.
static MANAGERS: Limit = Limit::new(128);
/// Commands that have no answer yet.
static COMMANDS: Limit = Limit::new(4_096);
/// Calls of the provider that were given up and still go on.
static LEFT_CALLS: Limit = Limit::new(256);

/// A call, a lease or a command counts once more for each of this many bytes of its names, words or results.
const BYTES_PER_UNIT: usize = 16 << 10;

struct Limit {
    max: usize,
    used: AtomicUsize,
}

/// A part of a limit. Dropping it returns the part.
pub(crate) struct Permit(&'static Limit, usize);

/// Fails if there is no room for one more call that is not a release.
pub(crate) fn check_call() -> Result<(), Error> {
    CALLS.check(1 + RESERVED_FOR_RELEASES)
}

/// Fails if there is no room for one more call that returns a lease. `bytes` is the length of its names.
pub(crate) fn check_acquire(bytes: usize) -> Result<(), Error> {
    check_lease(bytes)?;
    CALLS.check(units(bytes) + RESERVED_FOR_RELEASES)
}

pub(crate) fn check_release() -> Result<(), Error> {
    check_store(0)
}

/// Fails if there is no room for one more call that stores a result of this length. It gives a lease back, too.
pub(crate) fn check_store(bytes: usize) -> Result<(), Error> {
    CALLS.check(units(bytes))
}

pub(crate) fn check_lease(bytes: usize) -> Result<(), Error> {
    LEASES.check(units(bytes))
}

/// Counts a call that was checked before.
pub(crate) fn call_permit(bytes: usize) -> Permit {
    CALLS.take(units(bytes))
}

/// Counts a lease that was checked before.
pub(crate) fn lease_permit(bytes: usize) -> Permit {
    LEASES.take(units(bytes))
}

pub(crate) fn manager_permit(servers: usize) -> Result<Permit, Error> {
    MANAGERS.check(servers)?;
    Ok(MANAGERS.take(servers))
}

/// None if the limit is reached.
pub(crate) fn command_permit(bytes: usize) -> Option<Permit> {
    COMMANDS.has_room(units(bytes)).then(|| COMMANDS.take(units(bytes)))
}

/// None if the limit is reached.
pub(crate) fn left_call_permit() -> Option<Permit> {
    LEFT_CALLS.has_room(1).then(|| LEFT_CALLS.take(1))
}

const fn units(bytes: usize) -> usize {
    1 + bytes / BYTES_PER_UNIT
}

impl Limit {
    const fn new(max: usize) -> Self {
        Self { max, used: AtomicUsize::new(0) }
    }

    fn has_room(&self, amount: usize) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(amount) <= self.max
    }

    fn check(&self, amount: usize) -> Result<(), Error> {
        if self.has_room(amount) { Ok(()) } else { Err(error::overloaded()) }
    }

    fn take(&'static self, amount: usize) -> Permit {
        self.used.fetch_add(amount, Ordering::Relaxed);
        Permit(self, amount)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.used.fetch_sub(self.1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_limit_refuses_until_something_ends() {
        static LIMIT: Limit = Limit::new(4);
        let (two, one) = (LIMIT.take(2), LIMIT.take(1));
        assert!(LIMIT.check(1).is_ok());
        let error = LIMIT.check(2).unwrap_err();
        assert!(error.retryable && !LIMIT.has_room(usize::MAX), "{error:?}");
        drop(two);
        assert!(LIMIT.check(3).is_ok() && LIMIT.check(4).is_err());
        drop(one);
        assert!(LIMIT.check(4).is_ok());
    }

    #[test]
    fn long_names_count_as_several_units() {
        assert_eq!([0, 16_383, 16_384, 1 << 20].map(units), [1, 1, 2, 65]);
    }
}
