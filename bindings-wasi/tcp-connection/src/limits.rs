//! How much one instance accepts, over all of its endpoints.
//!
//! A host ends an instance that has too many handles, and memory is limited. A call has four handles and its command's
//! bytes. A subscription has eleven handles and a connection.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bindings::exports::leasehold::lock::connection::Failure;

/// Running calls.
pub(crate) static CALLS: Limit = Limit::new(8_192, "calls under way");
/// A call counts once more for each of this many bytes of its command.
const BYTES_PER_UNIT: usize = 16 << 10;

pub(crate) static SUBSCRIPTIONS: Limit = Limit::new(1_024, "subscriptions");

pub(crate) struct Limit {
    max: usize,
    /// What is counted, for the error.
    name: &'static str,
    used: AtomicUsize,
}

/// A part of a limit. Dropping it returns the part.
pub(crate) struct Permit(&'static Limit, usize);

impl Limit {
    const fn new(max: usize, name: &'static str) -> Self {
        Self { max, name, used: AtomicUsize::new(0) }
    }

    /// Takes a part for a call of this many bytes. If the limit is reached, the caller may try again later.
    pub(crate) fn take(&'static self, bytes: usize) -> Result<Permit, Failure> {
        let amount = 1 + bytes / BYTES_PER_UNIT;
        if self.used.load(Ordering::Relaxed).saturating_add(amount) > self.max {
            return Err(Failure::Unavailable(format!(
                "too many {}: this connection provider takes {}",
                self.name, self.max
            )));
        }
        self.used.fetch_add(amount, Ordering::Relaxed);
        Ok(Permit(self, amount))
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
        static LIMIT: Limit = Limit::new(4, "things");
        let (one, two) = (LIMIT.take(0).unwrap(), LIMIT.take(BYTES_PER_UNIT).unwrap());
        assert!(
            matches!(LIMIT.take(BYTES_PER_UNIT), Err(Failure::Unavailable(text)) if text.contains("too many things"))
        );
        drop(one);
        let three = LIMIT.take(BYTES_PER_UNIT).unwrap();
        assert!(LIMIT.take(0).is_err());
        drop((two, three));
        assert!(LIMIT.take(3 * BYTES_PER_UNIT).is_ok());
    }
}
